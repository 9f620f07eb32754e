"""Text that comes in pieces equals the text decoded as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tokenizer import Pair, plain_texts

from sgc_runtime.tokenizer.incremental import Detokenizer, char_offset_in_bytes, decode_bytes

PIECES = st.sampled_from(
    [b"a", b" ", "é".encode(), "你".encode(), "😀".encode(), "e\u0301".encode()]
)
BROKEN = st.sampled_from([b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\x80", b"\xed\xa0\x80"])
DATA = st.lists(st.one_of(PIECES, BROKEN, st.binary(max_size=3)), max_size=12).map(b"".join)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    return [data[a:b] for a, b in zip(borders, borders[1:])]  # noqa: RUF007


@given(data=DATA, cuts=st.lists(st.integers(0, 30)), drop=st.booleans())
def test_pieces_add_up_to_the_whole(data: bytes, cuts: list[int], drop: bool) -> None:
    detokenizer = Detokenizer(drop)
    text = "".join(map(detokenizer.push, split(data, cuts)))
    kept = len(data) - len(detokenizer.pending)
    assert text == decode_bytes(data[:kept], drop)
    assert text + detokenizer.finish() == decode_bytes(data, drop)


@given(data=st.lists(PIECES, max_size=12).map(b"".join), cuts=st.lists(st.integers(0, 30)))
def test_a_cut_character_never_shows_as_replacement(data: bytes, cuts: list[int]) -> None:
    detokenizer = Detokenizer()
    for piece in split(data, cuts):
        assert "\ufffd" not in detokenizer.push(piece)
    assert detokenizer.pending == b""


@given(data=DATA)
def test_characters_are_found_in_the_bytes(data: bytes) -> None:
    text = decode_bytes(data)
    starts = [char_offset_in_bytes(data, n) for n in range(len(text))]
    assert char_offset_in_bytes(data, len(text)) == len(data)
    assert starts == sorted({*starts})
    assert starts[:1] in ([], [0])
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(data)])):
        assert decode_bytes(data[start:end]) == text[number]


def test_more_characters_than_there_are() -> None:
    with pytest.raises(IndexError, match="2 characters"):
        char_offset_in_bytes(b"a", 2)


def test_a_blank_is_left_out_only_at_the_beginning() -> None:
    detokenizer = Detokenizer(drop_blank=True)
    assert [detokenizer.push(b) for b in (b"", b" the", b" fox")] == ["", "the", " fox"]
    assert detokenizer.dropped_bytes == 1
    detokenizer = Detokenizer(drop_blank=True)
    assert [detokenizer.push(b) for b in (b"the", b" fox")] == ["the", " fox"]


@pytest.mark.parametrize("name", ["smollm", "llama2", "mistral", "gemma"])
@given(text=plain_texts())
def test_tokens_of_real_tokenizers(pairs: dict[str, Pair], name: str, text: str) -> None:
    ours = pairs[name].ours
    ids = ours.encode(text)
    detokenizer = Detokenizer(ours.at_start([]))
    assert "".join(detokenizer.push(ours.token_bytes(i)) for i in ids) == ours.decode(ids)
