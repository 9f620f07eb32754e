"""What the engine asks of a tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol


class Vocabulary(Protocol):
    """Text to ids and back; `calls` counts the encodings."""

    calls: int

    @property
    def bos_id(self) -> int | None:
        """The id that begins every text, where the tokenizer itself would put one."""
        ...

    @property
    def eos_ids(self) -> Collection[int]: ...

    @property
    def end_of_turn_ids(self) -> Collection[int]: ...

    @property
    def control_ids(self) -> Collection[int]: ...

    @property
    def vocab_size(self) -> int: ...

    def encode_pieces(
        self, pieces: Sequence[tuple[str, bool]], begins_text: bool = True
    ) -> list[int]:
        """Ids of (text, control) pieces as one text, without BOS."""
        ...

    def token_bytes(self, token_id: int) -> bytes: ...
