"""Work on automata that is cut off anywhere, again and again, finds the same in the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from sgc_ir.automata import limits
from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.closed import closed_sets
from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.automata.limits import SliceEnded
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton

REGEXES = (
    r"(?=(?:[a-m ]{1,7}[n-z ]{1,5}){3,60}$)(?!.*(?:ab|ba).{3,9}c).{20,60}",
    "".join(f"(?!.*{c}{c})" for c in "abcdefgh") + ".*",
    "".join(f"(?=.*{c})" for c in "abcdef") + ".{0,40}",
    r"(?:\b\w+\b\W?){1,100}",
    "(?:(?:a{1,20}b?){1,20}c?){1,20}",
    r"(?<=a)b|(\w+ )*(yes|no)(?i:maybe)?",
)
SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 12},
            "age": {"type": "integer", "minimum": 3, "exclusiveMaximum": 117, "multipleOf": 3},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True},
            "when": {"type": "string", "format": "date"},
        },
        "required": ["name"],
        "patternProperties": {"^x": {"type": "number"}},
    },
    {
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 3}},
        "anyOf": [{"$ref": "#/$defs/tree"}, {"type": "string", "format": "ipv4"}],
    },
    {
        "type": "object",
        "if": {"properties": {"a": {"const": 1}}},
        "then": {"required": ["b"]},
        "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}},
        "additionalProperties": False,
        "minProperties": 1,
    },
    {"type": "array", "contains": {"type": "integer"}, "maxItems": 3, "items": {"type": "number"}},
)
GRAMMARS = (
    'start: expr\nexpr: expr "+" term | term\nterm: /[0-9]+/ | "(" expr ")"\n%ignore " "',
    'start: (A | B)+ "!"\nA: /a+b?/\nB: "ab" | /[b-d]{2,4}/',
)
CASES: dict[str, Callable[[], Automaton]] = {
    **{f"regex {i}": lambda p=p: regex_automaton(p) for i, p in enumerate(REGEXES)},
    **{f"schema {i}": lambda s=s: schema_automaton(s, "spaced") for i, s in enumerate(SCHEMAS)},
    **{f"grammar {i}": lambda g=g: grammar_automaton(g) for i, g in enumerate(GRAMMARS)},
}


class Cuts:
    """Ends work after a random number of pieces, larger each time that it is tried."""

    def __init__(self) -> None:
        self._rng, self._left = random.Random(5), 0
        self.armed, self.count = False, 0

    def look(self, watch: limits.Watch) -> None:
        if self.armed:
            self._left -= 1
            if self._left < 0:
                self.count += 1
                raise SliceEnded

    def until_done(self, work: Callable[[], Any]) -> Any:
        tried = 0
        self.armed = True
        try:
            while True:
                self._left = self._rng.randrange(2 << tried)
                tried += 1
                with suppress(SliceEnded):
                    return work()
        finally:
            self.armed = False


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Cuts:
    made = Cuts()
    monkeypatch.setattr(limits, "_BETWEEN_LOOKS", 0)
    monkeypatch.setattr(limits.Watch, "_look", lambda watch: made.look(watch))
    return made


@pytest.mark.parametrize("name", CASES)
def test_what_is_cut_off_goes_on(name: str, cuts: Cuts) -> None:
    whole, cut = CASES[name](), CASES[name]()
    rng = random.Random(name)
    pairs = {whole.start: cut.start}
    open_pairs = [(whole.start, cut.start)]
    while open_pairs and len(pairs) < 400:
        ours, theirs = open_pairs.pop(rng.randrange(len(open_pairs)))
        ways = whole.ways(ours)
        found = cuts.until_done(lambda theirs=theirs: cut.ways(theirs))
        assert [way[:2] for way in found] == [way[:2] for way in ways]
        assert cut.is_accepting(theirs) == whole.is_accepting(ours)
        forced = cuts.until_done(lambda theirs=theirs: cut.forced(theirs)[0])
        assert forced == whole.forced(ours)[0]
        for (_, _, one), (_, _, other) in zip(ways, found, strict=True):
            if one not in pairs:
                pairs[one] = other
                open_pairs.append((one, other))
    sets = cuts.until_done(lambda: [found.texts for found in closed_sets(cut, cut.start)])
    assert sets == [found.texts for found in closed_sets(whole, whole.start)]
    assert cuts.count > 5


def test_a_step_of_another_thread_leaves_the_work_of_this_one_as_it_is() -> None:
    counted: list[int] = []
    automaton = regex_automaton("[a-z]{3}")
    automaton._pool.tick = counted.append  # type: ignore[method-assign]

    def step() -> None:
        automaton.tick(1)  # outside its own step
        with automaton.one_step():
            automaton.tick(2)

    with automaton.one_step():
        thread = Thread(target=step)
        thread.start()
        thread.join()
        automaton.tick(4)
    automaton.tick(8)
    assert counted == [2, 4]
