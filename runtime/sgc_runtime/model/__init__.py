"""Models in torch and their weights."""
