"""Constraints on a gen's text at the level of tokens."""
