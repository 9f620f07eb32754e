"""What the constraints over one tokenizer share: its trie, tables of runs, and masks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from threading import Lock

import numpy as np

from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.utf8 import CharSet
from sgc_kernels.masks.select import Walks, select_walks
from sgc_runtime.constraints.mask_cache import MaskCache
from sgc_runtime.constraints.mask_files import MaskFiles
from sgc_runtime.constraints.run_tables import RunTable
from sgc_runtime.constraints.token_trie import TokenTrie

_TABLES_BYTES = 128 << 20

# Classes of characters that many constraints have runs of.
COMMON = (
    r"[\s\S]",
    r".",
    r"\w",
    r"\s",
    r"\S",
    r"\d",
    r"[\w\s]",
    r"[\w\d\s]",
    r"[^\"]",
    r"[^\"\\]",
    r"[^\"\\\n]",
    r"[^\"\\\x00-\x1f]",  # inside a JSON string
    r"[^\"\\\x00-\x1f\x7f]",
    r"[ -~]",  # printable ASCII
    r"[ !#-\[\]-~]",
    r"[0-9]",
    r"[0-9A-Z_a-z]",
    r"[a-z]",
    r"[A-Za-z]",
    r"[0-9A-Za-z]",
    r"[ 0-9A-Za-z]",
)


class Vocabulary:
    """Shared by all constraints over a tokenizer, and by their threads.

    Args:
        trie: the tokens.
        budget_bytes: memory for masks.
        files: masks on disk; None: none.
        walks: how the trie is walked (default: compiled where the CPU allows).
        common: classes of characters, as a regex has them, whose tables are made at once.
    """

    def __init__(
        self,
        trie: TokenTrie,
        budget_bytes: int = 256 << 20,
        files: MaskFiles | None = None,
        walks: Walks | None = None,
        common: Iterable[str] = COMMON,
    ) -> None:
        self.trie = trie
        self.cache = MaskCache(budget_bytes)
        self.files = files
        self.walks = walks or select_walks()
        self._lock = Lock()
        self._tables: OrderedDict[tuple[int, int], RunTable] = OrderedDict()
        self._making: dict[tuple[int, int], Lock] = {}
        self._make_common(common)
        trie.prepare()

    @property
    def num_bytes(self) -> int:
        """Memory of trie, tables and masks."""
        with self._lock:
            tables = sum(table.num_bytes for table in self._tables.values())
        return self.trie.num_bytes + tables + self.cache.num_bytes

    def run_table(self, chars: CharSet, span: tuple[int, int]) -> RunTable:
        """The table of a set for the nodes of a span, made at the first call."""
        key = (chars.id, span[0])  # a node's subtree, or the whole trie
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
                return table
            making = self._making.setdefault(key, Lock())
        with making:  # only those wait that want the same one
            table = self._tables.get(key)
            if table is None:
                table = RunTable(self.trie.table, self.walks, chars, span)
                with self._lock:
                    self._tables[key] = table
                    self._making.pop(key, None)
                    self._bound()
            return table

    def prepare(self, chars: CharSet) -> None:
        """Make a set's tables, from the beginning of a token and from behind its first blank."""
        for span in self._spans:
            if span[0] < span[1]:
                self.run_table(chars, span)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        trie = self.trie.table
        blanks = np.flatnonzero(trie.edge == ord(" ")).tolist()
        return [(0, trie.num_nodes), *((node + 1, int(trie.skip[node])) for node in blanks)]

    def _make_common(self, common: Iterable[str]) -> None:
        """The tables of classes."""
        for characters in common:
            automaton = regex_automaton(f"{characters}*")
            run = automaton.run(automaton.start)
            assert run is not None
            automaton.signature(automaton.start)  # the set's digest is remembered
            self.prepare(run.chars)

    def _bound(self) -> None:
        taken = sum(table.num_bytes for table in self._tables.values())
        while taken > _TABLES_BYTES and len(self._tables) > 1:
            taken -= self._tables.popitem(last=False)[1].num_bytes
