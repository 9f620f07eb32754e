"""What the engine asks of a tokenizer; `tokenizer.Tokenizer` is one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from sgc_runtime.executor.backend import ChatTemplate, Text


class Vocabulary(Protocol):
    """Text to ids and back; see `tokenizer.Tokenizer` for the meaning of each member."""

    calls: int

    @property
    def vocab_size(self) -> int: ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def eos_ids(self) -> Collection[int]: ...

    @property
    def end_of_turn_ids(self) -> Collection[int]: ...

    @property
    def control_ids(self) -> Collection[int]: ...

    @property
    def control_texts(self) -> Mapping[int, str]: ...

    @property
    def chat_template(self) -> ChatTemplate: ...

    def encode(self, text: str, *, start: bool = True) -> list[int]: ...

    def encode_pieces(self, pieces: Iterable[Text], *, start: bool = True) -> list[int]: ...

    def at_start(self, before: Sequence[int]) -> bool: ...

    def token_bytes(self, token_id: int) -> bytes: ...
