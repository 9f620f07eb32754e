"""Jumps against the encoding of every text that is still legal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jumps import Bench, Trace, bpe_tokenizer, byte_tokenizer, settle, word_tokenizer
from support.masks import allowed
from support.tokenizer import KINDS, WORDS

from benchmarks.common.constraint_cases import regex_cases
from sgc_ir.automata.regex import regex_automaton
from sgc_runtime.constraints.jump import Jump
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.models import resolve
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

NAMES = ("gpt2", "smollm", "qwen2", "llama-bpe", "gemma", "mistral", "bytes")

SOURCES = {case.name: case.source for case in regex_cases()}
HARRY = (
    '{\n    "name": "Harry Potter",\n    "house": "Gryffindor",\n'
    '    "blood status": "Half-blood",\n    "occupation": "student",\n'
    '    "wand": {\n        "wood": "Holly",\n        "core": "Phoenix feather",\n'
    '        "length": 11.0\n    },\n    "alive": "Alive",\n    "patronus": "Stag",\n'
    '    "bogart": "Dementor"\n}'
)
PARIS = (
    '{\n  "name": "Paris",\n  "country": "France",\n  "latitude": 48.85,\n'
    '  "population": 2140000,\n'
    '  "top 3 landmarks": ["Eiffel Tower", "Louvre Museum", "Notre Dame"]\n}'
)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    found = {"bytes": Bench(byte_tokenizer(tmp_path_factory.mktemp("bytes")))}
    for kind in KINDS:
        if kind.name in NAMES:
            found[kind.name] = Bench(word_tokenizer(kind, tmp_path_factory.mktemp(kind.name)))
    return found


@pytest.fixture(scope="module")
def smollm2() -> Bench:
    return Bench(load_tokenizer(resolve("smollm2-135m")))


def matcher(bench: Bench, pattern: str, healed: bytes = b"") -> Matcher:
    return Matcher(bench.planner(regex_automaton(pattern)), healed)


def pieces(bench: Bench, jump: Jump | None) -> tuple[int, list[bytes]]:
    assert jump is not None
    return jump.rollback, [bench.tokenizer.token_bytes(token) for token in jump.ids]


def write(bench: Bench, found: Matcher, text: str) -> Trace:
    """Let `found` take the tokens of `text`, where it does not force them itself."""
    ids, trace = bench.tokenizer.encode(text, start=False), Trace()
    settle(bench, found, trace)
    while not found.is_final and found.ids != ids:
        at = len(found.ids)
        assert found.ids == ids[:at], text
        token = ids[at]
        assert token in allowed(found.mask())
        assert found.is_canonical(token) is not False
        found.accept(token)
        trace.free += 1
        settle(bench, found, trace)
    assert found.ids == ids
    assert found.end_allowed
    return trace


def beginning(sequences: Sequence[Any]) -> Any:
    """What all begin with."""
    least, most = min(sequences), max(sequences)
    same = (a == b for a, b in zip(least, most, strict=False))
    return least[: next((i for i, equal in enumerate(same) if not equal), len(least))]


# Behind white space this one looks ahead, as GPT-2's does; no token of its crosses the end.
AHEAD = [r"a\n\n[ -~]+b", r"a\n\n[\t -~]*(b|c)q", "a  [ -~]+", r"a\n\n[\t -z]+q?", r"a\n\n\W\w+"]


@pytest.mark.parametrize("pattern", AHEAD)
def test_what_a_tokenizer_takes_apart_by_what_follows_is_held_back(
    tmp_path: Path, pattern: str
) -> None:
    bench = Bench(bpe_tokenizer(tmp_path, ["\n\n", "  "]))
    begin = "a  " if pattern.startswith("a  ") else "a\n\n"
    for end in ("xbq", " xbq", "1bcq", "+b", "b", "  b", "--bq", "\tbq", "\t\tcq", "+1q"):
        if re.fullmatch(pattern, begin + end):
            write(bench, matcher(bench, pattern), begin + end)


@pytest.mark.parametrize("pattern", AHEAD)
def test_a_jump_does_not_depend_on_what_was_asked_before(tmp_path: Path, pattern: str) -> None:
    bench = Bench(bpe_tokenizer(tmp_path, ["\n\n", "  "]))
    fresh, asked = regex_automaton(pattern), regex_automaton(pattern)
    state = asked.forced(asked.start)[1]
    for _, _, following in asked.ways(state):
        asked.expand(following)
    jumps = [Matcher(bench.planner(automaton)).jump() for automaton in (fresh, asked)]
    assert jumps[0] == jumps[1]


MORE_WORDS = [
    "order",
    "orderId",
    " yes",
    " no",
    '"',
    ": ",
    '", "',
    '",',
    "a",
    "the",
    " is",
    "\n  ",
    "\n\n",
]
TEXTS = st.lists(st.sampled_from([*WORDS, *MORE_WORDS]), max_size=4).map("".join)


@pytest.mark.parametrize("name", NAMES)
@given(TEXTS, st.lists(TEXTS, min_size=2, max_size=4, unique=True))
@settings(max_examples=30, deadline=None)
def test_what_is_forced_is_forced_by_every_legal_text(
    benches: dict[str, Bench], name: str, begin: str, ends: list[str]
) -> None:
    bench = benches[name]
    texts = [begin + end for end in ends]
    encoded = [bench.tokenizer.encode(text, start=False) for text in texts]
    if any(bench.text(i) != t.encode() for i, t in zip(encoded, texts, strict=True)):
        return  # the tokenizer changes the text
    found = matcher(bench, "|".join(map(re.escape, texts)))
    settle(bench, found, Trace())
    for ids in encoded:
        assert ids[: len(found.ids)] == found.ids
    # What all have in common is forced, but for what could not be tried.
    run = beginning([text.encode() for text in texts])
    common = list(beginning(encoded))
    while common and len(bench.text(common)) > len(run):
        common.pop()
    if not any(text.encode() == run for text in texts):
        assert len(found.ids) >= len(common) - 3


HOLES = {
    "[a-z]{1,8}": "abcxyz",
    "[ -~]{1,9}": "ab, 1.",
    r"[\w ]{1,12}": "aé 日_7",
    r"\d+": "0123",
    "[^x]*": 'a ",\n😀',
}


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, str]:
    """A pattern with holes, and a text that it matches."""
    pattern = text = ""
    for _ in range(draw(st.integers(1, 4))):
        literal = draw(TEXTS)
        hole, letters = draw(st.sampled_from(list(HOLES.items())))
        filled = draw(st.text(letters, min_size=1, max_size=8))
        pattern, text = pattern + re.escape(literal) + hole, text + literal + filled
    return pattern, text


@pytest.mark.parametrize("name", NAMES)
@given(templates())
@settings(max_examples=30, deadline=None)
def test_every_legal_text_is_reached_by_its_own_ids(
    benches: dict[str, Bench], name: str, template: tuple[str, str]
) -> None:
    bench, (pattern, text) = benches[name], template
    if bench.text(bench.tokenizer.encode(text, start=False)) != text.encode():
        return  # the tokenizer changes the text
    assert re.fullmatch(pattern, text)
    write(bench, matcher(bench, pattern), text)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Of few tokens, so that one sees which bytes are held back."""
    words = ["or", "de", "der", "order", "Id", "orderId", '",', '"}', "ab", " y", " n"]
    return Bench(bpe_tokenizer(tmp_path_factory.mktemp("orders"), words))


