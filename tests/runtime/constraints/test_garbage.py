"""Constraints that nobody uses are freed without a collection of garbage."""

from __future__ import annotations

import gc
import string
import weakref
from collections.abc import Callable, Iterator

import pytest
from support.jumps import Bench, byte_tokenizer, take

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.automata.limits import Limits
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError
from sgc_runtime.constraints import garbage
from sgc_runtime.constraints.garbage import LongCollections
from sgc_runtime.constraints.matcher import Matcher

TREE = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"type": "string"}},
}
DIFFERENT = {"type": "array", "uniqueItems": True, "items": {"type": ["string", "number"]}}
NESTED = {"type": "array", "uniqueItems": True, "items": DIFFERENT, "minItems": 3}
CASES: dict[str, Callable[[], Automaton]] = {
    "regex": lambda: regex_automaton(r"(\w+ )*(?:(?!END).)*END"),
    "loop": lambda: regex_automaton("(?:(?:a*b*)*c*)*d"),
    "tree": lambda: schema_automaton(TREE, "spaced"),
    "object": lambda: schema_automaton(OBJECT, "spaced"),
    "different": lambda: schema_automaton(DIFFERENT, "spaced"),
    "different arrays": lambda: schema_automaton(NESTED, "spaced"),
    "grammar": lambda: grammar_automaton('start: "(" start ")" | "x" start start | "y"'),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(byte_tokenizer(tmp_path_factory.mktemp("bytes")))


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def num_nodes() -> int:
    return sum(issubclass(type(found), Node) for found in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", CASES)
def test_a_dropped_constraint_is_freed(bench: Bench, name: str) -> None:
    before = num_nodes()
    matcher = Matcher(bench.planner(CASES[name]()))
    for _ in range(20):
        found = matcher.mask()
        token = next(t for t in range(4, 260) if found[t >> 5] >> (t & 31) & 1)
        matcher.accept(token)
        matcher.jump()
    grown = num_nodes() - before
    del matcher
    assert num_nodes() - before < min(grown, 100)  # some that front ends hold


@pytest.mark.usefixtures("uncollected")
def test_what_is_remembered_of_a_text_is_freed(bench: Bench) -> None:
    left = []
    for number in (10, 10, 100):
        before = num_nodes()
        matcher = Matcher(bench.planner(CASES["different arrays"]()))
        text = "[" + ", ".join(f'[1, "x{i}"]' for i in range(number))
        take(matcher, [4 + byte for byte in text.encode()])
        del matcher
        left.append(num_nodes() - before)
    assert left[2] == left[1]


@pytest.mark.usefixtures("uncollected")
def test_a_refused_constraint_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[weakref.ref[Pool]] = []
    begin = Pool.__init__

    def noted(pool: Pool, *args: object) -> None:
        pools.append(weakref.ref(pool))
        begin(pool, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Pool, "__init__", noted)
    with pytest.raises(ConstraintError):
        regex_automaton("".join(f"{c}?" for c in string.ascii_letters) * 20, Limits(nodes=2000))
    assert pools
    assert all(pool() is None for pool in pools)


def test_long_collections_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(None))
    collections = LongCollections()
    collections.see(1.0)
    gc.collect()
    collections.see(garbage._LONG_S / 2)
    assert not frozen
    collections.see(1.0)
    collections.see(1.0)
    assert len(frozen) == 1
