"""Backends with engines of their own over one model that is loaded already."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Self

from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.model.loader import LoadedModel
from sgc_runtime.tokenizer.tokenizer import Tokenizer


class SharedModel(LocalBackend):
    """Loads nothing but the tokenizer of `path`, if it is not given."""

    def __init__(
        self, loaded: LoadedModel, path: str, tokenizer: Tokenizer | None = None, **options: Any
    ) -> None:
        super().__init__(path, dtype="float32", **options)
        self._tokenizer = tokenizer
        model = loaded.model
        engine = LoadedEngine(
            model, loaded.config, self.tokenizer, self._options, model.dtype, model.device
        )
        self._loading = Future()
        self._loading.set_result(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