def held(bench: Bench, pattern: str) -> Iterator[bytes]:
    _, forced = pieces(bench, matcher(bench, pattern).jump())
    yield from forced


def test_bytes_that_may_merge_with_what_follows_are_held_back(orders: Bench) -> None:
    assert list(held(orders, "x(order|orderId)")) == [b"x"]
    assert list(held(orders, "x(order!|orderId)")) == [b"x"]
    assert list(held(orders, "x(order!|order[?])")) == [b"x", b"order"]
    assert list(held(orders, "xorder[a-z]")) == [b"x", b"order"]
    assert list(held(orders, "is (y|n)")) == [b"i", b"s"]
    assert list(held(orders, "is [0-9]")) == [b"i", b"s", b" "]
    assert list(held(orders, "xa[bc]")) == [b"x"]


def test_a_run_that_ends_the_text_is_forced_whole(orders: Bench) -> None:
    jump = matcher(orders, "xorder").jump()
    assert pieces(orders, jump) == (0, [b"x", b"order"])
    assert jump is not None
    assert jump.final


def test_the_last_token_is_rolled_back_where_it_merges_with_the_run(orders: Bench) -> None:
    found = matcher(orders, '[a-z]+", [0-9]')
    for token in orders.tokenizer.encode("ab") + orders.tokenizer.encode('"'):
        assert found.jump() is None
        found.accept(token)
    jump = found.jump()
    assert pieces(orders, jump) == (1, [b'",', b" "])
    assert jump is not None
    found.apply(jump)
    assert orders.text(found.ids) == b'ab", '
    assert found.jump() is None


