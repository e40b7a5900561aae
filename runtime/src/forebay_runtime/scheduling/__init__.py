"""Which sequence runs how many tokens in which blocks. Standard library only."""
