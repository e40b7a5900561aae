"""Number formats of weights: the blocks of GGUF files, and int8 made on load."""
