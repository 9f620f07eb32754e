"""Hostile regular expressions end soon: with a right automaton, or with the kind `limit`."""

from __future__ import annotations

import random
import string
import sys
import threading
import time
from collections.abc import Callable

import pytest
from support.regexes import accepts

from sgc_ir.automata.grammar.grammar import grammar_automaton
from sgc_ir.automata.limits import DEFAULT_LIMITS
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError

_rng = random.Random(7)


def _words(count: int) -> str:
    return "|".join("".join(_rng.choices(string.ascii_lowercase, k=8)) for _ in range(count))


# (pattern, a text that matches, a text that does not)
RIGHT = {
    "counts in counts": ("(a{1,1000}){1,1000}", "a" * 700, "a" * 700 + "b"),
    "counts in counts in counts": ("((a{2,9}b?){2,9}c?){2,9}", "aabaab" * 6, "a" * 7),
    "plus in plus": ("((a+)+)+b", "a" * 300 + "b", "a" * 300),
    "ambiguous star": ("(a|aa|aaa)*b", "a" * 300 + "b", "a" * 300),
    "stars in stars": ("(?:(?:a*b*)*c*)*d", "abcabc" * 50 + "d", "abc"),
    "many lookaheads": (
        "".join(f"(?=.*{c})" for c in "abcdefghijklmnopqrst") + ".*",
        "zzabcdefghijklmnopqrst",
        "zzabcdefghijklmnopqrs",
    ),
    "many exclusions": (
        "".join(f"(?!.*{c}{c})" for c in "abcdefghijklmnopqrst") + ".*",
        "abcabc",
        "abccba" + "b",
    ),
    "long count": (r"[\w\W]{1,100000}", "x" * 500, ""),
    "many optional": ("a?" * 300 + "a" * 300, "a" * 300, "a" * 299),
    "look into a loop": ("(?:(?=.*z)a|b){1,100000}z?", "abaz", "aba"),
    "tempered dot": ("(?:(?!END).)*END", "hello " * 50 + "END", "END END"),
    "twenty unknown": (".*a.{20}", "ba" + "b" * 20, "b" * 22),
    "2,000 words": (_words(2000) + "|hello", "hello", "hello!"),
    "nested 100": ("(?:a|(?:b" * 50 + "a" + "))" * 50, "b" * 50 + "a", "b" * 51),
    "nested optional": ("(?:a" * 80 + ")?" * 80, "a" * 80, "a" * 81),
    "large set": ("[" + "".join(chr(0x100 + 2 * i) for i in range(3000)) + "]+", "ĀĂ", "ā"),
    "long text": ("ab" * 5000, "ab" * 5000, "ab" * 4999),
    "long lookbehind": ("(?:a{200}(?<=a{200})b)+", "a" * 200 + "b", "a" * 199 + "b"),
    "borders": (r"(?:\b\w+\b\W?){1,1000}", "hello world " * 5, "--"),
}

LIMITED = {
    "nested 10,000": "(" * 10_000 + "a" + ")" * 10_000,
    "nested lookaheads": "(?=" * 10_000 + "a" + ")" * 10_000 + "a",
    "sets without an end": "(" * 300 + "[" * 90_000,
    "100,000 words": _words(100_000),
    "many different optional parts": "".join(f"{c}?" for c in string.ascii_letters) * 100,
    "coprime lengths": "".join(f"(?=(?:.{{{n}}})*$)" for n in (7, 11, 13, 17, 19, 23)) + ".+",
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_automaton_is_right(name: str) -> None:
    pattern, yes, no = RIGHT[name]
    before = time.thread_time()
    automaton = regex_automaton(pattern)
    assert accepts(automaton, yes)
    assert not accepts(automaton, no)
    assert time.thread_time() - before < 20  # a stall, not a speed


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_is_named(name: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        regex_automaton(LIMITED[name])
    assert caught.value.kind == "limit"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def _on_a_short_stack(work: Callable[[], object]) -> str:
    """What `work` raises where the interpreter is close to its recursion limit."""
    outcome: list[str] = []

    def descend(left: int) -> None:
        if left:
            descend(left - 1)
            return
        try:
            work()
            outcome.append("ok")
        except ConstraintError as error:
            outcome.append(error.kind)

    thread = threading.Thread(target=descend, args=(sys.getrecursionlimit() - 120,))
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("pattern", ["(a|b)*c", "(?:" * 60 + "a" + ")*" * 60])
def test_the_stack_is_never_exhausted(pattern: str) -> None:
    assert _on_a_short_stack(lambda: regex_automaton(pattern)) in ("ok", "limit")


def test_a_step_has_a_deadline_of_its_own() -> None:
    automaton = regex_automaton("(?:(a{1,50}b?){1,50}c?){1,50}")
    before = time.thread_time()
    while time.thread_time() - before < 1.5 * DEFAULT_LIMITS.seconds:
        state = automaton.start
        for byte in b"aab" * 40:
            state = automaton.step(state, byte)
    assert state >= 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: schema_automaton(
            {"properties": {f"p{i}": {"pattern": r"[^\w\d]" * 12_000 + str(i)} for i in range(40)}}
        ),
        lambda: schema_automaton(
            {"patternProperties": {f"(a{i}|" + "|b" * 20_000 + ")": {} for i in range(40)}}
        ),
        lambda: grammar_automaton("start: " + " ".join(["a"] * 49_000) + '\na: "x"'),
    ],
    ids=["patterns", "names", "grammar"],
)
def test_reading_is_part_of_the_time(make: Callable[[], object]) -> None:
    before = time.thread_time()
    with pytest.raises(ConstraintError) as caught:
        make()
    assert caught.value.kind == "limit"
    assert len(caught.value.reason) < 200
    assert time.thread_time() - before < 20  # a stall, not a speed
