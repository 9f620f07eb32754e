"""What the constraints over one tokenizer share: its trie, tables of runs, and masks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from sgc_ir.automata.utf8 import ALL_CHARS, CharSet, Ranges, char_set, complement
from sgc_kernels.masks.select import Walks, select_walks
from sgc_runtime.constraints.mask_cache import MaskCache
from sgc_runtime.constraints.mask_files import MaskFiles
from sgc_runtime.constraints.run_tables import RunTable
from sgc_runtime.constraints.token_trie import TokenSource, TokenTrie

_TABLES_BYTES = 64 << 20
_CONTROLS = ((0x00, 0x1F),)

# Sets that many constraints have runs of.
COMMON: tuple[Ranges, ...] = (
    ALL_CHARS,
    complement(((0x0A, 0x0A),)),  # dot
    complement(((0x22, 0x22),)),
    complement(((0x22, 0x22), (0x5C, 0x5C))),
    complement((*_CONTROLS, (0x22, 0x22), (0x5C, 0x5C))),  # inside a JSON string
    complement((*_CONTROLS, (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F))),
    ((0x20, 0x7E),),  # printable ASCII
    ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E)),
    ((0x30, 0x39),),
    ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    ((0x61, 0x7A),),
    ((0x41, 0x5A), (0x61, 0x7A)),
    ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    ((0x20, 0x20), (0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
)


class Vocabulary:
    """Shared by all constraints over a tokenizer, and by their threads.

    Args:
        trie: the tokens.
        budget_bytes: memory for masks.
        files: masks on disk; None: none.
        walks: how the trie is walked (default: compiled where the CPU allows).
        common: sets of characters whose tables are made at once.
    """

    def __init__(
        self,
        trie: TokenTrie,
        budget_bytes: int = 256 << 20,
        files: MaskFiles | None = None,
        walks: Walks | None = None,
        common: Iterable[Ranges] = COMMON,
    ) -> None:
        self.trie = trie
        self.cache = MaskCache(budget_bytes)
        self.files = files
        self.walks = walks or select_walks()
        self._lock = Lock()
        self._tables: OrderedDict[int, RunTable] = OrderedDict()
        for ranges in common:
            self.run_table(char_set(ranges))

    @classmethod
    def of(
        cls,
        tokenizer: TokenSource,
        budget_bytes: int = 256 << 20,
        files: MaskFiles | None = None,
    ) -> Vocabulary:
        """Of a whole tokenizer."""
        return cls(TokenTrie.of(tokenizer), budget_bytes, files)

    @property
    def num_bytes(self) -> int:
        """Memory of trie, tables and masks."""
        tables = sum(table.num_bytes for table in self._tables.values())
        return self.trie.num_bytes + tables + self.cache.num_bytes

    def run_table(self, chars: CharSet) -> RunTable:
        """The table of a set, made at the first call."""
        with self._lock:
            table = self._tables.get(chars.id)
            if table is None:
                table = self._tables[chars.id] = RunTable(self.trie.table, self.walks, chars)
                self._bound()
            self._tables.move_to_end(chars.id)
            return table

    def _bound(self) -> None:
        taken = sum(table.num_bytes for table in self._tables.values())
        while taken > _TABLES_BYTES and len(self._tables) > 1:
            taken -= self._tables.popitem(last=False)[1].num_bytes
