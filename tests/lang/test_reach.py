"""A graph is used again only while nothing that its program reads from outside has changed."""

from __future__ import annotations

import decimal
import random
import re
import types
from collections import deque
from decimal import Decimal
from functools import singledispatch
from typing import Any, NamedTuple

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


class Point(NamedTuple):
    x: int
    word: str


class Base:
    word = "base"


class Meta(type):
    def __getattr__(cls, name: str) -> str:
        return str(HEAT)


class Kid(Base, metaclass=Meta):
    pass


class Words(list):
    pass


class Slots:
    __slots__ = ("word",)


class SlotsKid(Slots):
    pass


class Asks:
    def __getattr__(self, name: str) -> str:
        raise KeyError(name)


class Queue(deque):
    pass


WORDS, SLOTS, GET, QUEUE = Words(), SlotsKid(), SHOTS.__getitem__, Queue("a")
WORDS.word = SLOTS.word = suffix.word = "old"  # type: ignore[attr-defined]
inner = types.ModuleType("inner")
config.inner, inner.word = inner, "deep"  # type: ignore[attr-defined]


def wrapper(fn: Any) -> Any:
    return singledispatch(fn)


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (lambda: Kid.word, lambda m: m.setattr(Base, "word", "new")),
        (lambda: Kid().word, lambda m: m.setattr(Base, "word", "new")),
        (lambda: Kid.other, lambda m: m.setitem(globals(), "HEAT", 0.75)),
        (lambda: WORDS.word, lambda m: m.setattr(WORDS, "word", "new")),
        (lambda: SLOTS.word, lambda m: m.setattr(SLOTS, "word", "new")),
        (lambda: GET(0), lambda m: SHOTS.insert(0, "new")),
        (lambda: QUEUE[0], lambda m: QUEUE.appendleft("new")),
        (lambda: suffix.word, lambda m: m.setattr(suffix, "word", "new")),
        (lambda: config.inner.word, lambda m: m.setattr(inner, "word", "new")),
        (lambda: getattr(config, "word"), lambda m: m.setattr(config, "word", "x")),  # noqa: B009
        (lambda: vars(config)["word"], lambda m: m.setattr(config, "word", "x")),
        (lambda: config.__dict__["word"], lambda m: m.setattr(config, "word", "x")),
        (lambda: Decimal(1) / 3, lambda m: m.setattr(decimal.getcontext(), "prec", 5)),
        (wrapper(lambda: HEAT), lambda m: m.setitem(globals(), "HEAT", 0.75)),
    ],
)
def test_what_lies_deeper_is_seen_or_never_kept(monkeypatch, read, change):
    before = reach(read)
    kept = SHOTS.copy()
    change(monkeypatch)
    try:
        assert not unchanged(before, reach(read))
    finally:
        SHOTS[:] = kept


def test_looking_calls_nothing_of_the_users():
    asks = Asks()
    assert reach(lambda: asks).complete


def test_common_things_are_kept():
    def program(s, point=Point(1, "a")):  # noqa: B008
        return re.sub("a", "b", str(Kid.word)) + getattr(BOX, "word") + point.word  # noqa: B009

    found = reach(program)
    assert unchanged(found, reach(program))
