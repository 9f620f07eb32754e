"""Tokenizers rebuilt from GGUF metadata give the ids of the files they were made from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from support.tokenizer import (
    BYTE_LEVEL,
    CHATML,
    Kind,
    Pair,
    encode_control,
    plain_texts,
    tricky_texts,
)

from sgc_ir.errors import ModelError
from sgc_runtime.models import resolve
from sgc_runtime.tokenizer.gguf_tokenizer import merges_from_scores, source_from_metadata
from sgc_runtime.tokenizer.pretokenizers import SCHEMES
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PRE = {"gpt2": "gpt-2", "smollm": "smollm", "qwen2": "qwen2", "llama-bpe": "llama-bpe"}


def tokens_and_types(kind: Kind, data: dict[str, Any]) -> tuple[list[str], list[int]]:
    tokens = sorted(data["model"]["vocab"], key=data["model"]["vocab"].__getitem__)
    types = []
    for token in tokens:
        if token in kind.special:
            types.append(2 if token == "<unk>" else 3)
        elif token in kind.whole:
            types.append(4)
        else:
            types.append(6 if token.startswith("<0x") else 1)
    return tokens, types


def byte_level_metadata(pair: Pair) -> dict[str, Any]:
    tokens, types = tokens_and_types(pair.kind, pair.data)
    merges = pair.data["model"]["merges"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": PRE[pair.kind.name],
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [m if isinstance(m, str) else " ".join(m) for m in merges],
    }
    for key, name in (("bos_token_id", "bos_token"), ("eos_token_id", "eos_token")):
        if name in pair.kind.config:
            metadata[f"tokenizer.ggml.{key}"] = tokens.index(pair.kind.config[name])
    if pair.kind.template is not None:
        metadata["tokenizer.chat_template"] = pair.kind.template
    return metadata


def sentencepiece_metadata(pair: Pair) -> dict[str, Any]:
    tokens, types = tokens_and_types(pair.kind, pair.data)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))],
        "tokenizer.ggml.bos_token_id": tokens.index("<s>"),
        "tokenizer.ggml.eos_token_id": tokens.index("</s>"),
        "tokenizer.chat_template": pair.kind.template,
    }


@pytest.fixture(scope="module")
def rebuilt(pairs: dict[str, Pair]) -> dict[str, Tokenizer]:
    made = {
        name: Tokenizer(source_from_metadata(byte_level_metadata(pairs[name]), name))
        for name in BYTE_LEVEL
    }
    made["llama2"] = Tokenizer(
        source_from_metadata(sentencepiece_metadata(pairs["llama2"]), "llama2")
    )
    return made


@pytest.mark.parametrize("name", BYTE_LEVEL)
@QUICK
@given(text=tricky_texts())
def test_byte_level_ids_equal_the_original_files(
    pairs: dict[str, Pair], rebuilt: dict[str, Tokenizer], name: str, text: str
) -> None:
    ours, original = rebuilt[name], pairs[name].ours
    assert ours.encode(text) == original.encode(text)
    assert encode_control(ours, text) == pairs[name].theirs.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("name", [*BYTE_LEVEL, "llama2"])
def test_facts_beside_the_vocabulary(
    pairs: dict[str, Pair], rebuilt: dict[str, Tokenizer], name: str
) -> None:
    ours, original = rebuilt[name], pairs[name].ours
    assert ours.bos_id == original.bos_id
    assert ours.eos_ids == original.eos_ids
    assert ours.end_of_turn_ids == original.end_of_turn_ids
    assert ours.control_texts == original.control_texts
    assert ours.chat_template.source == pairs[name].kind.template
    for token_id in range(original.vocab_size):
        assert ours.token_bytes(token_id) == original.token_bytes(token_id)


def sentencepiece_ids(text: str, metadata: dict[str, Any]) -> list[int]:
    """SentencePiece's BPE, written down plainly: join the best-scored neighbours until none fit."""
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata["tokenizer.ggml.token_type"]
    scores = metadata["tokenizer.ggml.scores"]
    known = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    parts = list("\u2581" + text.replace(" ", "\u2581")) if text else []
    while True:
        joins = [
            (-scores[known[a + b]], -len(a), at)
            for at, (a, b) in enumerate(pairwise(parts))
            if a + b in known and a in known and b in known
        ]
        if not joins:
            break
        at = min(joins)[2]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    ids = []
    for part in parts:
        if part in known:
            ids.append(known[part])
        else:
            ids += [tokens.index(f"<0x{byte:02X}>") for byte in part.encode()]
    return ids


@QUICK
@given(text=plain_texts())
def test_sentencepiece_joins_by_score_and_falls_back_to_bytes(
    pairs: dict[str, Pair], rebuilt: dict[str, Tokenizer], text: str
) -> None:
    metadata = sentencepiece_metadata(pairs["llama2"])
    ids = rebuilt["llama2"].encode(text)
    assert ids == sentencepiece_ids(text, metadata)
    assert rebuilt["llama2"].decode(ids) == text.replace("\u2581", " ")


