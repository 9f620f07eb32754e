"""Masks under real kinds of tokenizers: what text encodes to is allowed, control tokens never."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.masks import allowed, tried
from support.tokenizer import KINDS, Kind, save_directory

from benchmarks.common.constraint_cases import Case, regex_cases
from sgc_ir.automata.regex import regex_automaton
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

CASES = regex_cases()


def check(tokenizer: Tokenizer, vocabulary: Vocabulary, case: Case) -> None:
    """Each token of each text is allowed where it stands, and the text may end behind the last."""
    automaton = regex_automaton(case.source)
    masks = TokenMasks(automaton, vocabulary)
    for text in case.texts:
        state = automaton.start
        for token in tokenizer.encode(text, start=False):
            found = allowed(masks.mask(state))
            assert token in found, (text, token)
            assert not found & (tokenizer.control_ids | tokenizer.eos_ids)
            state = automaton.walk(state, tokenizer.token_bytes(token))
        assert automaton.is_accepting(state)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_texts_of_all_cases(kind: Kind, tmp_path: Path) -> None:
    save_directory(kind, tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    vocabulary = Vocabulary(TokenTrie.of(tokenizer))
    assert len(vocabulary.trie.tokens) == tokenizer.vocab_size
    for case in CASES:
        check(tokenizer, vocabulary, case)


def test_byte_tokens_stand_beside_the_characters_they_spell(tmp_path: Path) -> None:
    """A SentencePiece vocabulary has `<0x61>` as well as `a`."""
    save_directory(next(kind for kind in KINDS if kind.name == "gemma"), tmp_path)
    vocab = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    tokenizer = load_tokenizer(tmp_path)
    vocabulary = Vocabulary(TokenTrie.of(tokenizer))
    automaton = regex_automaton("a日?")
    masks = TokenMasks(automaton, vocabulary)
    assert {vocab["a"], vocab["<0x61>"]} <= allowed(masks.mask(automaton.start))
    behind = automaton.walk(automaton.start, b"a")
    assert vocab["<0xE6>"] in allowed(masks.mask(behind))
    inside = automaton.walk(behind, b"\xe6")
    assert allowed(masks.mask(inside)) == {vocab["<0x97>"]}


@pytest.mark.model
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_default_model(case: Case, default: tuple[Tokenizer, Vocabulary]) -> None:
    check(*default, case)


@pytest.mark.model
@pytest.mark.parametrize("pattern", [r'"[\w\d\s]{1,16}"', r"[^\n]{3,}\n", r"(\d+, )*é[a-z]{2}"])
def test_masks_of_the_default_model_against_every_token(
    pattern: str, default: tuple[Tokenizer, Vocabulary]
) -> None:
    vocabulary = default[1]
    automaton = regex_automaton(pattern)
    masks = TokenMasks(automaton, vocabulary)
    for state in range(4):
        masks.mask(state)
        assert allowed(masks.mask(state)) == tried(automaton, state, vocabulary.trie.tokens)


@pytest.fixture(scope="module")
def default() -> tuple[Tokenizer, Vocabulary]:
    tokenizer = load_tokenizer(resolve(DEFAULT_MODEL))
    return tokenizer, Vocabulary(TokenTrie.of(tokenizer))
