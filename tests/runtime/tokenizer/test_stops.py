"""The stop search against a plain reading of its rules."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sgc_ir.errors import InputError
from sgc_runtime.tokenizer.incremental import Detokenizer
from sgc_runtime.tokenizer.stop_regex import RegexStop
from sgc_runtime.tokenizer.stops import StopSearch

PATTERNS = (
    *(r"ab+", r"a(?:bc)?d", r"b\b", r"a{2}", r"a.c", r"[ab]{2,3}c", r"c$", r"(?=ab)", r"a{e}"),
    *(r"(?<=a)b", r"^a", r"\s+b", r"a(?!b)", r"(a|ab)(c|bcd)", r"[:[]a", r"[^]a]b", r"€+a", r"x*c"),
)


class Expected(NamedTuple):
    num_tokens: int
    begin: int
    matched: str


def first_stop(
    tokens: list[bytes], stop: list[str], patterns: list[str], min_tokens: int, drop: bool
) -> Expected | None:
    """Look at the text after each token, anew from its beginning."""
    detokenizer = Detokenizer(drop)
    text = ""
    earliest = 0
    for number, token in enumerate(tokens, 1):
        text += detokenizer.push(token)
        if number <= min_tokens:
            earliest = len(text) + bool(detokenizer.pending)
            continue
        found: list[tuple[int, int, str]] = []
        for rank, string in enumerate(stop):
            begins = [i for i in range(earliest, len(text)) if text.startswith(string, i)]
            found += [(i, rank, string) for i in begins]
        for rank, pattern in enumerate(patterns):
            match = re.compile(pattern).search(text, earliest)
            if match is not None:
                found.append((match.start(), len(stop) + rank, pattern))
        if found:
            return Expected(number, min(found)[0], min(found)[2])
    return None


SMALL = st.text("abcd \n{e}[", max_size=14).map(str.encode)
WIDE = st.text("aé€😀b", max_size=10).map(str.encode)
BROKEN = st.lists(st.sampled_from([b"a", b"b", b"\xe2\x82", b"\xac", b"\xff", b"\xf0\x9f", b" "]))
DATA = st.one_of(SMALL, WIDE, BROKEN.map(b"".join))
STOPS = st.lists(st.text("abcdé€\n ", min_size=1, max_size=3), max_size=2)
REGEXES = st.lists(st.sampled_from(PATTERNS), max_size=2)


@example(data=b" a", cuts=[1], stop=["a"], patterns=[], min_tokens=0, drop=True)
@settings(max_examples=800, deadline=None)
@given(
    data=DATA,
    cuts=st.lists(st.integers(0, 20), max_size=10),
    stop=STOPS,
    patterns=REGEXES,
    min_tokens=st.sampled_from([0, 0, 0, 1, 2, 3]),
    drop=st.booleans(),
)
def test_equal_to_a_plain_search(
    data: bytes,
    cuts: list[int],
    stop: list[str],
    patterns: list[str],
    min_tokens: int,
    drop: bool,
) -> None:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    tokens = [data[a:b] for a, b in zip(borders, borders[1:])]  # noqa: RUF007
    expected = first_stop(tokens, stop, patterns, min_tokens, drop)
    search = StopSearch(stop, patterns, min_tokens, drop)
    streamed = ""
    hit = None
    for number, token in enumerate(tokens, 1):
        hit = search.push(token)
        streamed += search.take()
        if hit is not None:
            assert expected == (number, len(hit.text), hit.matched)
            break
    if hit is None:
        assert expected is None
        assert streamed + search.finish() == search.text
        return
    assert streamed == hit.text == search.text[: len(hit.text)]
    whole = b"".join(tokens[: hit.num_kept_tokens])
    head = whole[1:] if drop and whole.startswith(b" ") else whole
    assert head.decode(errors="replace") + hit.residual == hit.text
    if "\ufffd" not in hit.text:  # as many whole tokens are kept as fit
        for more in range(hit.num_kept_tokens + 1, number + 1):
            head = b"".join(tokens[:more]).decode(errors="replace")
            assert not hit.text.startswith(head[1:] if drop and head.startswith(" ") else head)


def run(tokens: list[str], **options: object) -> tuple[object, list[str]]:
    search = StopSearch(**options)  # type: ignore[arg-type]
    pieces = []
    for token in tokens:
        hit = search.push(token.encode())
        pieces.append(search.take())
        if hit is not None:
            return hit, pieces
    return None, pieces


def test_a_stop_over_three_tokens_and_its_cut_token() -> None:
    hit, pieces = run(["one", " two ST", "O", "P three"], stop=["STOP"])
    assert (hit.text, hit.num_kept_tokens, hit.residual) == ("one two ", 1, " two ")  # type: ignore[attr-defined]
    assert pieces == ["one", " two ", "", ""]


def test_the_earliest_begin_wins_within_one_token() -> None:
    hit, _ = run(["xbcdabc"], stop=["abc", "bcd"])
    assert (hit.text, hit.matched) == ("x", "bcd")  # type: ignore[attr-defined]


def test_of_overlapping_stops_the_first_complete_one_ends() -> None:
    hit, _ = run(["a", "b", "c", "d"], stop=["abcd", "bc"])
    assert (hit.text, hit.matched, hit.num_kept_tokens) == ("a", "bc", 1)  # type: ignore[attr-defined]


def test_a_stop_that_begins_in_the_first_tokens_is_text() -> None:
    hit, pieces = run(["x\n", "\n", "y", "\n"], stop=["\n"], min_tokens=2)
    assert hit.text == "x\n\ny"  # type: ignore[attr-defined]
    assert pieces == ["x\n", "\n", "y", ""]
    hit, _ = run(["a", "b", "ab"], stop=["ab"], min_tokens=1)
    assert hit.text == "ab"  # type: ignore[attr-defined]


def test_control_tokens_have_no_text() -> None:
    hit, _ = run(["a", "", "b!"], stop=["!"])
    assert (hit.num_kept_tokens, hit.residual) == (2, "b")  # type: ignore[attr-defined]


def test_the_residual_never_begins_inside_a_character() -> None:
    euro = "€".encode()
    search = StopSearch(["!"])
    assert search.push(b"a" + euro[:2]) is None
    hit = search.push(euro[2:] + b"b!")
    assert hit is not None
    assert (hit.num_kept_tokens, hit.residual) == (0, "a€b")


def test_pending_bytes_are_in_no_text() -> None:
    search = StopSearch(["!"])
    assert search.push("ab€".encode()[:-1]) is None
    assert (search.take(), search.finish(), search.pending) == ("ab", "", b"\xe2\x82")


def test_braces_and_brackets_mean_what_python_says() -> None:
    for pattern, text in ((r"a{e}", "a{e}"), (r"[:[al]x", ":x"), (r"\frac{d}", "\x0crac{d}")):
        stop = RegexStop(pattern)
        assert stop.find("zz" + text[:-1], 0) is None
        assert stop.first_possible("zz" + text[:-1], 0) == 2
        assert (stop.find("zz" + text, 0) or ())[:1] == (2,)


def test_a_bad_pattern_is_refused() -> None:
    with pytest.raises(re.error):
        StopSearch(stop_regex=["("])


def test_a_pattern_that_backtracks_for_ever_is_given_up() -> None:
    assert RegexStop(r"(\w+\s?)+;").find("the quick brown fox " * 20, 0) is None
    told = r"\(a\|aa\)\+\$\(\?<!b\)' takes longer than 0.1 s on 61 characters"
    with pytest.raises(InputError, match=told):
        RegexStop("(a|aa)+$(?<!b)").find("a" * 60 + "b", 0)
    assert RegexStop("(a|aa)+$").find("a" * 60 + "b", 0) is None  # an automaton never does
