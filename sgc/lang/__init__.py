"""The language: primitives and the state of an interpreted program."""
