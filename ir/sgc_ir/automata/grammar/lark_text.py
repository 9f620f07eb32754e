"""Grammars in lark's syntax, read with lark's own loader.

The loader (`lark.load_grammar.load_grammar`) gives the rules as trees, before repetitions become
helper rules, alternatives are multiplied out and templates are copied: each of those can grow
without bound inside `lark.Lark`, and a repetition that is still one is a smaller automaton.
Strings, ranges and terminals are then handed back to lark's `Grammar.compile`, so that every
terminal is the very regular expression that lark's parsers match.
"""

from __future__ import annotations

import re
from typing import Any

from sgc_ir.automata.grammar.errors import malformed
from sgc_ir.automata.grammar.forms import (
    NOTHING,
    Form,
    Grammar,
    Letters,
    Name,
    Pattern,
    Terminal,
    Word,
    options,
    series,
    times,
    words,
)
from sgc_ir.automata.grammar.lark_size import check_size
from sgc_ir.automata.limits import Limits, Tick, unwatched
from sgc_ir.errors import ConstraintError

LIBRARIES = ("common", "lark", "python", "unicode")  # the grammars that lark ships
_MAX_RULES = 20_000
_PLAIN = re.compile(r'"[^"\\\n]+"')  # strings that mean what they say, without lark's help


def read_lark(text: str, limits: Limits, tick: Tick = unwatched) -> Grammar:
    """The grammar that `text` describes.

    Raises:
        ConstraintError: not a grammar ("malformed", with line and column where lark knows them),
            an import from a file or a declared terminal ("unsupported"), or one that is too large.
    """
    check_size(text)
    loaded = _load(text)
    tick(len(text))
    grammar = _Reader(loaded, limits, tick).read()
    tick(len(text))
    return grammar


def _load(text: str) -> Any:
    from lark.exceptions import LarkError, UnexpectedInput
    from lark.load_grammar import load_grammar

    try:
        return load_grammar(text, "<string>", [_refuse_files], False)[0]
    except (ConstraintError, RecursionError):
        raise
    except UnexpectedInput as error:
        raise malformed(error, error.line, error.column) from error
    except (LarkError, AssertionError, ValueError, TypeError, IndexError, OSError) as error:
        token = error.args[1] if len(error.args) > 1 else None
        place = getattr(token, "line", None), getattr(token, "column", None)
        raise malformed(error, *place) from error


def _refuse_files(base_path: Any, grammar_path: str) -> tuple[str, str]:
    """An import path of lark's loader: lets it go on to its own grammars and to nothing else."""
    if grammar_path in [f"{name}.lark" for name in LIBRARIES]:
        if base_path is None or type(base_path).__name__ == "PackageResource":
            raise OSError
    name = grammar_path.removesuffix(".lark")
    raise ConstraintError(
        f"%import of {name}: a grammar imports from {', '.join(LIBRARIES)} only; "
        "write the rules of a file into the grammar",
        kind="unsupported",
    )


