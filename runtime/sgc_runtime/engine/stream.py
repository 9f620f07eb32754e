"""One growing prompt as a sequence of tokens, with a soft hold on its KV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sgc_ir.errors import BackendError
from sgc_runtime.cache.radix_tree import Ids, Node
from sgc_runtime.engine.request import Prefix
from sgc_runtime.engine.seams import Seams
from sgc_runtime.executor.backend import Text

_EMPTY: Ids = np.empty(0, np.int32)


@dataclass(slots=True)
class TokenStream:
    """What a stream has said.

    Between calls it consists of `ids` (encoded or generated; never encoded again except at a
    seam) and `pieces` (text that came since, encoded as one when the next call needs it; the kept
    part of a token that a stop cut comes first). `ids` are never changed in place, so a fork
    shares them.

    Attributes:
        pending: bytes of an incomplete character at the end of `ids`: a gen continues it, text
            drops it.
        prefix: where the KV of the first ids was last seen in the tree; nothing locks it.
        templated: `ids` hold text of a chat template.
        literal_bytes: the last so many bytes of the text of `ids` came from the program, not from
            the model or from a chat template.
    """

    ids: Ids = field(default_factory=lambda: _EMPTY)
    pieces: tuple[Text, ...] = ()
    pending: bytes = b""
    prefix: Prefix | None = None
    templated: bool = False
    literal_bytes: int = 0

    def append(self, pieces: Sequence[Text]) -> None:
        """Add text at the end."""
        self.pieces += tuple(p for p in pieces if p.text)

    def fork(self) -> TokenStream:
        """An independent stream with the same content; nothing is copied."""
        return replace(self)

    def resolve(self, seams: Seams) -> Ids:
        """Encode what is not encoded yet; the ids of the whole prompt.

        Raises:
            BackendError: there is nothing to go on from.
        """
        if not self.templated:
            self.pieces = seams.bos_once(len(self.ids) > 0, self.pieces)
            self.templated = any(piece.control for piece in self.pieces)
        if self.pieces:
            joined = seams.join(self.ids, self.pieces, len(self.pending))
            self.replace(joined.ids, joined.kept)
            self.literal_bytes = _literal_bytes(self.literal_bytes, self.pieces)
            self.pieces, self.pending = (), b""
        if not len(self.ids):
            bos = seams.vocabulary.bos_id
            if bos is None:
                raise BackendError(
                    "the prompt is empty and this model has no token that begins a text; "
                    "append some text before the call"
                )
            self.ids = np.array([bos], np.int32)
        return self.ids

    def replace(self, ids: Ids, kept: int) -> None:
        """Go on as `ids`, whose first `kept` are the same as before."""
        self.ids = ids
        if self.prefix is not None and self.prefix.length > kept:
            self.prefix = Prefix(self.prefix.node, kept)

    def go_on(self, ids: Ids, node: Node | None, pending: bytes = b"", residual: str = "") -> None:
        """A call has ended: these are the ids now, cached up to the end of `node`."""
        self.ids, self.pending, self.literal_bytes = ids, pending, 0
        self.prefix = Prefix(node, node.end) if node is not None else None
        self.pieces = (Text(residual),) if residual else ()


def _literal_bytes(before: int, pieces: Sequence[Text]) -> int:
    count = before
    for piece in pieces:
        count = 0 if piece.control else count + len(piece.text.encode())
    return count
