"""Streams as token sequences: seams, forks, BOS, characters cut in two; on seven tokenizers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tokenizer import KINDS, encode_control, encode_prompt, plain_texts

from sgc_ir.errors import BackendError
from sgc_runtime.cache.radix_tree import Node, RadixTree
from sgc_runtime.engine.request import Prefix
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.tokenizer import Tokenizer

NAMES = [kind.name for kind in KINDS]
BYTE_LEVEL = ["gpt2", "smollm", "qwen2", "llama-bpe"]
ENGLISH = st.lists(
    st.sampled_from(
        ["The", "quick", " brown", " fox", "'s", ".", ", ", "\n", "\n\n", " 2024", "7", "?", " a"]
    ),
    min_size=1,
    max_size=8,
).map("".join)


def array(ids: list[int]) -> np.ndarray:
    return np.array(ids, np.int32)


def text_of(tokenizer: Tokenizer, ids: np.ndarray) -> str:
    return tokenizer.decode(ids.tolist())


@pytest.mark.parametrize("name", NAMES)
@given(before=plain_texts(), after=plain_texts())
@settings(max_examples=60, deadline=None)
def test_joined_text_is_the_text(
    tokenizers: dict[str, Tokenizer], name: str, before: str, after: str
) -> None:
    tokenizer = tokenizers[name]
    for policy in ("canonical", "splice"):
        seams = Seams(tokenizer, policy)
        ids = array(encode_prompt(tokenizer, [Text(before)]))
        if not after:
            continue
        joined = seams.join(ids, [Text(after)])
        whole = tokenizer.decode(tokenizer.encode(before + after))
        assert text_of(tokenizer, joined.ids) == whole
        assert joined.ids[: joined.kept].tolist() == ids[: joined.kept].tolist()
        if policy == "splice" and len(ids):
            assert joined.kept == len(ids)


@pytest.mark.parametrize("name", NAMES)
@given(before=ENGLISH, after=ENGLISH)
@settings(max_examples=80, deadline=None)
def test_canonical_seams_give_the_ids_of_the_whole_text(
    tokenizers: dict[str, Tokenizer], name: str, before: str, after: str
) -> None:
    tokenizer = tokenizers[name]
    ids = array(encode_prompt(tokenizer, [Text(before)]))
    joined = Seams(tokenizer).join(ids, [Text(after)])
    assert joined.ids.tolist() == encode_prompt(tokenizer, [Text(before + after)])


@pytest.mark.parametrize("name", BYTE_LEVEL)
@given(text=plain_texts().filter(bool), data=st.data())
@settings(max_examples=60, deadline=None)
def test_pending_bytes_are_dropped_when_text_follows(
    tokenizers: dict[str, Tokenizer], name: str, text: str, data: st.DataObject
) -> None:
    tokenizer = tokenizers[name]
    singles = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    character = data.draw(st.sampled_from(["é", "你", "🦊"])).encode()
    cut = character[: data.draw(st.integers(1, len(character) - 1))]
    ids = tokenizer.encode(text) + [singles[bytes([b])] for b in cut]
    for policy in ("canonical", "splice"):
        joined = Seams(tokenizer, policy).join(array(ids), [Text("x y")], len(cut))
        expected = tokenizer.decode(tokenizer.encode(text)) + "x y"
        assert text_of(tokenizer, joined.ids) == expected


def test_rolled_back_ids_are_not_held(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    seams = Seams(tokenizer)
    ids = array(tokenizer.encode("The answer is capit"))
    tree = RadixTree()
    node, _ = tree.insert(ids, np.arange(len(ids)))
    stream = TokenStream()
    stream.go_on(ids, node)
    stream.append([Text("al")])
    whole = stream.resolve(seams)
    assert whole.tolist() == tokenizer.encode("The answer is capital")
    assert isinstance(stream.prefix, Prefix)
    assert stream.prefix.length < len(ids)
    assert whole[: stream.prefix.length].tolist() == ids[: stream.prefix.length].tolist()


def test_control_text_rolls_nothing_back(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    odd = array([tokenizer.encode(c)[0] for c in "quick"])  # letter by letter: not canonical
    joined = Seams(tokenizer).join(odd, [Text("<|im_end|>\n<|im_start|>user\nHi", control=True)])
    assert joined.kept == 5
    assert joined.ids[5] == tokenizer.control_id("<|im_end|>")
    text = Seams(tokenizer).join(odd, [Text(" brown")])
    assert text.ids.tolist() == tokenizer.encode("quick brown")
    behind = Seams(tokenizer).join(joined.ids, [Text("gh")])
    assert behind.kept >= len(joined.ids) - 2  # never back over a control token


def test_a_fork_is_no_seam(tokenizers: dict[str, Tokenizer]) -> None:
    seams = Seams(tokenizers["smollm"])
    stream = TokenStream()
    stream.append([Text("The ans")])
    fork = stream.fork()
    fork.append([Text("wer is")])
    stream.append([Text("")])
    assert fork.resolve(seams).tolist() == seams.vocabulary.encode_pieces([Text("The answer is")])
    assert stream.resolve(seams).tolist() == seams.vocabulary.encode_pieces([Text("The ans")])


def test_equal_text_is_encoded_once(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    seams, before = Seams(tokenizer), tokenizer.calls
    parent = TokenStream()
    parent.append([Text("The quick brown fox")])
    forks = [parent.fork() for _ in range(5)]
    assert len({tuple(f.resolve(seams).tolist()) for f in forks}) == 1
    assert tokenizer.calls == before + 1


@pytest.mark.parametrize("name", ["llama-bpe", "llama2", "gemma"])
def test_bos_once(tokenizers: dict[str, Tokenizer], name: str) -> None:
    tokenizer = tokenizers[name]
    seams, bos = Seams(tokenizer), tokenizer.bos_id
    raw, empty, chat = TokenStream(), TokenStream(), TokenStream()
    raw.append([Text("The fox")])
    assert raw.resolve(seams).tolist() == [bos, *tokenizer.encode("The fox")]
    raw.append([Text(" jumps")])
    assert raw.resolve(seams).tolist().count(bos) == 1
    assert empty.resolve(seams).tolist() == [bos]
    empty.append([Text("The fox")])
    assert empty.resolve(seams).tolist() == [bos, *tokenizer.encode("The fox")]
    rendered = tokenizer.chat_template.render([{"role": "user", "content": "Hi"}])
    chat.append([Text(rendered, control=True)])
    assert chat.resolve(seams).tolist() == encode_control(tokenizer, rendered)
    assert chat.ids.tolist().count(bos) == 1


@pytest.mark.parametrize("name", ["llama-bpe", "llama2", "gemma"])
@pytest.mark.parametrize("calls_between", [False, True])
def test_bos_once_where_a_template_follows_raw_text(
    tokenizers: dict[str, Tokenizer], name: str, calls_between: bool
) -> None:
    tokenizer = tokenizers[name]
    seams, stream = Seams(tokenizer), TokenStream()
    messages = [{"role": "user", "content": "Hi"}]
    rendered = tokenizer.chat_template.render(messages)
    bos = tokenizer.control_texts[tokenizer.bos_id or 0]
    assert rendered.startswith(bos)
    stream.append([Text("The fox")])
    if calls_between:
        stream.resolve(seams)
    stream.append([Text(rendered, control=True)])
    pieces = [Text("The fox"), Text(rendered.removeprefix(bos), control=True)]
    assert stream.resolve(seams).tolist() == encode_prompt(tokenizer, pieces)
    stream.append([Text(bos + "again", control=True)])  # as Llama 2 begins each user turn
    assert stream.resolve(seams).tolist().count(tokenizer.bos_id) == 2


def test_nothing_to_go_on_from_is_refused(tokenizers: dict[str, Tokenizer]) -> None:
    with pytest.raises(BackendError, match="the prompt is empty"):
        TokenStream().resolve(Seams(tokenizers["gpt2"]))


def test_the_kept_part_of_a_cut_token_is_text(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    seams = Seams(tokenizer)
    stream = TokenStream()
    node: Node | None = None
    stream.go_on(array(tokenizer.encode("The answer")), node, residual=" is")
    stream.append([Text(" Paris")])
    assert stream.resolve(seams).tolist() == tokenizer.encode("The answer is Paris")
