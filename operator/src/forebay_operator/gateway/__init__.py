"""The gateway: one OpenAI endpoint in front of every InferenceService."""
