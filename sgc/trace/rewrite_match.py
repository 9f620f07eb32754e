"""Turns the patterns of a `match` into plain data that the runtime tries one after another.

("value", thunk)  ("constant", c)  ("or", patterns)  ("as", pattern or None, name or None)
("sequence", patterns)  ("star", name or None)  ("mapping", ((thunk, pattern), ..), rest)
("class", thunk, patterns, ((attribute, pattern), ..))
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from sgc.trace import emit

Thunk = Callable[[ast.expr], ast.expr]


def pattern(node: ast.pattern, thunk: Thunk) -> ast.expr:
    """The expression that builds the data of one pattern."""
    match node:
        case ast.MatchValue(value):
            return _record("value", thunk(value))
        case ast.MatchSingleton(value):
            return _record("constant", emit.constant(value))
        case ast.MatchOr(patterns):
            return _record("or", _all(patterns, thunk))
        case ast.MatchAs(inner, name):
            shape = emit.constant(None) if inner is None else pattern(inner, thunk)
            return _record("as", shape, emit.constant(name))
        case ast.MatchSequence(patterns):
            return _record("sequence", _all(patterns, thunk))
        case ast.MatchStar(name):
            return _record("star", emit.constant(name))
        case ast.MatchMapping(keys, patterns, rest):
            entries = zip(keys, patterns, strict=True)
            pairs = [emit.tuple_of([thunk(k), pattern(p, thunk)]) for k, p in entries]
            return _record("mapping", emit.tuple_of(pairs), emit.constant(rest))
        case ast.MatchClass(cls, patterns, names, by_name):
            named = zip(names, by_name, strict=True)
            pairs = [emit.tuple_of([emit.constant(n), pattern(p, thunk)]) for n, p in named]
            return _record("class", thunk(cls), _all(patterns, thunk), emit.tuple_of(pairs))
    raise AssertionError(f"unknown pattern {type(node).__name__}")


def _all(patterns: list[ast.pattern], thunk: Thunk) -> ast.expr:
    return emit.tuple_of([pattern(p, thunk) for p in patterns])


def _record(kind: str, *fields: ast.expr) -> ast.expr:
    return emit.tuple_of([emit.constant(kind), *fields])
