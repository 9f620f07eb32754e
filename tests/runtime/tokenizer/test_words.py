"""Ids by words are those that the tokenizer gives for the text as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tokenizer import BYTE_LEVEL, KINDS, tokenizer_json
from tokenizers import Tokenizer as Encoder

from sgc_runtime.models import resolve
from sgc_runtime.tokenizer import words as words_module
from sgc_runtime.tokenizer.tokenizer import load_tokenizer
from sgc_runtime.tokenizer.words import Words, words_of

BY_NAME = {kind.name: kind for kind in KINDS}
_ASCII = st.text(st.characters(max_codepoint=127), max_size=40)
_LIKELY = st.text("ab '\"\n\t\r129.,sdtrevmlSDL ", max_size=30)


@pytest.fixture(scope="module")
def sources() -> dict[str, dict[str, Any]]:
    return {name: tokenizer_json(kind) for name, kind in BY_NAME.items()}


@pytest.fixture(scope="module")
def found(sources: dict[str, dict[str, Any]]) -> dict[str, tuple[Encoder, Words | None]]:
    return {name: of(data) for name, data in sources.items()}


def of(data: dict[str, Any]) -> tuple[Encoder, Words | None]:
    encoder = Encoder.from_str(json.dumps(data))
    return encoder, words_of(encoder, data)


@pytest.mark.parametrize("name", BYTE_LEVEL)
@given(_ASCII | _LIKELY)
@settings(max_examples=300, deadline=None)
def test_ids_are_those_of_the_whole_text(
    found: dict[str, tuple[Encoder, Words | None]], name: str, text: str
) -> None:
    encoder, words = found[name]
    assert words is not None
    ids = words.encode(text)
    added = BY_NAME[name].special + BY_NAME[name].whole
    assert ids is not None or any(one in text for one in added)
    assert ids is None or ids == encoder.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - set(BYTE_LEVEL)))
def test_others_are_asked_themselves(
    found: dict[str, tuple[Encoder, Words | None]], name: str
) -> None:
    assert found[name][1] is None


def test_what_is_no_ascii_or_holds_an_added_token_is_not_encoded(
    found: dict[str, tuple[Encoder, Words | None]],
) -> None:
    words = found["qwen2"][1]
    assert words is not None
    special = BY_NAME["qwen2"].special[0]
    assert words.encode("ok") is not None
    assert [words.encode(text) for text in ("é", f"a{special}b", "a" * 1000)] == [None] * 3


def _changed(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**data, **changes}


def test_another_way_to_cut_is_not_taken_for_a_known_one(
    sources: dict[str, dict[str, Any]],
) -> None:
    gpt2, llama = sources["gpt2"], sources["llama-bpe"]
    (step,) = gpt2["pre_tokenizer"]["pretokenizers"]
    split, last = llama["pre_tokenizer"]["pretokenizers"]
    for data in (
        _changed(gpt2, pre_tokenizer={**step, "add_prefix_space": True}),
        _changed(gpt2, pre_tokenizer={**step, "use_regex": False}),
        _changed(gpt2, normalizer={"type": "Lowercase"}),
        _changed(
            llama,
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [{**split, "pattern": {"Regex": r"\s+|\S+"}}, last],
            },
        ),
    ):
        assert of(data)[1] is None


def test_words_that_do_not_pass_the_probes_are_not_used(
    sources: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_module, "_GPT2", r"\p{L}+|[^\p{L}]")
    assert of(sources["gpt2"])[1] is None


def test_words_are_forgotten_when_they_are_many(
    found: dict[str, tuple[Encoder, Words | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_module, "_MOST_WORDS", 2)
    encoder, words = found["gpt2"]
    assert words is not None
    for text in ("one two three four", "five one"):
        assert words.encode(text) == encoder.encode(text, add_special_tokens=False).ids


@pytest.mark.model
def test_the_default_model_has_them() -> None:
    path: Path = resolve("smollm2-135m")
    tokenizer = load_tokenizer(path)
    text = '{"name": "Harry Potter", "age": 11}\n\n  it\'s'
    assert tokenizer._words is not None
    assert tokenizer.encode(text) == tokenizer._encoder.encode(text, add_special_tokens=False).ids
