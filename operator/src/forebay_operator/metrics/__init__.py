"""The metrics adapter: what the autoscaler asks, from its own scrapes of the runtime pods."""
