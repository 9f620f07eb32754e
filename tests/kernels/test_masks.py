"""Walks of the trie and masks over logits: compiled code against NumPy, torch and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.masks import WORDS

from sgc_kernels.masks import reference
from sgc_kernels.masks.apply import apply_token_mask
from sgc_kernels.masks.apply import reference as apply_reference
from sgc_kernels.masks.select import Walks, compiled_masks
from sgc_kernels.masks.trie_table import NEVER, UNKNOWN, Int32
from sgc_runtime.constraints.token_trie import trie_table

CODE = compiled_masks()
TRIE = trie_table(WORDS)
WALKS = [pytest.param(reference, id="numpy")]
if CODE is not None:
    WALKS.append(pytest.param(CODE, id="compiled"))


class Table:
    """Transitions of random states; rows become known when they are asked for."""

    def __init__(self, seed: int, states: int) -> None:
        random = np.random.default_rng(seed)
        alive = random.random((states, 256)) < 0.6
        self.whole = np.where(alive, random.integers(0, states, (states, 256)), -1).astype(np.int32)
        self.rows: Int32 = np.full((1, 256), UNKNOWN, np.int32)
        self.row_of: Int32 = np.zeros(states, np.int32)
        self.expanded: list[int] = []

    def expand(self, state: int) -> None:
        self.expanded.append(state)
        self.rows = np.concatenate([self.rows, self.whole[state : state + 1]])
        self.row_of = self.row_of.copy()
        self.row_of[state] = len(self.rows) - 1

    def accepts(self, state: int, data: bytes) -> bool:
        for byte in data:
            state = int(self.whole[state, byte])
            if state < 0:
                return False
        return True


@pytest.mark.parametrize("walks", WALKS)
@pytest.mark.parametrize("seed", range(8))
def test_walks(walks: Walks, seed: int) -> None:
    table, words = Table(seed, 9), TRIE.empty_words()
    words[0] = 1  # what is set stays set
    walks.walk(TRIE, table, np.array([[0, TRIE.num_nodes, 0]], np.int32), words)
    bits = np.unpackbits(words[:-1].view(np.uint8), bitorder="little")
    expected = [bool(t) and table.accepts(0, t) for t in WORDS]
    assert bits[1 : len(WORDS)].astype(bool).tolist() == expected[1:]
    assert bits[0]
    assert len(table.expanded) == len(set(table.expanded))


@pytest.mark.parametrize("walks", WALKS)
def test_walks_of_several_spans(walks: Walks) -> None:
    """Subtrees from states of their own, one of them twice."""
    table, words = Table(3, 6), TRIE.empty_words()
    nodes = [int(n) for n in np.flatnonzero(TRIE.edge >> 8 == 1)[::3]]
    spans = [[n, int(TRIE.skip[n]), i % 6] for i, n in enumerate(nodes)]
    spans += [[nodes[0], int(TRIE.skip[nodes[0]]), 5], [4, 4, 0]]
    walks.walk(TRIE, table, np.array(spans, np.int32), words)
    prefixes = sorted({t[: i + 1] for t in WORDS for i in range(len(t))})
    bits = np.unpackbits(words[:-1].view(np.uint8), bitorder="little")
    for token, data in enumerate(WORDS):
        expected = any(
            data.startswith(prefixes[first]) and table.accepts(state, data[1:])
            for first, end, state in spans
            if first < end
        )
        assert bits[token] == expected, data


# Runs of `a` or two-byte characters: states, and the same as the walks take it.
RUN = np.full((2, 256), -1, np.int32)
RUN[0, ord("a")], RUN[0, 0xC2:0xE0], RUN[1, 0x80:0xC0] = 0, 1, 0
PACKED = np.where(RUN >= 0, RUN * 65536 + (RUN == 0), -1).astype(np.int32)
PREFIXES = sorted({t[: i + 1] for t in WORDS for i in range(len(t))})  # in the order of the nodes


def in_run(data: bytes) -> tuple[int, int] | None:
    """The state behind `data`, and how many characters it has; None where it leaves the run."""
    state, count = 0, 0
    for byte in data:
        state = int(RUN[state, byte])
        if state < 0:
            return None
        count += state == 0
    return state, count


@pytest.mark.parametrize("going_on", [False, True])
def test_scans(going_on: bool) -> None:
    """Against every token looked at."""
    for walks in [p.values[0] for p in WALKS]:
        found = walks.scan(TRIE, PACKED, (0, TRIE.num_nodes), going_on)
        for token, data in enumerate(WORDS):
            end = in_run(data) if data else None
            assert found.counts[token] == (NEVER if end is None else end[1] + (end[0] > 0)), data
        expected = [
            (node, before[1])
            for node, data in enumerate(PREFIXES)
            if (before := in_run(data[:-1]))
            and before[0] == 0
            and (going_on or in_run(data) is None)
        ]
        assert list(zip(found.nodes.tolist(), found.before.tolist())) == expected


@given(st.integers(0, 3), st.integers(0, 3), st.sets(st.sampled_from(list(b"ab 1\xc3\xe6"))))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("going_on", [False, True])
def test_runs(going_on: bool, low: int, more: int, bytes_: set[int]) -> None:
    """Behind each first byte, against every token looked at."""
    high, starts = low + more, np.isin(np.arange(256), list(bytes_))
    nodes = [int(n) for n in np.flatnonzero(TRIE.edge < 256) if TRIE.skip[n] > n + 1]
    spans = np.array([[n + 1, TRIE.skip[n]] for n in nodes], np.int32)
    expected = []
    for node, data in enumerate(PREFIXES):
        before = in_run(data[1:-1]) if len(data) > 1 else None
        if before and before[0] == 0 and low <= before[1] <= high and data[-1] in bytes_:
            if going_on or in_run(data[1:]) is None:
                expected.append((node, before[1]))
    for walks in [p.values[0] for p in WALKS]:
        words = TRIE.empty_words()
        found = walks.run(TRIE, PACKED, spans, (low, high), starts, going_on, words)
        assert list(zip(found[0].tolist(), found[1].tolist())) == expected
        bits = np.unpackbits(words[:-1].view(np.uint8), bitorder="little")
        for token in set(TRIE.token.tolist()) - {TRIE.no_token}:
            end = in_run(WORDS[token][1:]) if len(WORDS[token]) > 1 else None
            allowed = end is not None and end[1] + (end[0] > 0) <= high
            assert bits[token] == allowed, WORDS[token]


@given(st.integers(1, 5), st.integers(1, 200), st.integers(0, 99), st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_masked_logits(
    dtype: torch.dtype, batch: int, vocab: int, seed: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    rows = data.draw(st.one_of(st.none(), st.lists(st.integers(0, batch - 1), unique=True)))
    words = data.draw(st.integers(1, -(-vocab // 32)))
    number = batch if rows is None else len(rows)
    masks = random.integers(-(2**31), 2**31, (number, words)).astype(np.int32)
    masks[random.random(masks.shape) < 0.3] = data.draw(st.sampled_from([0, -1]))
    logits = torch.from_numpy(random.standard_normal((batch, vocab))).to(dtype)
    expected = logits.clone()
    for mask, row in enumerate(range(batch) if rows is None else rows):
        for token in range(vocab):
            word = int(masks[mask, token // 32]) if token // 32 < words else 0
            if not word >> (token % 32) & 1:
                expected[row, token] = -math.inf
    chosen = None if rows is None else torch.tensor(rows, dtype=torch.int64)
    for function in (apply_token_mask, apply_reference):
        masked = logits.clone()
        function(masked, torch.from_numpy(masks), chosen)
        assert torch.equal(masked, expected)


def test_logits_between_others_are_left_alone() -> None:
    whole = torch.zeros(4, 100)
    apply_token_mask(whole[:, :70], torch.zeros(4, 3, dtype=torch.int32))
    assert torch.equal(whole[:, :70], torch.full((4, 70), -math.inf))
    assert torch.equal(whole[:, 70:], torch.zeros(4, 30))


def test_numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU for which nothing is compiled."""
    from sgc_kernels.compiled.target import Target
    from sgc_kernels.masks import select

    monkeypatch.setattr(select, "host_target", lambda: Target("other", frozenset()))
    select.compiled_masks.cache_clear()
    assert select.select_walks() is reference
    logits = torch.zeros(1, 40)
    apply_token_mask(logits, torch.tensor([[5]], dtype=torch.int32))
    assert torch.isfinite(logits).nonzero()[:, 1].tolist() == [0, 2]
    select.compiled_masks.cache_clear()
