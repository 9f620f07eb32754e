"""Searches in known texts against `re.search`, and without its endless tries."""

from __future__ import annotations

import random
import re
import time

import pytest

from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema import searching
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.automata.schema.searching import Searching

PATTERNS = [
    "a", "^a", "a$", "^a$", "(?=.*b)a", "(a|ab)*c$", "^(a+)+$", r"\ba", r"a\B", "(?<=b)a", "^$",
    "(?i)A", "(?m)^b$", r"\Ab|a\Z", ".", r"^\w+$", "^[^a]*$", "(?!b)a|b{2}", "é?a", "(?:^a|b)c",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("most", [0, 1_000_000])
def test_searches_are_those_of_re(pattern: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MOST_WAYS", most)  # 0: all are followed
    search, rng = Searching(Pool(), "t"), random.Random(pattern)
    for _ in range(150):
        text = "".join(rng.choices("abcAé \n", k=rng.randrange(6)))
        assert search.found(pattern, text) == (re.search(pattern, text) is not None), text


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["a" * 60 + "!", 1], "pattern": "^(a+)+$"},
        {"const": 1, "not": {"enum": ["a" * 60 + "!"], "pattern": "^(a|a)*$"}},
        {"properties": {"a" * 60 + "!": {}}, "patternProperties": {"^(a|aa)+$": {"minimum": 1}}},
        {"enum": [" " * 5000 + "x", 1], "pattern": r"\s*\s*\s*\s*y"},
    ],
)
def test_patterns_with_many_ways_end_soon(schema: dict[str, object]) -> None:
    before = time.thread_time()
    schema_automaton(schema)
    assert time.thread_time() - before < 20  # a stall, not a speed
