"""Masks in memory: the least recently used go first, equal ones are kept once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np

from sgc_kernels.masks.trie_table import Int32

_ENTRY_BYTES = 256  # of the tables, for one mask


@dataclass(slots=True)
class _Content:
    """A mask, and under how many names it is kept."""

    data: bytes
    mask: Int32
    names: int = 0


class MaskCache:
    """Read-only masks by name, up to a number of bytes; safe for threads.

    Args:
        budget_bytes: memory that may be taken. A mask that somebody holds stays valid when it is
            dropped here.

    Attributes:
        num_bytes: memory taken now.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._lock = Lock()
        self._masks: OrderedDict[bytes, _Content] = OrderedDict()
        self._contents: dict[bytes, _Content] = {}
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._masks)

    def get(self, name: bytes) -> Int32 | None:
        """The mask of a name, if it is here."""
        with self._lock:
            found = self._masks.get(name)
            if found is None:
                return None
            self._masks.move_to_end(name)
            return found.mask

    def put(self, name: bytes, words: Int32) -> Int32:
        """Keep the mask `words` and give it, or an equal one that is here, read-only."""
        data = words.tobytes()
        with self._lock:
            if name in self._masks:
                return self._masks[name].mask
            content = self._contents.get(data)
            if content is None:
                content = _Content(data, np.frombuffer(data, np.int32))
                self._contents[data] = content
                self.num_bytes += len(data)
            content.names += 1
            self._masks[name] = content
            self.num_bytes += _ENTRY_BYTES
            while self.num_bytes > self._budget and len(self._masks) > 1:
                self._drop_oldest()
            return content.mask

    def _drop_oldest(self) -> None:
        _, content = self._masks.popitem(last=False)
        self.num_bytes -= _ENTRY_BYTES
        content.names -= 1
        if not content.names:
            del self._contents[content.data]
            self.num_bytes -= len(content.data)
