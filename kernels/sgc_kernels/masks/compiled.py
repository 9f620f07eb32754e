"""The compiled walks under the signatures of their references."""

from __future__ import annotations

import ctypes
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sgc_kernels.compiled.machine_code import MachineCode
from sgc_kernels.masks import code as job
from sgc_kernels.masks.trie_table import (
    NEVER,
    Bools,
    Int32,
    RunScan,
    Takes,
    Transitions,
    TrieTable,
    takes_nothing,
)

_Job = ctypes.c_int64 * job.JOB_WORDS
_ApplyJob = ctypes.c_int64 * job.APPLY_WORDS
_Start = ctypes.c_char * 0
_Call = ctypes.PYFUNCTYPE(None, ctypes.c_int64)


class CompiledMasks:
    """`walk`, `scan` and `apply` in machine code; safe to call from several threads.

    A walk stops at every state whose row is unknown, so it keeps the interpreter's lock: to give it
    up would be to wait for it as often, where another thread computes.
    """

    def __init__(self, code: MachineCode) -> None:
        self._code = code
        self._walk, self._run = _Call(code.address["walk"]), _Call(code.address["run"])
        self._own = _Own()

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
        own = self._own
        own.begin(trie)
        block, call, address = own.block, self._walk, own.address
        block[job.OUT // 8] = _address(words)
        block[job.SPAN // 8], block[job.NODE // 8] = 0, -1
        block[job.SPANS // 8], block[job.NUM_SPANS // 8] = _address(spans), len(spans)
        rows = row_of = None
        skip = trie.skip.item
        while True:
            if transitions.rows is not rows:
                rows = transitions.rows
                block[job.ROWS // 8] = _address(rows)
            if transitions.row_of is not row_of:
                row_of = transitions.row_of
                block[job.ROW_OF // 8] = _address(row_of)
            call(address)
            unknown = block[job.UNKNOWN_STATE // 8]
            if unknown < 0:
                return
            node = block[job.NODE // 8]
            # Behind a span's beginning, it is the first child of the node that led to the state.
            if node > spans[block[job.SPAN // 8], 0]:
                behind = skip(node - 1)
                if takes(unknown, node, behind):
                    block[job.NODE // 8] = behind
                    continue
            transitions.expand(unknown)

    def scan(self, trie: TrieTable, table: Int32, span: tuple[int, int], going_on: bool) -> RunScan:
        """As `reference.scan`."""
        table = np.ascontiguousarray(table, np.int32)
        counts = np.full(32 * (trie.num_words + 1), NEVER, np.uint16)
        own = self._own
        own.begin(trie)
        nodes, before = own.lists(span[1] - span[0])
        block = own.block
        block[job.ROWS // 8], block[job.OUT // 8] = _address(table), _address(counts)
        block[job.GOING_ON // 8] = int(going_on)
        block[job.NODE // 8], block[job.NUM_NODES // 8] = span
        self._code.call["scan"](own.address)
        found = block[job.FOUND // 8]
        return RunScan(counts, nodes[:found].copy(), before[:found].copy())

    def run(
        self,
        trie: TrieTable,
        table: Int32,
        spans: Int32,
        counts: tuple[int, int],
        starts: Bools,
        going_on: bool,
        words: Int32,
    ) -> tuple[Int32, Int32]:
        """As `reference.run`."""
        table = np.ascontiguousarray(table, np.int32)
        spans = np.ascontiguousarray(spans, np.int32)
        own = self._own
        own.begin(trie)
        nodes, before = own.lists(int(spans[:, 1].sum() - spans[:, 0].sum()))  # some may overlap
        wanted = starts.astype(np.int32)
        block = own.block
        block[job.ROWS // 8], block[job.OUT // 8] = _address(table), _address(words)
        block[job.GOING_ON // 8], block[job.STARTS // 8] = int(going_on), _address(wanted)
        block[job.LOW // 8], block[job.HIGH // 8] = counts
        block[job.SPANS // 8], block[job.NUM_SPANS // 8] = _address(spans), len(spans)
        self._run(own.address)
        found = block[job.FOUND // 8]
        return nodes[:found].copy(), before[:found].copy()

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


class _Own(local):
    """What a thread works with; kept, because fresh memory costs as much as a walk."""

    def __init__(self) -> None:
        self.block = _Job()
        self.address = ctypes.addressof(self.block)
        self._trie: TrieTable | None = None
        self._stack = np.empty(0, np.int32)
        self._lists = np.empty(0, np.int32), np.empty(0, np.int32)

    def begin(self, trie: TrieTable) -> None:
        """Fill in the trie and the stack."""
        if trie is self._trie:
            return
        self._trie = trie
        self._stack = np.empty(trie.num_levels + 1, np.int32)
        block = self.block
        block[job.EDGE // 8], block[job.SKIP // 8] = trie.addresses[:2]
        block[job.TOKEN // 8], block[job.ALIASES // 8] = trie.addresses[2:]
        block[job.NUM_ALIASES // 8] = len(trie.aliases)
        block[job.STACK // 8] = _address(self._stack)

    def lists(self, size: int) -> tuple[Int32, Int32]:
        """Two arrays of at least `size`, for nodes and the characters before them."""
        if len(self._lists[0]) < size:
            self._lists = np.empty(size, np.int32), np.empty(size, np.int32)
        nodes, before = self._lists
        self.block[job.NODES // 8] = _address(nodes)
        self.block[job.BEFORE // 8] = _address(before)
        return nodes, before


def _address(array: npt.NDArray[Any]) -> int:
    """Where the numbers are; three times as fast as `array.ctypes`, which is for read-only ones."""
    if not array.flags.writeable:
        return array.ctypes.data
    return ctypes.addressof(_Start.from_buffer(array.data))
