"""What a backend of a local model knows without the model itself: name, files, tokenizer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sgc_ir.errors import BackendError
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.executor.backend import ChatTemplate, Media, Piece, Text
from sgc_runtime.models import resolve
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:  # brings in torch, which programs without model calls need not wait for
    from sgc_runtime.engine.seams import Seams


class ModelSource:
    """A model on this machine and how it is to run.

    Args:
        model: registered name, Hugging Face directory, `.gguf` file or hub id.
    """

    def __init__(self, model: str | os.PathLike[str], options: EngineOptions) -> None:
        self._options = options
        self.model = os.fspath(model)
        forms = (options.dtype, options.weights, options.kv_dtype)
        rounding = [form for form in forms if form not in (None, "auto")]
        self.name = ":".join(["local", self.model, *rounding])
        self._lock = threading.RLock()
        self._tokenizer: Tokenizer | None = None
        self._seams: Seams | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Raises ModelError if it cannot be loaded."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = load_tokenizer(resolve(self.model))
            return self._tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        return self.tokenizer.chat_template

    @property
    def keeps_prefixes(self) -> bool:
        """Whether the KV of prompts is kept for calls that begin alike."""
        return self._options.cache

    @property
    def takes_hints(self) -> bool:
        """Whether the engine makes use of what calls tell of those to come."""
        return self._options.cache and self._options.hints

    async def seams(self) -> Seams:
        """How text joins ids; known without the model. Raises ModelError."""
        if self._seams is None:
            return await asyncio.to_thread(self.own_seams)
        return self._seams

    def own_seams(self) -> Seams:
        """The same; may take as long as loading the tokenizer."""
        from sgc_runtime.engine.seams import Seams

        with self._lock:
            if self._seams is None:
                self._seams = Seams(self.tokenizer, self._options.seam)
            return self._seams

    def identity(self) -> Mapping[str, Any]:
        """What results depend on, for a journal: plain data. Raises ModelError."""
        from sgc_runtime.backends.identity import local_identity

        return local_identity(resolve(self.model), self._options)

    def fetch(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Have the model's files on this machine. Raises ModelError.

        Args:
            progress: called with the bytes so far and in all.
        """
        resolve(self.model, progress)


def texts_of(pieces: Sequence[Piece]) -> list[Text]:
    """`pieces`, all of which are text. Raises BackendError for media."""
    texts = []
    for piece in pieces:
        if isinstance(piece, Media):
            raise BackendError(
                f"the local engine does not take {piece.kind}s yet; use a backend that does"
            )
        texts.append(piece)
    return texts