class _Reader:
    """Turns lark's trees into forms.

    Args:
        loaded: lark's `Grammar`: `rule_defs` (name, parameters, tree, options), `term_defs`
            (name, (tree, priority)) and `ignore`.
    """

    def __init__(self, loaded: Any, limits: Limits, tick: Tick) -> None:
        self._loaded = loaded
        self._tick = tick
        self._limits = limits
        self._definitions = {
            str(name): (tuple(map(str, parameters)), tree)
            for name, parameters, tree, _ in loaded.rule_defs
        }
        self._literals: dict[str, Any] = {}
        self._plain: dict[str, Terminal] = {}
        self._rules: dict[str, Form] = {}
        self._open: list[tuple[str, Any, dict[str, Form]]] = []

    def read(self) -> Grammar:
        if "start" not in self._definitions:
            raise ConstraintError("no rule is named start; name the first one so", kind="malformed")
        self._use("start", ())
        while self._open:
            name, tree, arguments = self._open.pop()
            self._rules[name] = self._form(tree, arguments, 0)
        terminals = self._terminals()
        return Grammar(self._rules, terminals, tuple(map(str, self._loaded.ignore)))

    def _use(self, name: str, arguments: tuple[Form, ...]) -> Form:
        """Rule `name`, or its copy for these arguments."""
        parameters, tree = self._definitions[name]
        own = name + (f"{{{','.join(map(_shown, arguments))}}}" if arguments else "")
        if own not in self._rules:
            if len(self._rules) >= _MAX_RULES or len(own) > 4096:
                raise ConstraintError(f"template {name} is used in endlessly many ways; mend it")
            self._rules[own] = NOTHING
            self._open.append((own, tree, dict(zip(parameters, arguments, strict=True))))
        return Name(own)

    # Trees

    def _form(self, tree: Any, arguments: dict[str, Form], depth: int) -> Form:
        if depth > 4 * self._limits.depth:
            raise ConstraintError("the grammar nests too many groups; flatten it")
        self._tick(1)
        kind, children = tree.data, tree.children
        if kind == "expansions":
            return options([self._form(child, arguments, depth + 1) for child in children])
        if kind == "expansion":
            return series([self._form(child, arguments, depth + 1) for child in children])
        if kind == "maybe":
            return options([self._form(children[0], arguments, depth + 1), NOTHING])
        if kind == "expr":
            return self._repetition(children, arguments, depth)
        if kind == "alias":
            return self._form(children[0], arguments, depth + 1)
        if kind == "value":
            return self._value(children[0], arguments, depth)
        return self._special(tree, arguments, depth)

    def _repetition(self, children: list[Any], arguments: dict[str, Form], depth: int) -> Form:
        body, op, *counts = children
        form = self._form(body, arguments, depth + 1)
        if op == "~":
            low, high = int(counts[0]), int(counts[-1])
            if low > high:
                raise ConstraintError(
                    f"a repetition of {low}..{high} times has no count; mend the grammar",
                    kind="malformed",
                    where=f"line {op.line}, column {op.column}",
                )
            return times(form, low, high)
        return times(form, int(op == "+"), 1 if op == "?" else None)

    def _value(self, value: Any, arguments: dict[str, Form], depth: int) -> Form:
        if hasattr(value, "data"):
            return self._special(value, arguments, depth)
        name = str(value.name)
        if name in arguments:
            return arguments[name]
        return Word(name) if value.is_term else self._use(name, ())

    def _special(self, tree: Any, arguments: dict[str, Form], depth: int) -> Form:
        kind, children = tree.data, tree.children
        if kind == "template_usage":
            given = tuple(self._form(child, arguments, depth + 1) for child in children[1:])
            return self._use(str(children[0].name), given)
        if kind in ("literal", "range"):
            name = "..".join(map(str, children))
            if len(children) == 1 and _PLAIN.fullmatch(name):
                self._plain[name] = Letters(name[1:-1])
            else:
                self._literals[name] = tree
            return Word(name)
        raise ConstraintError(
            f"{kind} is not supported in a rule; write the rule without it", kind="unsupported"
        )

    # Terminals

    def _terminals(self) -> dict[str, Terminal]:
        used = {name for form in self._rules.values() for name in words(form)}
        used |= set(map(str, self._loaded.ignore))
        kept = [(name, term) for name, term in self._loaded.term_defs if name in used]
        for name, (tree, _) in kept:
            if tree is None:
                raise ConstraintError(
                    f"terminal {name} is declared and not defined, which is not supported; "
                    "write its pattern",
                    kind="unsupported",
                )
        kept += [(name, (_alone(tree), 0)) for name, tree in self._literals.items()]
        return self._plain | self._compiled(kept)

    def _compiled(self, definitions: list[Any]) -> dict[str, Terminal]:
        from lark.exceptions import LarkError
        from lark.load_grammar import Grammar as Loaded

        try:
            compiled = Loaded([], definitions, []).compile([], "*")[0]
            return {str(one.name): Pattern(one.pattern.to_regexp()) for one in compiled}
        except (LarkError, AssertionError, ValueError, TypeError) as error:
            raise malformed(error) from error


def _shown(form: Form) -> str:
    return form.name if isinstance(form, Word | Name) else repr(form)


def _alone(tree: Any) -> Any:
    from lark import Tree

    return Tree("expansions", [Tree("expansion", [Tree("value", [tree])])])
