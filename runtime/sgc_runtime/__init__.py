"""What runs a graph: executor, streams, backends, and the engine with its radix cache."""
