"""Parses Python text in one thread at a time.

CPython counts the depth of the trees that it makes in one place for all threads, so that two of
them fail with "AST constructor recursion depth mismatch" (CPython issue 106905).
"""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()


def parse_module(text: str) -> ast.Module:
    """The tree of statements. Raises SyntaxError."""
    with _LOCK:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The tree of one expression. Raises SyntaxError."""
    with _LOCK:
        return ast.parse(text, mode="eval").body
