"""/v1/embeddings: vectors from the served model's own hidden states."""
