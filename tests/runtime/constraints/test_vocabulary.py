"""Tables that several threads want, and what is made with a vocabulary."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.masks import WORDS

from sgc_ir.automata.utf8 import char_set
from sgc_runtime.constraints import vocabulary as module
from sgc_runtime.constraints.run_tables import RunTable
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary

LETTERS, DIGITS = char_set(((97, 122),)), char_set(((48, 57),))


def test_who_wants_another_table_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary(TokenTrie(WORDS), common=())
    whole = (0, vocabulary.trie.table.num_nodes)
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slow(trie: Any, walks: Any, chars: Any, span: Any) -> RunTable:
        made.append(chars)
        if chars is LETTERS:
            begun.set()
            assert go_on.wait(60)
        return RunTable(trie, walks, chars, span)

    monkeypatch.setattr(module, "RunTable", slow)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(vocabulary.run_table, LETTERS, whole)
        assert begun.wait(60)
        second = pool.submit(vocabulary.run_table, LETTERS, whole)
        other = pool.submit(vocabulary.run_table, DIGITS, whole)
        assert other.result(60) is vocabulary.run_table(DIGITS, whole)
        assert not first.done()
        go_on.set()
        assert first.result(60) is second.result(60)
    assert made == [LETTERS, DIGITS]


def test_a_table_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary(TokenTrie(WORDS), common=())
    whole = (0, vocabulary.trie.table.num_nodes)
    with monkeypatch.context() as patch:
        patch.setattr(module, "RunTable", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            vocabulary.run_table(LETTERS, whole)
    table = vocabulary.run_table(LETTERS, whole)
    assert vocabulary.run_table(LETTERS, whole) is table


def test_memory_of_tables_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary(TokenTrie(WORDS), common=())
    whole = (0, vocabulary.trie.table.num_nodes)
    first = vocabulary.run_table(LETTERS, whole)
    monkeypatch.setattr(module, "_TABLES_BYTES", first.num_bytes)
    vocabulary.run_table(DIGITS, whole)
    assert vocabulary.run_table(LETTERS, whole) is not first


def test_tokens_that_hold_a_part() -> None:
    tokens = [b"", b", ", b"a, b", b",", b" ,", b"x, ", b"aa", b", , ", b"\xff, ", b" "]
    trie = TokenTrie(tokens)
    for part in (b", ", b",", b"aa", b"zz"):
        assert trie.holding(part) == [i for i, data in enumerate(tokens) if part in data]
