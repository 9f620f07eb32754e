"""Evaluation suites: LM programs with data, scores and reports."""
