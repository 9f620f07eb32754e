"""From the rules of a grammar to one expression: calls become references where rules recur."""

from __future__ import annotations

from collections.abc import Sequence

from sgc_ir.automata.grammar.forms import (
    NOTHING,
    Form,
    Grammar,
    Name,
    Options,
    Series,
    Times,
    Word,
    names,
    options,
    series,
)
from sgc_ir.automata.grammar.graph import components
from sgc_ir.automata.grammar.left import LeftRecursion
from sgc_ir.automata.grammar.words import Words
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool


def expression_of(pool: Pool, grammar: Grammar) -> Node:
    """The texts of the grammar's start rule.

    A rule that does not hold itself is written out where it is used; one that does is a rule of
    the pool, and the expression behind a reference to it is the pushdown's stack.
    """
    rules = _reachable(grammar.rules, grammar.start)
    left = LeftRecursion(rules)
    left.remove()
    rules = _reachable(rules, grammar.start)
    words = Words(pool, grammar)
    start = _Builder(pool, words, rules, left.nullable).build(grammar.start)
    return pool.sequence(start, words.skipped)


def _reachable(rules: dict[str, Form], start: str) -> dict[str, Form]:
    found: dict[str, Form] = {}
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = rules[name]
            todo += names(rules[name])
    return found


class _Builder:
    """Makes the expressions of all rules, those that a rule uses before it."""

    def __init__(
        self, pool: Pool, words: Words, rules: dict[str, Form], nullable: set[str]
    ) -> None:
        self._pool = pool
        self._words = words
        self._rules = rules
        self._nullable = nullable
        self._made: dict[str, Node] = {}

    def build(self, start: str) -> Node:
        edges = {name: sorted(set(names(form))) for name, form in self._rules.items()}
        for group in components(edges):
            if len(group) == 1 and group[0] not in edges[group[0]]:
                self._made[group[0]] = self._form(self._rules[group[0]])
            else:
                self._define(sorted(group))
        return self._made[start]

    def _define(self, group: list[str]) -> None:
        for name in group:
            self._made[name] = self._pool.rule(name, name in self._nullable)
        for name in group:
            self._pool.define(name, self._form(self._rules[name]))

    def _form(self, form: Form) -> Node:
        pool = self._pool
        if isinstance(form, Word):
            return self._words.at(form.name)
        if isinstance(form, Name):
            return self._made[form.name]
        if isinstance(form, Series):
            return pool.chain(*[self._form(part) for part in form.parts])
        if isinstance(form, Times):
            return pool.repeat(self._form(form.body), form.low, form.high)
        assert isinstance(form, Options)
        return pool.union([self._form(part) for part in _factored(form.parts)])


def _factored(parts: Sequence[Form]) -> list[Form]:
    """Alternatives with one beginning as that beginning and the alternatives behind it, so that
    what they share is followed once."""
    groups: dict[Form, list[Form]] = {}
    for part in parts:
        first: Form = part
        rest: Form = NOTHING
        if isinstance(part, Series) and part.parts:
            first, rest = part.parts[0], series(part.parts[1:])
        groups.setdefault(first, []).append(rest)
    return [
        first if rests == [NOTHING] else series([first, options(rests)])
        for first, rests in groups.items()
    ]
