"""The terminals of a grammar as expressions."""

from __future__ import annotations

from sgc_ir.automata.grammar.forms import Chars, Grammar, Letters, Terminal
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import regex_expression
from sgc_ir.errors import ConstraintError


class Words:
    """Makes the expression of each terminal, with what is ignored before it."""

    def __init__(self, pool: Pool, grammar: Grammar) -> None:
        self._pool = pool
        self._grammar = grammar
        self._known: dict[str, Node] = {}
        ignored = [self._bare(name) for name in grammar.ignored]
        self.skipped = pool.repeat(pool.union(ignored), 0, None)

    def at(self, name: str) -> Node:
        """What may be ignored, then terminal `name`."""
        node = self._known.get(name)
        if node is None:
            node = self._pool.sequence(self.skipped, self._bare(name))
            self._known[name] = node
        return node

    def _bare(self, name: str) -> Node:
        try:
            node = terminal_expression(self._pool, self._grammar.terminals[name])
        except ConstraintError as error:
            where = f"terminal {name}" + (f", {error.where}" if error.where else "")
            raise ConstraintError(error.reason, kind=error.kind, where=where) from error
        if node.nullable:
            raise ConstraintError(
                "it matches the empty text; make what it is used in optional instead",
                kind="malformed",
                where=f"terminal {name}",
            )
        return node


def terminal_expression(pool: Pool, terminal: Terminal) -> Node:
    """The texts of one terminal."""
    if isinstance(terminal, Letters):
        return pool.string(terminal.text)
    if isinstance(terminal, Chars):
        return pool.one_of(terminal.ranges)
    return regex_expression(pool, terminal.regex)
