"""The operator with many services, on a real cluster."""