def test_merges_stand_in_order_of_score_and_make_only_ordinary_tokens() -> None:
    tokens = ["<unk>", "a", "b", "ab", "abb", "bb", "<s>", "s", ">", "<"]
    types = [2, 1, 1, 1, 1, 1, 3, 1, 1, 1]
    scores = [0.0, -9, -9, -2, -1, -3, 5, -9, -9, -9]
    assert merges_from_scores(tokens, types, scores) == [
        ("ab", "b"),
        ("a", "bb"),
        ("a", "b"),
        ("b", "b"),
    ]


def test_no_blank_in_front_where_the_file_says_so(pairs: dict[str, Pair]) -> None:
    metadata = sentencepiece_metadata(pairs["llama2"])
    metadata["tokenizer.ggml.add_space_prefix"] = False
    ours = Tokenizer(source_from_metadata(metadata, "x"))
    assert ours.decode(ours.encode("The fox")) == "The fox"
    assert b"".join(map(ours.token_bytes, ours.encode("The fox"))) == b"The fox"
    assert not ours.at_start([])


def test_what_the_file_says_about_bos_counts(pairs: dict[str, Pair]) -> None:
    for name, said in (("llama-bpe", False), ("smollm", True)):
        metadata = byte_level_metadata(pairs[name])
        metadata["tokenizer.ggml.add_bos_token"] = said
        ours = Tokenizer(source_from_metadata(metadata, name))
        assert (ours.bos_id is not None) == said


def test_unused_places_and_further_ends(pairs: dict[str, Pair]) -> None:
    metadata = byte_level_metadata(pairs["smollm"])
    metadata["tokenizer.ggml.tokens"] += ["[PAD1]", "[PAD2]"]
    metadata["tokenizer.ggml.token_type"] += [5, 5]
    metadata["tokenizer.ggml.eot_token_id"] = 0
    ours = Tokenizer(source_from_metadata(metadata, "x"))
    last = len(metadata["tokenizer.ggml.tokens"]) - 1
    assert ours.vocab_size == last + 1
    assert ours.token_bytes(last) == b""
    assert last not in ours.control_ids
    assert ours.eos_ids == {0, 2}


def test_a_written_file_is_read(pairs: dict[str, Pair], tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    for key, value in byte_level_metadata(pairs["smollm"]).items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    ours = load_tokenizer(file)
    text = "In 2024 <|im_end|> don't"
    assert ours.encode(text) == pairs["smollm"].ours.encode(text)
    assert ours.chat_template.source == CHATML


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update({"tokenizer.ggml.pre": "klingon"}), "'klingon'"),
        (lambda m: m.update({"tokenizer.ggml.model": "bert"}), "'bert'"),
        (lambda m: m.pop("tokenizer.ggml.model"), "no tokenizer"),
        (lambda m: m.pop("tokenizer.ggml.tokens"), "no tokens"),
        (lambda m: m["tokenizer.ggml.token_type"].pop(), "token_type"),
        (lambda m: m["tokenizer.ggml.merges"].append("abc"), "no pair"),
        (lambda m: m["tokenizer.ggml.merges"].append("a zzzz"), "damaged"),
        (lambda m: m["tokenizer.ggml.tokens"].__setitem__(5, "!"), "twice"),
        (
            lambda m: m.update({"tokenizer.ggml.model": "llama", "tokenizer.ggml.merges": []}),
            "scores",
        ),
    ],
)
def test_broken_metadata_is_refused_by_name(
    pairs: dict[str, Pair], change: Change, reason: str
) -> None:
    metadata = byte_level_metadata(pairs["smollm"])
    change(metadata)
    with pytest.raises(ModelError, match=reason) as caught:
        Tokenizer(source_from_metadata(metadata, "tiny.gguf"))
    assert "tiny.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_schemes_that_must_be_known() -> None:
    assert {"smollm", "llama-bpe", "qwen2", "gpt-2", "default"} <= SCHEMES.keys()


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    return load_tokenizer(resolve("smollm2-135m"))


@pytest.mark.model
def test_the_default_model_cuts_every_digit(smollm2: Tokenizer) -> None:
    spelled = [smollm2.token_bytes(i) for i in smollm2.encode("The year 2024, pi 3.14")]
    assert [piece for piece in spelled if any(chr(c).isdigit() for c in piece)] == [
        *(b"2", b"0", b"2", b"4", b"3", b"1", b"4")
    ]


@pytest.mark.model
def test_the_default_models_known_ids(smollm2: Tokenizer) -> None:
    assert smollm2.vocab_size == 49152
    assert smollm2.bos_id is None
    assert smollm2.eos_ids == smollm2.end_of_turn_ids == {2}
    assert smollm2.control_ids == {*range(17)}
    assert encode_control(smollm2, "<|im_start|>user\nHello<|im_end|>\n") == [
        *(1, 4093, 198, 19556, 2, 198)
    ]
    assert smollm2.encode("Hello 42") == [19556, 216, 36, 34]


@pytest.mark.model
def test_the_default_model_puts_in_its_system_turn(smollm2: Tokenizer) -> None:
    rendered = smollm2.chat_template.render([{"role": "user", "content": "Hi"}], True)
    assert rendered.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert rendered.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
