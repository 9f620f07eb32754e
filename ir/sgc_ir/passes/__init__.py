"""Passes: each takes a program and gives an equivalent one, and says what it changed."""
