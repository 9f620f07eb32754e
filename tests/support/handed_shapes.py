"""Lines of the handed list of program shapes that ask for more than one program that runs once."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import InputError

OWN: dict[str, Callable[[], None]] = {}
MODES = ("interpreted", "compiled")


def shown(check: Callable[[], None]) -> Callable[[], None]:
    OWN[check.__name__] = check
    return check


def backend() -> ScriptedBackend:
    return ScriptedBackend(
        lambda prompt, params: f" {len(prompt)}", select=lambda p, c: [0.0] * len(c)
    )


@sgc.function
def chat(s):
    with s.user():
        s += "hi"
    forks = s.fork(2)
    for f in forks:
        f += sgc.assistant(sgc.gen("v", max_tokens=2))
    forks.join()
    s += sgc.user(f"{s['v']}") + sgc.assistant(sgc.gen("w"))
    return s.messages(), forks[0].messages()


@shown
def messages_after_a_join() -> None:
    assert_equal_on_paths(chat, scripts=4)


@sgc.function
def branch_values(s):
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f"{i}" + sgc.gen("v", max_tokens=1)
    return [f["v"] for f in forks]


@shown
def list_of_branch_values() -> None:
    assert_equal_on_paths(branch_values, scripts=4)


@sgc.function
def two_arguments(s, a: str, b: int = 2):
    s += a * b + sgc.gen("v", max_tokens=b)
    return a, b


@shown
def bound_arguments() -> None:
    assert_equal_on_paths(two_arguments.bind(a="x"), {}, {"b": 3}, scripts=2)
    assert_equal_on_paths(two_arguments.bind(a="x", b=1), scripts=2)
    with pytest.raises(InputError):
        two_arguments.bind(a="x").bind(a="y")


@shown
def two_runs_at_once() -> None:
    compiled = two_arguments.compile()

    async def both() -> list[Any]:
        runs = [asyncio.to_thread(compiled.run, a, backend=backend()) for a in ("one", "two")]
        return list(await asyncio.gather(*runs))

    first, second = asyncio.run(both())
    assert (first.value, second.value) == (("one", 2), ("two", 2))


@sgc.function
def selects(s):
    s += sgc.user("Answer.")
    s += sgc.assistant(sgc.select("a", ["yes", "no"]))
    s += "It is " + sgc.select("b", ["good", "bad"]) + sgc.select("c", [" very", " not"])
    return s.meta("a")["scores"], s.meta("b")["scores"], s.meta("c")["scores"]


@shown
def select_at_a_seam() -> None:
    assert_equal_on_paths(selects, scripts=4)


@shown
def wrong_arguments() -> None:
    for mode in MODES:
        for row in {}, {"a": "x", "c": 1}, {"a": "x", "b": "two"}:
            with pytest.raises(InputError):
                two_arguments.run(**row, backend=backend(), mode=mode)


@sgc.function
def rolls(s):
    s += f"{random.random()}" + sgc.gen("v")


@shown
def baked_in() -> None:
    with pytest.raises(sgc.CompileError, match="traced twice"):
        rolls.compile()


class Judge:
    tone = "kind"

    def rate(self, s: Any, text: str) -> Any:
        s += self.tone + text + sgc.gen("v", max_tokens=1)
        return s["v"]


async def later(s: Any) -> None:
    s += sgc.gen("v")


def lazily(s: Any) -> Any:
    yield s


@shown
def odd_functions() -> None:
    def nested(s: Any, text: str) -> Any:
        def inner(part: str) -> str:
            return part + text

        s += inner("n") + sgc.gen("v", max_tokens=1)
        return s["v"]

    for fn in (nested, Judge().rate):
        assert_equal_on_paths(sgc.function(fn), {"text": "x"}, scripts=2)
    short = sgc.function(lambda s: s.extend("x" + sgc.gen("v", max_tokens=1)))
    assert_equal_on_paths(short, scripts=2)
    for fn in (later, lazily):
        with pytest.raises(sgc.SgcError, match=fn.__name__):
            sgc.function(fn).compile()
