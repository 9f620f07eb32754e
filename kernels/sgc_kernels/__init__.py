"""Tensor operations: one plain and, later, one fast version of each."""
