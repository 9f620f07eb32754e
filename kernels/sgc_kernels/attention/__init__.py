"""Attention over paged keys and values: the contract and its implementations."""
