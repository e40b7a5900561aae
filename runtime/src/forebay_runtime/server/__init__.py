"""The OpenAI-compatible server around an engine."""
