"""How fast: the engine timed on problem lines beside PyTorch, and JAX, where they are installed."""
