"""Grammars of the scripted backend, followed with lark's Earley parser."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import lark
import regex

from sgc_runtime.backends.alphabet import representatives
from sgc_runtime.backends.scripted_rules import Limit


class GrammarRule:
    """The whole text is a sentence of a grammar in lark's syntax, start symbol `start`."""

    def __init__(self, grammar: str) -> None:
        self._parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
        self._terminals = {
            terminal.name: terminal.pattern.to_regexp() for terminal in self._parser.terminals
        }
        patterns = self._terminals.values()
        self._alphabet = tuple(dict.fromkeys(c for p in patterns for c in representatives(p)))

    def accepts(self, text: str) -> bool:
        try:
            self._parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        return True

    def limit(self, reply: str) -> Limit:
        end = self._viable_end(reply)
        text = reply[:end]
        complete = self.accepts(text) and not any(
            self._viable_end(text + c) > end for c in self._alphabet
        )
        return Limit(end, complete)

    def _viable_end(self, text: str) -> int:
        """Length of the longest beginning of `text` that some sentence begins with."""
        try:
            self._parser.parse(text)
        except lark.exceptions.UnexpectedEOF:
            return len(text)
        except lark.exceptions.UnexpectedCharacters as error:
            return self._partial_end(text, error)
        return len(text)

    def _partial_end(self, text: str, error: Any) -> int:
        # No terminal is complete from here on; one may still have begun at an earlier place.
        best = error.pos_in_stream
        for start in range(error.pos_in_stream, -1, -1):
            allowed = self._allowed_at(text[:start])
            for name in allowed:
                best = max(best, start + _partial(self._terminals[name], text[start:]))
            if best == len(text):
                break
        return int(best)

    def _allowed_at(self, text: str) -> set[str]:
        """Terminals that can follow `text`."""
        try:
            self._parser.parse(text + _IMPOSSIBLE)
        except lark.exceptions.UnexpectedCharacters as error:
            if error.pos_in_stream == len(text):
                return {name for name in error.allowed or () if name in self._terminals}
        except lark.exceptions.UnexpectedInput:
            return set()
        return set()


_IMPOSSIBLE = "\U0010fffe"  # a noncharacter


def _partial(pattern: str, text: str) -> int:
    """Length of the longest beginning of `text` that a match of `pattern` begins with."""
    compiled = regex.compile(pattern)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if compiled.fullmatch(text[:middle], partial=True) is not None:
            low = middle
        else:
            high = middle - 1
    return low


@lru_cache(maxsize=64)
def grammar_rule(grammar: str) -> GrammarRule:
    """The rule of a grammar, made once."""
    return GrammarRule(grammar)
