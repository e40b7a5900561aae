"""One file per engine: its arguments, probes and metric names. The only place that knows an engine."""
