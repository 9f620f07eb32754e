"""Expressions and their automata, against sets of all short texts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import accepts

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.limits import Limits
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.utf8 import ALL_CHARS, normalize
from sgc_ir.errors import ConstraintError

LETTERS = "abé語"  # one, two and three bytes; two share no byte
LONGEST = 4
TEXTS = ["".join(p) for n in range(LONGEST + 1) for p in product(LETTERS, repeat=n)]

_leaf = st.one_of(
    st.text(LETTERS, max_size=2).map(lambda text: ("string", text)),
    st.sets(st.sampled_from(LETTERS), min_size=1).map(lambda s: ("chars", frozenset(s))),
    st.just(("any",)),
    st.just(("text",)),
)
_counts = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)))
expressions = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.tuples(st.just("sequence"), inner, inner),
        st.tuples(st.just("union"), inner, inner),
        st.tuples(st.just("intersection"), inner, inner),
        st.tuples(st.just("complement"), inner),
        st.tuples(st.just("repeat"), inner, _counts),
    ),
    max_leaves=7,
)


def make(pool: Pool, expression: Any) -> Node:
    kind, *parts = expression
    if kind == "string":
        return pool.string(parts[0])
    if kind == "chars":
        return pool.one_of(normalize((ord(c), ord(c)) for c in parts[0]))
    if kind == "any":
        return pool.one_of(ALL_CHARS)
    if kind == "text":
        return pool.text
    if kind == "complement":
        return pool.complement(make(pool, parts[0]))
    if kind == "repeat":
        low, more = parts[1]
        return pool.repeat(make(pool, parts[0]), low, None if more is None else low + more)
    nodes = [make(pool, part) for part in parts]
    if kind == "sequence":
        return pool.chain(*nodes)
    return pool.union(nodes) if kind == "union" else pool.intersection(nodes)


def language(expression: Any) -> set[str]:
    """The texts of `expression` among `TEXTS`."""
    kind, *parts = expression
    if kind == "string":
        return {parts[0]}
    if kind == "chars":
        return set(parts[0])
    if kind == "any":
        return set(LETTERS)
    if kind == "text":
        return set(TEXTS)
    if kind == "complement":
        return set(TEXTS) - language(parts[0])
    if kind == "repeat":
        return repeated(language(parts[0]), *parts[1])
    first, second = (language(part) for part in parts)
    if kind == "sequence":
        return joined(first, second)
    return first | second if kind == "union" else first & second


def joined(first: set[str], second: set[str]) -> set[str]:
    return {a + b for a in first for b in second if len(a + b) <= LONGEST}


def repeated(body: set[str], low: int, more: int | None) -> set[str]:
    current = {""}
    for _ in range(low):
        current = joined(current, body)
    found = set(current)
    for _ in range(LONGEST if more is None else more):
        current = joined(current, body)
        found |= current
    return found


def test_the_brute_force_knows_a_language() -> None:
    assert repeated({"a", "bb"}, 1, 1) == {"a", "bb", "aa", "abb", "bba", "bbbb"}


@settings(max_examples=250, deadline=None)
@given(expressions)
def test_combinations_hold_the_texts_that_brute_force_finds(expression: Any) -> None:
    expected = language(expression)
    try:
        automaton = Automaton(lambda pool: make(pool, expression), b"")
    except ConstraintError as error:
        if error.kind != "unsatisfiable":
            raise
        assert not expected
        return
    assert {text for text in TEXTS if accepts(automaton, text)} == expected


@settings(max_examples=100, deadline=None)
@given(expressions)
def test_every_state_leads_to_an_end(expression: Any) -> None:
    try:
        automaton = Automaton(lambda pool: make(pool, expression), b"")
    except ConstraintError:
        return
    before: dict[int, set[int]] = {automaton.start: set()}
    waiting = [automaton.start]
    for state in waiting:
        assert len(waiting) < 3000, "finitely many states"
        for _, _, following in automaton.ways(state):
            if following not in before:
                before[following] = set()
                waiting.append(following)
            before[following].add(state)
    ending = [state for state in waiting if automaton.is_accepting(state)]
    good = set(ending)
    while ending:
        new = before[ending.pop()] - good
        good |= new
        ending += new
    assert good == set(waiting)


@settings(max_examples=100, deadline=None)
@given(expressions, expressions)
def test_laws_of_sets(first: Any, second: Any) -> None:
    pool = Pool()
    a, b = make(pool, first), make(pool, second)
    assert pool.union([a, b]) is pool.union([b, a, b])
    assert pool.intersection([a, b]) is pool.intersection([b, a, b])
    assert pool.complement(pool.complement(a)) is a
    assert not pool.is_alive(pool.difference(a, a))


def test_rests_of_any_character_stay_inside_the_character() -> None:
    def both(pool: Pool) -> Node:
        more = pool.repeat(pool.one_of(ALL_CHARS), 1, None)
        return pool.intersection([pool.union([more, pool.epsilon]), pool.sequence(more, pool.text)])

    automaton = Automaton(both, b"")
    assert accepts(automaton, "é")
    assert not accepts(automaton, "")
    inside = automaton.walk(automaton.start, "é".encode()[:1])
    assert automaton.step(inside, ord("a")) < 0


def test_counts_of_one_body_merge() -> None:
    pool = Pool()
    a = pool.string("a")
    assert pool.union([pool.repeat(a, 2, 5), pool.repeat(a, 4, 9)]) is pool.repeat(a, 2, 9)
    assert pool.union([pool.repeat(a, 2, 3), pool.repeat(a, 4, None)]) is pool.repeat(a, 2, None)
    assert pool.union([pool.repeat(a, 2, 3), pool.repeat(a, 5, 6)]) is not pool.repeat(a, 2, 6)
    assert pool.repeat(pool.repeat(a, 1, 1000), 1, 1000) is pool.repeat(a, 1, 1_000_000)
    assert pool.repeat(pool.repeat(a, 3, 4), 2, 2) is pool.repeat(a, 6, 8)
    assert pool.repeat(pool.repeat(a, 3, 4), 1, 2) is not pool.repeat(a, 3, 8)


def test_long_chains_need_no_recursion() -> None:
    def chain(pool: Pool) -> Node:
        tail = pool.intersection([pool.text, pool.complement(pool.string("x"))])
        for i in range(4000):
            tail = pool.one_of(((97, 97 + i % 20),), tail)
        return tail

    automaton = Automaton(chain, b"")
    assert accepts(automaton, "a" * 4000)
    assert not accepts(automaton, "a" * 4000 + "x")


def test_rules_may_hold_themselves() -> None:
    def lists(pool: Pool) -> Node:
        value = pool.rule("value", False)
        more = pool.repeat(pool.chain(pool.string(","), value), 0, None)
        whole = pool.chain(
            pool.string("["), pool.optional(pool.chain(value, more)), pool.string("]")
        )
        pool.define("value", pool.union([pool.string("1"), whole]))
        return value

    automaton = Automaton(lists, b"")
    for text in ("1", "[]", "[1,[1],[[]]]", "[" * 300 + "]" * 300):
        assert accepts(automaton, text)
    for text in ("", "[", "[1,]", "[1]]", "[" * 300 + "]" * 299):
        assert not accepts(automaton, text)


def test_rules_that_never_end_are_left_out() -> None:
    def endless(pool: Pool) -> Node:
        rule = pool.rule("endless", False)
        pool.define("endless", pool.chain(pool.string("("), rule, pool.string(")")))
        return pool.union([rule, pool.string("hello")])

    automaton = Automaton(endless, b"")
    assert texts_of(automaton, automaton.start, 5) == [b"hello"]


def test_left_recursion_is_refused() -> None:
    def left(pool: Pool) -> Node:
        rule = pool.rule("sum", False)
        pool.define("sum", pool.union([pool.chain(rule, pool.string("+1")), pool.string("1")]))
        return rule

    automaton = Automaton(left, b"")
    with pytest.raises(ConstraintError, match="sum begins with itself") as caught:
        automaton.ways(automaton.start)
    assert caught.value.kind == "unsupported"


def test_an_undefined_rule_is_named() -> None:
    automaton = Automaton(lambda pool: pool.rule("nowhere", False), b"")
    with pytest.raises(ConstraintError, match="nowhere"):
        automaton.ways(automaton.start)


def test_limits_are_kept() -> None:
    def wide(pool: Pool) -> Node:
        letters = [pool.string(chr(0x4E00 + i)) for i in range(500)]
        return pool.union(letters)

    with pytest.raises(ConstraintError, match="expressions") as caught:
        Automaton(wide, b"", Limits(nodes=100))
    assert caught.value.kind == "limit"

    def pairs(pool: Pool) -> Node:
        return pool.chain(*(pool.one_of(((low, low + 1),)) for low in b"acegikmo"))

    automaton = Automaton(pairs, b"", Limits(states=5))
    with pytest.raises(ConstraintError, match="5 states"):
        automaton.walk(automaton.start, b"acegikmo")
