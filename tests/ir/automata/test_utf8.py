"""Sets of characters over UTF-8 bytes, against Python's own encoder."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.automata.utf8 import (
    ALL_CHARS,
    ANY_CHAR,
    CharSet,
    Ranges,
    char_set,
    complement,
    intersect,
    normalize,
    union,
)

_BORDERS = [0, 1, 0x7E, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000]
_BORDERS += [0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFE, 0x10FFFF]
_codes = st.one_of(
    st.sampled_from(_BORDERS), st.integers(0, 0x10FFFF), st.integers(0x60, 0x8FF)
).filter(lambda code: not 0xD800 <= code <= 0xDFFF)
_ranges = st.lists(st.tuples(_codes, _codes).map(lambda p: (min(p), max(p))), max_size=6).map(
    normalize
)


def spelled(chars: CharSet, prefix: bytes = b"") -> list[bytes]:
    """Every byte string of a set."""
    found = []
    for low, high, rest in chars.edges:
        for byte in range(low, high + 1):
            data = prefix + bytes([byte])
            found += [data] if rest is None else spelled(rest, data)
    return found


def holds(chars: CharSet, data: bytes) -> bool:
    state: CharSet | None = chars
    for byte in data:
        if state is None:
            return False
        edge = next((edge for edge in state.edges if edge[0] <= byte <= edge[1]), None)
        if edge is None:
            return False
        state = edge[2]
    return state is None


def members(ranges: Ranges) -> set[int]:
    return {code for low, high in ranges for code in range(low, high + 1)}


def test_any_character_is_every_character_that_utf8_can_hold() -> None:
    every = [chr(c).encode() for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    assert spelled(ANY_CHAR) == sorted(every)


@settings(max_examples=60, deadline=None)
@given(_ranges.filter(bool), st.lists(_codes, max_size=20))
def test_a_set_holds_its_characters_and_no_others(ranges: Ranges, others: list[int]) -> None:
    chars = char_set(ranges)
    near = [c + d for low, high in ranges for c in (low, high) for d in (-1, 0, 1)]
    for code in [*others, *near]:
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            inside = any(low <= code <= high for low, high in ranges)
            assert holds(chars, chr(code).encode()) == inside


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 0x900), st.integers(0, 0x900)), max_size=8))
def test_small_sets_spell_out_exactly(pairs: list[tuple[int, int]]) -> None:
    ranges = normalize((min(pair), max(pair)) for pair in pairs)
    if ranges:
        assert spelled(char_set(ranges)) == sorted(chr(c).encode() for c in members(ranges))


def test_surrogates_are_in_no_set() -> None:
    chars = char_set(((0xD000, 0xEFFF),))
    expected = [c for c in range(0xD000, 0xF000) if not 0xD800 <= c <= 0xDFFF]
    assert spelled(chars) == sorted(chr(c).encode() for c in expected)


@given(_ranges, _ranges)
def test_algebra_of_ranges(first: Ranges, second: Ranges) -> None:
    probes = {c + d for low, high in (*first, *second) for c in (low, high) for d in (-1, 0, 1)}

    def has(ranges: Ranges, code: int) -> bool:
        return any(low <= code <= high for low, high in ranges)

    for code in probes:
        if not has(ALL_CHARS, code):
            continue
        assert has(union(first, second), code) == (has(first, code) or has(second, code))
        assert has(intersect(first, second), code) == (has(first, code) and has(second, code))
        assert has(complement(first), code) != has(first, code)


@given(_ranges)
def test_ranges_are_sorted_disjoint_and_apart(ranges: Ranges) -> None:
    assert all(high + 1 < low for (_, high), (low, _) in pairwise(ranges))


@given(_ranges.filter(bool))
def test_equal_sets_are_one_object(ranges: Ranges) -> None:
    halves = union(intersect(ranges, ((0, 0x7FF),)), intersect(ranges, ((0x800, 0x10FFFF),)))
    assert char_set(ranges) is char_set(halves)
