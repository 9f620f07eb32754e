"""The canonical rule against the encoding of whole texts."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jumps import byte_tokenizer, word_tokenizer
from support.tokenizer import KINDS, plain_texts

from sgc_runtime.constraints.canonical import (
    MAX_WINDOW_BYTES,
    MAX_WINDOW_IDS,
    Canonical,
    Window,
    window_start,
)
from sgc_runtime.constraints.memo import Memo
from sgc_runtime.tokenizer.borders import inside_character, is_border, whole_characters
from sgc_runtime.tokenizer.tokenizer import Tokenizer

NAMES = ("gpt2", "smollm", "qwen2", "llama-bpe", "gemma", "bytes")


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tokenizer, Canonical]]:
    found = {}
    for kind in KINDS:
        tokenizer = word_tokenizer(kind, tmp_path_factory.mktemp(kind.name))
        found[kind.name] = (tokenizer, Canonical(tokenizer))
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    return {**found, "bytes": (tokenizer, Canonical(tokenizer))}


def windows(ids: list[int], rule: Canonical) -> list[Window]:
    """The window in front of each id."""
    found, start = [Window()], 0
    for end in range(1, len(ids)):
        start = window_start(ids[:end], start, rule)
        exact = start == 0
        if 0 < start < end:
            exact = is_border(rule.token_bytes(ids[start - 1]), rule.token_bytes(ids[start]))
        found.append(Window(tuple(ids[start:end]), exact))
    return found


@pytest.mark.parametrize("name", NAMES)
@given(plain_texts())
@settings(max_examples=40, deadline=None)
def test_what_a_text_encodes_to_is_never_refused_at_its_end(
    rules: dict[str, tuple[Tokenizer, Canonical]], name: str, text: str
) -> None:
    tokenizer, rule = rules[name]
    ids = tokenizer.encode(text, start=False)
    if not ids:
        return
    window = windows(ids, rule)[-1]
    assert rule.is_canonical(window, ids[-1]) is not False


@pytest.mark.parametrize("name", NAMES)
@given(plain_texts(), st.data())
@settings(max_examples=40, deadline=None)
def test_exact_windows_decide_as_the_whole_text_does(
    rules: dict[str, tuple[Tokenizer, Canonical]], name: str, text: str, data: st.DataObject
) -> None:
    tokenizer, rule = rules[name]
    ids = tokenizer.encode(text, start=False)
    place = data.draw(st.integers(0, len(ids)))
    prefix = ids[:place]
    known = tokenizer.encode(rule.bytes_of(prefix).decode(errors="replace"), start=False)
    if known != prefix:  # what stands in front is not canonical by itself
        return
    window = windows([*prefix, 0], rule)[-1]
    token = data.draw(st.integers(0, tokenizer.vocab_size - 1).filter(tokenizer.token_bytes))
    found = rule.is_canonical(window, token)
    try:
        whole = rule.bytes_of([*prefix, token]).decode()
    except UnicodeDecodeError:
        assert found is None
        return
    if window.exact and found is not None:
        assert found == (tokenizer.encode(whole, start=False) == [*prefix, token])


@given(st.lists(st.integers(4, 700), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_windows_are_small_and_begin_with_a_character(
    rules: dict[str, tuple[Tokenizer, Canonical]], ids: list[int]
) -> None:
    tokenizer, rule = rules["gpt2"]
    ids = [i for i in ids if tokenizer.token_bytes(i)]
    for window in windows([*ids, 0], rule)[1:]:
        data = rule.bytes_of(window.ids)
        assert len(window.ids) <= MAX_WINDOW_IDS
        assert len(data) <= MAX_WINDOW_BYTES or len(window.ids) == 1
        assert not data or not inside_character(data)


def test_a_token_behind_a_border_is_judged_alone(
    rules: dict[str, tuple[Tokenizer, Canonical]],
) -> None:
    tokenizer, rule = rules["smollm"]
    (quick,) = tokenizer.encode(" quick")
    broken = tuple(tokenizer.encode(letter)[0] for letter in "The")
    assert rule.is_canonical(Window(broken), quick)
    assert tokenizer.encode("The") != list(broken)
    assert rule.is_canonical(Window(broken[:1]), broken[1]) is (
        tokenizer.encode("Th") == list(broken[:2])
    )


def test_what_is_cut_inside_a_character_is_judged_when_it_is_complete(
    rules: dict[str, tuple[Tokenizer, Canonical]],
) -> None:
    tokenizer, rule = rules["gpt2"]
    single = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    first, second = (single[bytes([byte])] for byte in "é".encode())
    assert rule.is_canonical(Window(), first) is None
    assert rule.is_canonical(Window((first,)), second) is (tokenizer.encode("é") == [first, second])


def test_text_that_the_tokenizer_changes_is_not_judged(
    rules: dict[str, tuple[Tokenizer, Canonical]],
) -> None:
    tokenizer, rule = rules["qwen2"]  # composes characters
    e, *accent = tokenizer.encode("e", start=False) + tokenizer.encode("x\u0301")[1:]
    assert rule.encode("e\u0301".encode()) is None
    assert rule.is_canonical(Window((e, *accent[:-1])), accent[-1]) is None


def test_a_blank_that_the_tokenizer_puts_in_front_is_part_of_the_ids(
    rules: dict[str, tuple[Tokenizer, Canonical]],
) -> None:
    tokenizer, rule = rules["llama2"]
    ids = tokenizer.encode("The quick")
    assert rule.encode(b" The quick", start=True) == tuple(ids)
    assert rule.encode(b"The quick", start=True) is None
    assert rule.is_canonical(Window((), start=True), ids[0])


@pytest.mark.parametrize("text", ["a", "aé", "日", "a😀", ""])
def test_whole_characters(text: str) -> None:
    data = text.encode()
    assert whole_characters(data) == len(data)
    last = len(text[-1:].encode())
    for cut in range(1, last):
        assert whole_characters(data[:-cut]) == len(data) - last
    assert whole_characters(data[1:]) == len(data[1:])


def test_a_memo_forgets_what_was_not_asked_for_longest() -> None:
    asked: list[int] = []

    def double(value: int) -> int:
        asked.append(value)
        return 2 * value

    memo: Memo[int, int] = Memo(2)
    find = partial(memo.find, make=double)
    assert [find(i) for i in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert asked == [1, 2, 3, 2]
