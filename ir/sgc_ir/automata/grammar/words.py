"""The terminals of a grammar as expressions."""

from __future__ import annotations

from sgc_ir.automata.grammar.forms import Chars, Grammar, Letters, Terminal
from sgc_ir.automata.grammar.ignored import Ignored
from sgc_ir.automata.grammar.preferred import terminal_pattern
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.errors import ConstraintError


class Words:
    """Makes the expression of each terminal, with what is ignored before it."""

    def __init__(self, pool: Pool, grammar: Grammar) -> None:
        self._pool = pool
        self._grammar = grammar
        self._known: dict[str, Node] = {}
        self._ignored = Ignored(pool, [self._bare(name) for name in grammar.ignored])
        self.skipped = self._ignored.skipped

    def at(self, name: str) -> Node:
        """What may be ignored, then terminal `name`."""
        node = self._known.get(name)
        if node is None:
            node = self._known[name] = self._ignored.before(self._bare(name))
        return node

    def _bare(self, name: str) -> Node:
        try:
            node = terminal_expression(self._pool, self._grammar.terminals[name])
        except ConstraintError as error:
            where = f"terminal {name}" + (f", {error.where}" if error.where else "")
            raise ConstraintError(error.reason, kind=error.kind, where=where) from error
        return node


def terminal_expression(pool: Pool, terminal: Terminal) -> Node:
    """The texts of one terminal."""
    if isinstance(terminal, Letters):
        return pool.string(terminal.text)
    if isinstance(terminal, Chars):
        return pool.one_of(terminal.ranges)
    return terminal_pattern(pool, terminal.regex)
