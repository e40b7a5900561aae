"""LoRA adapters: those that are loaded, and the routes that load and unload them."""
