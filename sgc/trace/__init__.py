"""Traces a program's source into a graph."""
