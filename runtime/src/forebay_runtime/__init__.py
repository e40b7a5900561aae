"""Forebay's runtime: a batching LLM engine behind an OpenAI-compatible server."""