def test_what_no_other_token_could_avoid_is_put_right(orders: Bench) -> None:
    found = matcher(orders, "[ab]{2}")
    a, b = orders.tokenizer.encode("a") + orders.tokenizer.encode("b")
    found.accept(a)
    assert found.is_canonical(b) is False
    found.accept(b)
    jump = found.jump()
    assert pieces(orders, jump) == (2, [b"ab"])
    assert jump is not None
    assert jump.final


def test_a_text_that_may_end_is_not_passed(orders: Bench) -> None:
    jump = matcher(orders, "x(yz)?").jump()
    assert pieces(orders, jump) == (0, [b"x"])
    assert jump is not None
    assert not jump.final


def test_long_runs_are_forced_piece_by_piece(benches: dict[str, Bench]) -> None:
    bench, text = benches["smollm"], "The quick brown fox. " * 500
    found, trace = matcher(bench, re.escape(text)), Trace()
    settle(bench, found, trace)
    assert found.ids == bench.tokenizer.encode(text, start=False)
    assert found.is_final


def test_characters_are_forced_whole(benches: dict[str, Bench]) -> None:
    bench = benches["bytes"]
    assert matcher(bench, "😀|😁").jump() is None  # three bytes are certain
    assert pieces(bench, matcher(bench, "a😀|a😁").jump()) == (0, [b"a"])
    found = matcher(bench, "x|😀")
    assert found.jump() is None
    (first,) = bench.prefixes.starting_with("😀".encode()[:1]).tolist()
    found.accept(first)
    jump = found.jump()  # begins in the middle of a character
    assert pieces(bench, jump) == (0, [bytes([byte]) for byte in "😀".encode()[1:]])


def test_byte_fall_back(benches: dict[str, Bench]) -> None:
    bench = benches["gemma"]
    found = matcher(bench, "é語[a-z]")
    assert pieces(bench, found.jump()) == (
        0,
        [bench.tokenizer.token_bytes(i) for i in bench.tokenizer.encode("é語")],
    )
    assert len(bench.tokenizer.encode("語")) == 3


def test_a_character_that_began_out_of_reach_is_completed_by_bytes(
    benches: dict[str, Bench],
) -> None:
    for name in ("gemma", "smollm"):
        bench = benches[name]
        prefix = "語".encode()[1:]
        jump = matcher(bench, "abc[a-z]", healed=prefix).jump()
        assert pieces(bench, jump)[1][:2] == [prefix[:1], prefix[1:]]


@pytest.mark.model
@pytest.mark.parametrize(
    ("case", "text", "passes", "tokens"),
    [("character object", HARRY, 32, 104), ("city object", PARIS, 35, 63)],
)
def test_what_jumping_saves(smollm2: Bench, case: str, text: str, passes: int, tokens: int) -> None:
    found = matcher(smollm2, SOURCES[case])
    trace = write(smollm2, found, text)
    assert len(found.ids) == tokens
    assert trace.free <= passes


@pytest.mark.model
@pytest.mark.parametrize(
    ("pattern", "forced"),
    [
        ("日本語です", "日本語です"),
        ("😀😁|😀😂", "😀"),
        ("無線|無緑", "無"),
        ("The answer is (yes|no)", "The answer is"),
        ('"name": "[a-z]+"', '"name": "'),
        ('"n": [0-9]+', '"n": '),
    ],
)
def test_runs_of_the_default_model(smollm2: Bench, pattern: str, forced: str) -> None:
    jump = matcher(smollm2, pattern).jump()
    assert jump is not None
    assert list(jump.ids) == smollm2.tokenizer.encode(forced)
    assert jump.final is (pattern == forced)


@pytest.mark.model
def test_a_closing_quote_becomes_the_token_with_its_comma(smollm2: Bench) -> None:
    found = matcher(smollm2, r'\{"name": "[a-z]+", "age": [0-9]+\}')
    settle(smollm2, found, Trace())
    for token in smollm2.tokenizer.encode("bob") + smollm2.tokenizer.encode('"'):
        found.accept(token)
    assert pieces(smollm2, found.jump()) == (1, [b'",', b' "', b"age", b'":', b" "])
