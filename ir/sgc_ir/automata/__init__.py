"""Regex, JSON Schema and grammar to lazily built byte automata; no tokenizer, no torch."""
