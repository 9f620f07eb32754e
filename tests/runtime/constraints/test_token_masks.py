"""Masks against every token tried, states shared, and what is kept where."""

from __future__ import annotations

import logging
import os
import re
import threading
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.masks import BYTES, CONTROLS, WORDS, allowed, check_walk, tried, vocabularies

from sgc_ir.automata import limits
from sgc_ir.automata.limits import Limits, OutOfTime
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints import mask_maker
from sgc_runtime.constraints.mask_cache import MaskCache
from sgc_runtime.constraints.mask_files import MaskFiles
from sgc_runtime.constraints.mask_maker import Known, MaskMaker
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary

VOCABULARIES = vocabularies(WORDS)


@pytest.fixture(autouse=True, params=[(1, 9), (1, 400), (400, 800)], ids=str)
def few_nodes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How large a part of the trie is before a run in it is not walked state by state, and before
    it gets a table."""
    few, many = request.param
    monkeypatch.setattr(mask_maker, "_FEW_NODES", few)
    monkeypatch.setattr(mask_maker, "_FEW_NODES_OF_WIDE", few)
    monkeypatch.setattr(mask_maker, "_MANY_NODES", many)


CASES = [
    (r"[\w\d\s]{1,16}", "a_b 日本"),
    (r'"[\w\d\s]{1,16}", "[a-z]{2,3}"', '"ab a٣", "ab"'),
    (r'"[^"\\]{0,5}"', '"aé日"'),
    (r'"([^"\\\x00-\x1f]|\\["\\n])*"', '"a\\n\\"b"'),
    (r'"([^"\\\x00-\x1f]|\\["\\n]|\\u[0-9a-f]{4}){1,4}": 1', '"a\\n\\u00e9b": 1'),
    (r'"([^"\\\x00-\x1f]|\\["\\n]){2,3}"', '"a\\n"'),
    (r".{1,3}", "a日😀"),
    (r".{2,}\n\n", "aa😀\n\n"),
    (r"[ab]{2,5}b[a-z]{1,2}", "ababbab"),  # the run's characters begin what follows
    (r"[a-z]*ab[0-9]+", "ababab123"),
    (r"(a|b|aa|日.){1,3}x1", "aab日😀x1"),  # alternatives that begin alike
    (r"[日本]{1,2}[月]?a", "日本a"),  # what follows shares a lead byte
    (r"(?s).*", "a\n😀"),
    (r"[a-z]{1,300}", "abab"),
    (r"(?:[a-z]{1,4} ){2}[A-Z]+", "ab aaa AB"),
    (r"(yes|no|日本|😀😀)", "日本"),
    (r"(?!ab)[ab]{1,4}", "aabb"),
    (r"\d{3}-\d{2}", "123-00"),
    (r"(\s|\w){0,2}", " a"),
    (r"(\.[a-z0-9]{1,9}){0,3}\.[a-z]{2,4}", ".aa.x1.ab"),  # runs beside each other
    (r"([a-z]{1,9}0|[ab]{2,}|\w{1,3}x1|日|)", "aax1"),
]


@pytest.mark.parametrize(("pattern", "text"), CASES)
@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=["compiled", "numpy"])
def test_masks_along_a_text(vocabulary: Vocabulary, pattern: str, text: str) -> None:
    assert re.fullmatch(pattern, text)
    check_walk(regex_automaton(pattern), vocabulary, text.encode())


SCHEMAS = [
    ({"properties": {"ab": {}, "aab": {}, "日": {}}}, '{"ab": 1, "aa": 1, "日本": 1}'),
    ({"properties": {"a": {}, "b": {}}, "required": ["b"]}, '{"b": "x1", "ba": ["aa"]}'),
    (
        {"properties": {"x1": {}}, "additionalProperties": {"type": "string", "maxLength": 3}},
        '{"x1": 1, "x": "a", "日本": "aab"}',
    ),
]


@pytest.mark.parametrize(("schema", "text"), SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=["compiled", "numpy"])
@pytest.mark.parametrize("many_bytes", [1, 64])
def test_masks_inside_names(
    vocabulary: Vocabulary,
    schema: dict[str, object],
    text: str,
    many_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mask_maker, "_MANY_BYTES", many_bytes)
    automaton = schema_automaton({"type": "object", **schema})
    check_walk(automaton, vocabulary, text.encode(), 120)


PIECES = st.sampled_from(
    [
        "a",
        "[ab]",
        ".",
        r"\w",
        r"[^\"]",
        r"\d",
        "é",
        "日",
        "[日本a]",
        " ",
        r"\s",
        '"',
        "[^a]",
        "[😀-😄]",
    ]
)
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{0,3}", "{1,2}", "{2,}", "{1,40}"])
ITEMS = st.tuples(PIECES, COUNTS).map("".join)
REGEXES = st.recursive(
    ITEMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner, COUNTS).map(lambda t: f"(?:{t[0]}|{t[1]}){t[2]}"),
        st.tuples(inner, COUNTS).map(lambda t: f"(?:{t[0]}){t[1]}"),
    ),
    max_leaves=5,
)
VOCABULARY = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.text('ab1 "é日本😀', max_size=6).map(str.encode),
        st.text("a日😀", min_size=1, max_size=3).map(lambda t: t.encode()[1:]),
        st.text("a日😀", min_size=1, max_size=3).map(lambda t: t.encode()[:-1]),
        st.binary(max_size=3),
    ),
    max_size=60,
)


@given(REGEXES, VOCABULARY, st.data())
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_regex_and_vocabulary(pattern: str, tokens: list[bytes], data: st.DataObject) -> None:
    automaton = regex_automaton(pattern)
    masks = [TokenMasks(automaton, vocabulary) for vocabulary in vocabularies(tokens)]
    state = automaton.start
    for _ in range(6):
        expected = tried(automaton, state, tokens)
        assert [allowed(m.mask(state)) for m in masks] == [expected] * 2
        ways = automaton.ways(state)
        if not ways:
            break
        state = data.draw(st.sampled_from(ways))[2]


def test_a_vocabulary_of_bytes_reaches_every_text() -> None:
    """260 tokens: the bytes, and four without text."""
    vocabulary = Vocabulary(TokenTrie([*CONTROLS, *BYTES]), common=())
    text = '{"name": "日本 😀", "n": 12}'
    automaton = regex_automaton(r'\{"name": "[^"\\]{1,9}", "n": [0-9]{1,3}\}')
    masks = TokenMasks(automaton, vocabulary)
    state = automaton.start
    for byte in text.encode():
        assert 4 + byte in allowed(masks.mask(state))
        state = automaton.step(state, byte)
    assert automaton.is_final(state)
    assert allowed(masks.mask(state)) == set()


def test_more_characters_than_a_byte_counts() -> None:
    tokens = [b" " * n for n in (1, 255, 256, 257, 300)]
    for vocabulary in vocabularies(tokens):
        for high, expected in (
            (254, {0}),
            (255, {0, 1}),
            (256, {0, 1, 2}),
            (1000, {0, 1, 2, 3, 4}),
        ):
            automaton = regex_automaton(f" {{1,{high}}}")
            assert allowed(TokenMasks(automaton, vocabulary).mask(automaton.start)) == expected


def test_masks_are_read_only_and_made_once() -> None:
    vocabulary = vocabularies(WORDS)[0]
    automaton = regex_automaton("[a-z]+")
    masks = TokenMasks(automaton, vocabulary)
    first = masks.mask(automaton.start)
    assert masks.mask(automaton.start) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_equal_states_of_several_automata_share_a_mask() -> None:
    vocabulary = vocabularies(WORDS)[0]
    first, second = (regex_automaton(f'"{key}": "[^"]*"') for key in ("a", "b"))
    states = [a.walk(a.start, f'"{k}": "x'.encode()) for a, k in ((first, "a"), (second, "b"))]
    one = TokenMasks(first, vocabulary).mask(states[0])
    assert TokenMasks(second, vocabulary).mask(states[1]) is one
    assert len(vocabulary.cache) == 3  # and those of the two first states


def test_equal_masks_of_different_states_are_kept_once() -> None:
    vocabulary = vocabularies([b"a", b"b", b"c"])[0]
    automaton = regex_automaton("a" * 50)
    masks = TokenMasks(automaton, vocabulary)
    assert masks.warm(seconds=10, states=40) == 40
    cache = vocabulary.cache
    assert (len(cache), cache.num_bytes) == (40, 40 * 256 + masks.mask(automaton.start).nbytes)


def test_counts_that_no_token_reaches_share_a_mask() -> None:
    vocabulary = vocabularies(WORDS)[0]
    automaton = regex_automaton(r'"([^"\\]|\\["n]){1,200}"')
    masks = TokenMasks(automaton, vocabulary)
    state = automaton.walk(automaton.start, b'"a')
    for data in (b"b", b"aab", b"x1", b'\\"'):
        after = automaton.walk(state, data)
        assert after != state
        assert masks.mask(after) is masks.mask(state)
        state = after


def test_the_least_recently_used_masks_are_dropped() -> None:
    cache = MaskCache(3 * (400 + 256))
    masks = {n: np.full(100, n, np.int32) for n in range(5)}
    for n in range(3):
        cache.put(bytes([n]), masks[n])
    assert cache.get(bytes([0])) is not None
    cache.put(bytes([3]), masks[3])
    assert cache.get(bytes([1])) is None
    assert [int(m[0]) for n in (0, 2, 3) if (m := cache.get(bytes([n]))) is not None] == [0, 2, 3]
    assert cache.num_bytes == 3 * (400 + 256)
    tiny = MaskCache(1)
    assert int(tiny.put(b"x", masks[4])[0]) == 4


def files(folder: Path, budget: int = 1 << 20) -> Vocabulary:
    return Vocabulary(TokenTrie(WORDS), files=MaskFiles(folder, budget), common=())


def test_masks_come_back_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, text = r'"[^"\\]{1,9}": (yes|no|[0-9]+)', '"a日": 12'
    automaton = regex_automaton(pattern)
    masks = TokenMasks(automaton, files(tmp_path))
    states = [automaton.walk(automaton.start, text.encode()[:n]) for n in range(len(text))]
    made = [allowed(masks.mask(state)) for state in states]
    assert [masks.save(), masks.save()] == [True, True]
    monkeypatch.setattr(MaskMaker, "make", lambda *_: pytest.fail("made again"))
    again = regex_automaton(pattern)
    again.walk(again.start, b'"zz": no')  # states get other numbers
    kept = TokenMasks(again, files(tmp_path))
    assert kept.save()
    states = [again.walk(again.start, text.encode()[:n]) for n in range(len(text))]
    assert [allowed(kept.mask(state)) for state in states] == made


def test_damaged_files_are_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    automaton = regex_automaton("[a-z]+[0-9]")
    masks = TokenMasks(automaton, files(tmp_path))
    expected = allowed(masks.mask(automaton.start))
    masks.save()
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", b"x" * 99, whole[:-1], whole[:60] + b"x" + whole[61:]):
        file.write_bytes(damaged)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "sgc"):
            again = TokenMasks(automaton, files(tmp_path))
        assert "masks are made anew" in caplog.text
        assert allowed(again.mask(automaton.start)) == expected
        again.save()
        assert file.read_bytes() == whole


def test_files_are_bounded(tmp_path: Path) -> None:
    for n in range(6):
        automaton = regex_automaton(f"[a-z]{{{n + 1}}}")
        masks = TokenMasks(automaton, files(tmp_path, budget=400))
        masks.mask(automaton.start)
        masks.save()
    left = list(tmp_path.iterdir())
    assert 0 < sum(file.stat().st_size for file in left) <= 400
    assert masks._file in left


def test_what_was_left_unfinished_is_deleted(tmp_path: Path) -> None:
    old, new, kept = (tmp_path / name for name in ("tmpold", "tmpnew", "other"))
    for folder in (old, new, kept):
        folder.mkdir()
        (folder / "masks").write_bytes(b"half")
    for folder in (old, kept):
        os.utime(folder, (1, 1))
    MaskFiles(tmp_path)
    assert sorted(tmp_path.iterdir()) == [kept, new]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    automaton = regex_automaton("[a-z]+")
    masks = TokenMasks(automaton, files(tmp_path / "file"))
    masks.mask(automaton.start)
    assert [masks.save(), masks.save()] == [False, False]
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_threads_get_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], MaskMaker.make

    def counted(maker: MaskMaker, state: int, known: Known) -> Int32:
        made.append(state)
        return make(maker, state, known)

    monkeypatch.setattr(MaskMaker, "make", counted)
    vocabulary = vocabularies(WORDS)[0]
    automaton = regex_automaton(r'(?:"[\w ]{1,30}"[,:] ){1,9}')
    masks = TokenMasks(automaton, vocabulary)
    found: list[list[set[int]]] = []
    text = b'"ab a": "x1", "a_b": '

    def go() -> None:
        out, state = [], automaton.start
        for byte in text:
            out.append(allowed(masks.mask(state)))
            with masks.lock:
                state = automaton.step(state, byte)
        found.append(out)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    masks.warm(seconds=0.5, states=200)
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(out == found[0] for out in found)
    assert len(made) == len(vocabulary.cache)


def test_limits_end_a_mask() -> None:
    automaton = regex_automaton("(?:ab|b){1,500}c", Limits(states=3))
    vocabulary = vocabularies([b"abababab"])[0]
    with pytest.raises(ConstraintError, match="more than 3 states"):
        TokenMasks(automaton, vocabulary).mask(automaton.start)


def test_the_first_mask_is_bounded_in_time_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = vocabularies([b"abcdefghijklmnop"])[0]
    long = "".join(f"(?:{c}|{c.upper()}x)" for c in "abcdefghijklmnop")
    automata = [regex_automaton(pattern) for pattern in (long, "(?:a|Bx)(?:b|Cx)z")]
    clock = count(0, 0.1)
    monkeypatch.setattr(limits, "work_time", lambda: next(clock))  # a look takes so long
    monkeypatch.setattr(limits, "_BETWEEN_LOOKS", 0)
    with pytest.raises(OutOfTime, match=r"longer than 0\.8 s"):
        TokenMasks(automata[0], vocabulary)
    TokenMasks(automata[1], vocabulary)
