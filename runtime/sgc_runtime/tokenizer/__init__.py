"""Tokenizers, chat templates, incremental detokenisation."""
