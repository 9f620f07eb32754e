"""Backends with engines of their own over one model that is loaded already."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Self

from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.model.loader import LoadedModel


class SharedModel(LocalBackend):
    """Loads nothing but the tokenizer of `path`."""

    def __init__(self, loaded: LoadedModel, path: str, **options: Any) -> None:
        super().__init__(path, dtype="float32", **options)
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
