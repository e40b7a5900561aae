"""Forebay's control plane: the operator, the metrics adapter and the gateway."""
