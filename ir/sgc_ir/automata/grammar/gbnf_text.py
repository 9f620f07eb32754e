"""Grammars in the notations of llama.cpp (GBNF) and SGLang (EBNF): rules `name ::= ...`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from sgc_ir.automata.grammar.errors import malformed
from sgc_ir.automata.grammar.forms import (
    NOTHING,
    Chars,
    Form,
    Grammar,
    Letters,
    Name,
    Terminal,
    Word,
    names,
    options,
    series,
    times,
)
from sgc_ir.automata.grammar.gbnf_chars import read_set, read_string
from sgc_ir.automata.limits import Tick, unwatched
from sgc_ir.automata.utf8 import ALL_CHARS
from sgc_ir.errors import ConstraintError

START = "root"
_RULE = re.compile(r"^[^\S\n]*[A-Za-z0-9_-]+\s*::=", re.MULTILINE)
# What some readers of these notations know besides, and where it begins.
_REFUSED = (
    (re.compile(r"\(="), "a lookahead (= ...)"),
    (re.compile(r"!?<\[?[^\s<>]*\]?>"), "a token <...>"),
    (re.compile(r"(TagDispatch|Token|ExcludeToken|TokenTagDispatch)\s*\("), "a macro"),
)


def is_gbnf(text: str) -> bool:
    """Whether `text` is written with `::=`."""
    return _RULE.search(text) is not None


def read_gbnf(text: str, tick: Tick = unwatched) -> Grammar:
    """The grammar that `text` describes; its start rule is `root`.

    Raises:
        ConstraintError: not a grammar ("malformed", with line and column where they are known),
            or a construct of later dialects ("unsupported").
    """
    from lark.exceptions import LarkError, UnexpectedInput

    try:
        tree = _parser().parse(text)
        tick(len(text))
        return _Reader(tick).read(tree)
    except UnexpectedInput as error:
        place = getattr(error, "pos_in_stream", None)
        _refuse_known(text, len(text) if place is None else place)
        raise malformed(error, error.line, error.column) from error
    except LarkError as error:
        raise malformed(error) from error


@cache
def _parser() -> Any:
    from lark import Lark

    notation = files("sgc_ir.automata.grammar").joinpath("gbnf.lark").read_text("utf-8")
    return Lark(notation, parser="lalr", propagate_positions=True)


def _refuse_known(text: str, place: int) -> None:
    """Name a construct that is not supported where the reader stopped at it."""
    for pattern, what in _REFUSED:
        for found in pattern.finditer(text):
            if found.start() <= place <= found.end():
                line = text.count("\n", 0, found.start()) + 1
                raise ConstraintError(
                    f"{what} is not supported in a grammar; write it with rules",
                    kind="unsupported",
                    where=f"line {line}",
                )


class _Reader:
    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._rules: dict[str, Form] = {}
        self._terminals: dict[str, Terminal] = {}

    def read(self, tree: Any) -> Grammar:
        for rule in tree.children:
            head, choice = rule.children
            if str(head) in self._rules:
                raise _wrong(f"rule {head} is defined twice; mend the grammar", head)
            self._rules[str(head)] = self._form(choice)
        if START not in self._rules:
            raise ConstraintError(
                f"no rule is named {START}; name the first one so", kind="malformed"
            )
        for form in self._rules.values():
            for name in names(form):
                if name not in self._rules:
                    raise ConstraintError(
                        f"rule {name} is used and never defined; define it", kind="malformed"
                    )
        return Grammar(self._rules, self._terminals, start=START)

    def _form(self, tree: Any) -> Form:
        self._tick(1)
        if not hasattr(tree, "children"):
            return self._unit(tree)
        parts = tree.children
        if tree.data == "choice":
            return options([self._form(part) for part in parts])
        if tree.data == "series":
            return series([self._form(part) for part in parts])
        form = self._form(parts[0])
        for repeat in parts[1:]:
            form = _repeated(form, repeat)
        return form

    def _unit(self, token: Any) -> Form:
        text = str(token)
        if token.type == "NAME":
            return Name(text)
        if token.type == "ANY":
            self._terminals["."] = Chars(ALL_CHARS)
            return Word(".")
        try:
            if token.type == "SET":
                self._terminals[text] = Chars(read_set(text[1:-1]))
                return Word(text)
            letters = read_string(text[1:-1])
        except ValueError as error:
            raise _wrong(f"{error}; mend the grammar", token) from error
        if not letters:
            return NOTHING
        self._terminals[text] = Letters(letters)
        return Word(text)


def _repeated(form: Form, repeat: Any) -> Form:
    counts = [int(number) for number in repeat.children]
    if repeat.data in ("any", "some", "maybe"):
        return times(form, int(repeat.data == "some"), 1 if repeat.data == "maybe" else None)
    if counts[-1] < counts[0]:
        raise _wrong("a repetition has no count; mend the grammar", repeat.children[0])
    return times(form, counts[0], None if repeat.data == "at_least" else counts[-1])


def _wrong(message: str, token: Any) -> ConstraintError:
    where = f"line {token.line}, column {token.column}"
    return ConstraintError(message, kind="malformed", where=where)
