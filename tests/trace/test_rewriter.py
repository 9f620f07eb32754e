"""The rewritten form of plain Python does what Python does: Python is the oracle."""

from __future__ import annotations

import copy
import linecache
import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.snippets import CASES

from sgc.trace.context import Trace
from sgc.trace.region import Region
from sgc.trace.stream import Stream
from sgc_ir.graph import ROOT_STREAM, Source

_FILES = count()


def fresh_trace() -> Trace:
    trace = Trace()
    trace.region = Region(trace, "main", Source())
    trace.stream = Stream(trace, trace.region, ROOT_STREAM, "the stream")
    return trace


def rewritten(fn: Callable[..., Any], *args: Any) -> Any:
    return fresh_trace().runtime.call(fn, *args)


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", run()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    ("fn", "args"), CASES, ids=[f"{fn.__name__}{i}" for i, (fn, _) in enumerate(CASES)]
)
def test_snippet_does_what_python_does(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    expected = outcome(lambda: fn(*copy.deepcopy(args)))
    assert outcome(lambda: rewritten(fn, *copy.deepcopy(args))) == expected


def test_plain_python_records_no_node() -> None:
    trace = fresh_trace()
    for fn, args in CASES:
        outcome(lambda fn=fn, args=args: trace.runtime.call(fn, *copy.deepcopy(args)))
    assert trace.region.nodes == []


class Writer:
    """Writes random functions of two numbers, with nested control flow."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.in_loop = 0
        self.budget = 40

    def text(self) -> str:
        self.line("def f(a, b):")
        self.depth += 1
        self.line("c, xs, d = 0, [a, b], {'k': a}")
        self.block(4)
        self.line("return a, b, c, xs, d")
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def block(self, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement()

    def nested(self, head: str, loop: bool = False) -> None:
        self.line(head)
        self.depth += 1
        self.in_loop += loop
        self.block(3)
        self.in_loop -= loop
        self.depth -= 1

    def statement(self) -> None:
        self.budget -= 1
        kinds = ["assign", "assign", "append", "augment", "store"]
        if self.budget > 0 and self.depth < 6:
            kinds += ["if", "for", "while", "try", "local", "comprehension", "with", "match"]
        kinds += ["leave"] if self.depth > 1 else []
        getattr(self, f"do_{self.random.choice(kinds)}")()

    def do_assign(self) -> None:
        self.line(f"{self.name()} = {self.expression()}")

    def do_append(self) -> None:
        self.line(f"xs.append({self.expression()})")

    def do_augment(self) -> None:
        self.line(f"{self.name()} {self.random.choice(['+=', '-='])} {self.expression()}")

    def do_store(self) -> None:
        self.line(f"d[{self.random.choice('kjl')!r}] = {self.expression()}")

    def do_if(self) -> None:
        self.nested(f"if {self.condition()}:")
        if self.random.random() < 0.3:
            self.nested(f"elif {self.condition()}:")
        if self.random.random() < 0.5:
            self.nested("else:")

    def do_for(self) -> None:
        iterable = self.random.choice(["range(3)", "list(xs)[:3]", "sorted(d)", "zip('ab', xs)"])
        target = {"zip('ab', xs)": "_, c", "sorted(d)": "_"}.get(iterable, self.name())
        self.nested(f"for {target} in {iterable}:", loop=True)
        if self.random.random() < 0.3:
            self.nested("else:")

    def do_while(self) -> None:
        n = f"n{len(self.lines)}"  # a counter of its own, so that each loop ends
        self.line(f"{n} = 3")
        self.line(f"while {n} > 0 and {self.condition()}:")
        self.depth += 1
        self.line(f"{n} -= 1")
        self.in_loop += 1
        self.block(2)
        self.in_loop -= 1
        self.depth -= 1

    def do_try(self) -> None:
        self.nested("try:")
        error = self.random.choice(["ZeroDivisionError", "(KeyError, IndexError)", "Exception"])
        self.nested(f"except {error} as e:")
        if self.random.random() < 0.3:
            self.nested("else:")
        if self.random.random() < 0.3:
            loops, self.in_loop = self.in_loop, 0
            self.nested("finally:")
            self.in_loop = loops

    def do_with(self) -> None:
        self.nested("with __import__('contextlib').suppress(KeyError):")

    def do_local(self) -> None:
        self.line(f"g = lambda p, q=1: {self.expression('p')}")
        self.line(f"c = g({self.expression()})")

    def do_comprehension(self) -> None:
        kind = self.random.choice(["[%s]", "sum(%s)", "list(%s)", "any(%s)", "sorted({%s})"])
        inner = f"{self.expression('v')} for v in list(xs)[:4] if {self.condition()}"
        self.line(f"xs = [str({kind % inner})]" if kind != "[%s]" else f"xs = {kind % inner}")

    def do_match(self) -> None:
        self.line(f"match {self.expression()}:")
        self.depth += 1
        self.nested(f"case {self.random.randint(-2, 3)} | None:")
        self.nested(f"case int(c) if {self.condition()}:")
        self.nested("case _:")
        self.depth -= 1

    def do_leave(self) -> None:
        leaves = [f"return {self.expression()}", "raise KeyError(a)"]
        leaves += ["break", "continue"] if self.in_loop else []
        self.line(f"if {self.condition()}:")
        self.lines.append("    " * (self.depth + 1) + self.random.choice(leaves))

    def name(self) -> str:
        return self.random.choice("abc")

    def expression(self, extra: str = "") -> str:
        atoms = ["a", "b", "c", "len(xs)", "1", "2", "xs[0]", "d['k']", extra or "3"]
        x, y = self.random.choice(atoms), self.random.choice(atoms)
        forms = [
            x,
            f"{x} + {y}",
            f"{x} - {y}",
            f"({x} or {y})",
            f"{x} if {self.condition()} else {y}",
        ]
        forms += [f'len(f"{{{x}}}{{{y}!r}}")', f"{x} // {y}", f"max({x}, {y})", f"(c := {x})"]
        return self.random.choice(forms)

    def condition(self) -> str:
        x, y = self.name(), self.random.choice(["0", "1", "2", "b", "len(xs)"])
        forms = [f"{x} < {y}", f"{x} == {y}", f"not {x}", f"0 <= {x} < {y}", f"{x} in xs"]
        forms += [f"{x} and {y} > 1", "'j' in d", f"{x} is None"]
        return self.random.choice(forms)


def load(text: str) -> Callable[..., Any]:
    name = f"<random function {next(_FILES)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "random_function"}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(-2, 3), st.integers(-2, 3))
@example(5179783, 0, 0)  # a `finally` that raises runs once
def test_random_function_does_what_python_does(seed: int, a: int, b: int) -> None:
    text = Writer(seed).text()
    fn = load(text)
    expected = outcome(lambda: fn(a, b))
    assert outcome(lambda: rewritten(fn, a, b)) == expected, text
