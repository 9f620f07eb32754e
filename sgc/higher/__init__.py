"""Patterns over whole programs, written in the language itself: the tracer compiles them too."""
