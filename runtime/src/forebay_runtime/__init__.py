"""Forebay's runtime: a batching LLM engine behind an OpenAI-compatible server."""

__version__ = "0.1.0"
