"""Grammars: a text is legal where the start rule derives it, whatever the tokens between.

The meaning is that of lark's Earley parser with the lexer `dynamic_complete`: terminals may begin
and end wherever the rules allow, and the priorities of terminals and rules do not matter.
"""

from __future__ import annotations

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.digest import language_digest
from sgc_ir.automata.grammar.forms import Grammar
from sgc_ir.automata.grammar.gbnf_text import is_gbnf, read_gbnf
from sgc_ir.automata.grammar.lark_text import read_lark
from sgc_ir.automata.grammar.rules import expression_of
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits, Tick, unwatched
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.errors import ConstraintError

_MAX_CHARS = 100_000  # no reader can be interrupted


def grammar_automaton(text: str, limits: Limits = DEFAULT_LIMITS) -> Automaton:
    """The automaton of the texts that a grammar derives.

    Args:
        text: the grammar, in lark's syntax with the start rule `start`, or in GBNF or EBNF
            (`root ::= ...`).

    Raises:
        ConstraintError: the grammar is malformed, uses a construct that is not supported (named in
            the message), derives no text, or passes a limit.
    """
    known: list[Grammar] = []  # what is made may be made again, without rules that never end

    def make(pool: Pool) -> Node:
        if not known:
            known.append(read_grammar(text, limits, pool.tick))
        return _expression(pool, known[0])

    digest = language_digest("grammar", text)
    return Automaton(make, digest, limits)


def read_grammar(text: str, limits: Limits = DEFAULT_LIMITS, tick: Tick = unwatched) -> Grammar:
    """The rules and terminals that `text` describes, in either notation.

    Args:
        tick: is told how many pieces of work were done; may raise, as `Pool.tick` does.

    Raises:
        ConstraintError: the grammar is malformed, unsupported or too large.
    """
    if len(text) > _MAX_CHARS:
        raise ConstraintError(
            f"the grammar has {len(text)} characters and at most {_MAX_CHARS} are read; split it"
        )
    tick(len(text))
    try:
        return read_gbnf(text, tick) if is_gbnf(text) else read_lark(text, limits, tick)
    except RecursionError:
        raise ConstraintError("the grammar nests too many groups; flatten it") from None


def _expression(pool: Pool, grammar: Grammar) -> Node:
    try:
        return expression_of(pool, grammar)
    except RecursionError:
        raise ConstraintError("the grammar nests too many groups; flatten it") from None
