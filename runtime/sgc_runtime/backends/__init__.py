"""Backends that answer a stream's calls."""
