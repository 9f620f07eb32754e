"""The journal of a run: finished nodes and rows, so that a run killed at any moment resumes."""
