"""Forms of weights with few bits, and their products."""
