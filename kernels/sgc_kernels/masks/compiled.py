"""The compiled walks under the signatures of their references."""

from __future__ import annotations

import ctypes
from threading import local

import numpy as np
import torch

from sgc_kernels.compiled.machine_code import MachineCode
from sgc_kernels.masks import code as job
from sgc_kernels.masks.trie_table import (
    NEVER,
    Int32,
    RunScan,
    Takes,
    Transitions,
    TrieTable,
    takes_nothing,
)

_Job = ctypes.c_int64 * job.JOB_WORDS
_ApplyJob = ctypes.c_int64 * job.APPLY_WORDS


class CompiledMasks:
    """`walk`, `scan` and `apply` in machine code; safe to call from several threads."""

    def __init__(self, code: MachineCode) -> None:
        self._code = code
        self._scratch = local()

    def walk(
        self,
        trie: TrieTable,
        transitions: Transitions,
        spans: Int32,
        words: Int32,
        takes: Takes = takes_nothing,
    ) -> None:
        """As `reference.walk`."""
        spans = np.ascontiguousarray(spans, np.int32)
        stack = np.empty(trie.num_levels + 1, np.int32)
        block = _trie_job(trie)
        block[job.STACK // 8], block[job.OUT // 8] = stack.ctypes.data, words.ctypes.data
        block[job.NODE // 8], block[job.NUM_SPANS // 8] = -1, len(spans)
        block[job.SPANS // 8] = spans.ctypes.data
        call, address = self._code.call["walk"], ctypes.addressof(block)
        rows = row_of = None
        while True:
            if transitions.rows is not rows:
                rows = transitions.rows
                block[job.ROWS // 8] = rows.ctypes.data
            if transitions.row_of is not row_of:
                row_of = transitions.row_of
                block[job.ROW_OF // 8] = row_of.ctypes.data
            call(address)
            unknown = block[job.UNKNOWN_STATE // 8]
            if unknown < 0:
                return
            node = block[job.NODE // 8]
            # Behind a span's beginning, it is the first child of the node that led to the state.
            parent = node - 1 if node > spans[block[job.SPAN // 8], 0] else -1
            if parent >= 0 and takes(unknown, node, int(trie.skip[parent])):
                block[job.NODE // 8] = trie.skip[parent]
            else:
                transitions.expand(unknown)

    def scan(self, trie: TrieTable, table: Int32, span: tuple[int, int], going_on: bool) -> RunScan:
        """As `reference.scan`."""
        table = np.ascontiguousarray(table, np.int32)
        stack = np.empty(trie.num_levels + 1, np.int32)
        counts = np.full(32 * (trie.num_words + 1), NEVER, np.uint16)
        nodes, before = self._lists(span[1] - span[0])
        block = _trie_job(trie)
        block[job.ROWS // 8], block[job.STACK // 8] = table.ctypes.data, stack.ctypes.data
        block[job.OUT // 8], block[job.GOING_ON // 8] = counts.ctypes.data, int(going_on)
        block[job.NODES // 8], block[job.BEFORE // 8] = nodes.ctypes.data, before.ctypes.data
        block[job.NODE // 8], block[job.NUM_NODES // 8] = span
        self._code.call["scan"](ctypes.addressof(block))
        found = block[job.FOUND // 8]
        return RunScan(counts, nodes[:found].copy(), before[:found].copy())

    def run(
        self,
        trie: TrieTable,
        table: Int32,
        spans: Int32,
        high: int,
        going_on: bool,
        words: Int32,
    ) -> tuple[Int32, Int32]:
        """As `reference.run`."""
        table = np.ascontiguousarray(table, np.int32)
        spans = np.ascontiguousarray(spans, np.int32)
        stack = np.empty(trie.num_levels + 1, np.int32)
        nodes, before = self._lists(int((spans[:, 1] - spans[:, 0]).sum()))
        block = _trie_job(trie)
        block[job.ROWS // 8], block[job.STACK // 8] = table.ctypes.data, stack.ctypes.data
        block[job.OUT // 8], block[job.GOING_ON // 8] = words.ctypes.data, int(going_on)
        block[job.NODES // 8], block[job.BEFORE // 8] = nodes.ctypes.data, before.ctypes.data
        block[job.SPANS // 8], block[job.NUM_SPANS // 8] = spans.ctypes.data, len(spans)
        block[job.HIGH // 8] = high
        self._code.call["run"](ctypes.addressof(block))
        found = block[job.FOUND // 8]
        return nodes[:found].copy(), before[:found].copy()

    def _lists(self, size: int) -> tuple[Int32, Int32]:
        """Two arrays of this thread, which are kept: fresh memory costs as much as a walk."""
        lists: tuple[Int32, Int32] | None = getattr(self._scratch, "lists", None)
        if lists is None or len(lists[0]) < size:
            lists = np.empty(size, np.int32), np.empty(size, np.int32)
            self._scratch.lists = lists
        return lists

    def apply(self, logits: torch.Tensor, masks: torch.Tensor, rows: torch.Tensor) -> None:
        """As `apply.reference`, for contiguous rows of `logits` and `masks` in memory."""
        block = _ApplyJob(
            logits.data_ptr(),
            masks.data_ptr(),
            len(rows),
            logits.shape[1],
            logits.stride(0) * logits.element_size(),
            masks.stride(0) * 4,
            rows.data_ptr(),
        )
        self._code.call[f"apply_{str(logits.dtype)[6:]}"](ctypes.addressof(block))


def _trie_job(trie: TrieTable) -> ctypes.Array[ctypes.c_int64]:
    fields = [0] * job.JOB_WORDS
    fields[job.EDGE // 8], fields[job.SKIP // 8] = trie.addresses[:2]
    fields[job.TOKEN // 8], fields[job.ALIASES // 8] = trie.addresses[2:]
    fields[job.NUM_ALIASES // 8] = len(trie.aliases)
    return _Job(*fields)
