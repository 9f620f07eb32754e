"""A graph is used again only while nothing that its program reads from outside has changed."""

from __future__ import annotations

import random
import types
from typing import Any

import pytest

import sgc
from sgc.lang.reach import reach, unchanged

HEAT = 0.5
SHOTS = ["one"]
config = types.ModuleType("config")
config.word = "first"  # type: ignore[attr-defined]


class Box:
    def __init__(self, word: str) -> None:
        self.word = word

    def text(self) -> str:
        return self.word + suffix()


def suffix() -> str:
    return str(HEAT)


BOX = Box("boxed")


@sgc.function
def sub(s):
    s += "sub " + SHOTS[0]
    return s.text()


def test_each_change_of_the_outside_is_seen(monkeypatch):
    inside = ["cell"]

    @sgc.function
    def program(s):
        s += f"{suffix()} {SHOTS} {inside} {config.word} {BOX.text()} "
        h = sub()
        s += h.value
        return s.text()

    def run() -> Any:
        compiled, interpreted = program.run(mode="compiled"), program.run(mode="interpreted")
        assert compiled.value == interpreted.value
        return compiled.value

    first = run()
    kept = program._compiled()
    assert run() == first
    assert program._compiled() is kept
    changes = [
        lambda: monkeypatch.setitem(globals(), "HEAT", 0.75),
        lambda: SHOTS.insert(0, "two"),
        lambda: monkeypatch.setattr(config, "word", "second"),
        lambda: monkeypatch.setattr(BOX, "word", "other"),
        lambda: monkeypatch.setattr(Box, "text", lambda self: "patched"),
        lambda: monkeypatch.setitem(globals(), "suffix", lambda: "new"),
        lambda: inside.append("more"),
    ]
    seen = {first}
    for change in changes:
        change()
        assert run() not in seen
        seen.add(run())


def test_an_unknown_kind_of_object_is_never_kept():
    generator = random.Random(1)

    def program(s):
        return generator.random()

    found = reach(program, [suffix])
    assert not found.complete
    assert not unchanged(found, reach(program, [suffix]))
    assert {program, generator, suffix, HEAT} <= set(map(_hashable, found.values))


def _hashable(value: Any) -> Any:
    return value if isinstance(value, types.FunctionType | random.Random | float) else None


def test_equal_plain_values_are_the_same_and_types_count():
    def program(s):
        return HEAT

    before = reach(program, [1, -0.0, "a" + "b"])
    assert unchanged(before, reach(program, [1, -0.0, "ab"]))
    for other in ([1, 0.0, "ab"], [True, -0.0, "ab"], [1, -0.0, "ac"], [1, -0.0]):
        assert not unchanged(before, reach(program, other))


@pytest.mark.parametrize("size", [10, 10_000])
def test_too_much_is_not_kept(size):
    found = reach(lambda s: None, [suffix, list(range(size))])
    assert found.complete == (size < 5000)
    assert HEAT in found.values  # what else there is stays
