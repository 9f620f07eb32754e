"""Streams and the graph executor: one event loop, no thread per stream."""
