"""The adapters by name, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.common.peer import PeerMissing
from benchmarks.peers.adapter import Adapter

ON_CPU = ("transformers", "continuous", "llama-cpp-python", "guidance", "outlines")
ON_GPU = ("sglang", "vllm")
NAMES = (*ON_CPU, *ON_GPU)


class Makers:
    """Makes adapters of one model, and loads transformers' once.

    Args:
        model: a GGUF file, or a folder of weights for the engines of a GPU.
        threads: of each engine.
    """

    def __init__(self, model: Path, threads: int) -> None:
        self._path, self._threads = model, threads
        self._loaded: Any = None

    def make_all(self, names: Iterable[str]) -> tuple[list[Adapter], dict[str, str]]:
        """The adapters that can run here, and why others cannot."""
        made, missing = [], {}
        for name in names:
            try:
                made.append(self.make(name))
            except PeerMissing as reason:
                missing[name] = str(reason)
        return made, missing

    def make(self, name: str) -> Adapter:
        """An adapter. Raises PeerMissing when it cannot run here."""
        if name in ON_GPU:
            return self._on_gpu(name)
        if self._path.suffix != ".gguf":
            raise PeerMissing(f"{name} is set up for a GGUF file, not for {self._path.name}")
        if name == "llama-cpp-python":
            from benchmarks.peers.llama_cpp_adapter import LlamaCppWaves

            return LlamaCppWaves(self._path, self._threads)
        if name == "guidance":
            from benchmarks.peers.text_adapters import GuidanceLlamaCpp

            return GuidanceLlamaCpp(self._path, self._threads, self._tokenizer())
        return self._on_transformers(name)

    def _on_transformers(self, name: str) -> Adapter:
        from benchmarks.peers.transformers_adapter import (
            TransformersContinuous,
            TransformersGenerate,
        )

        if name == "transformers":
            return TransformersGenerate(self._model())
        if name == "continuous":
            return TransformersContinuous(self._model())
        from benchmarks.peers.text_adapters import OutlinesBatches

        return OutlinesBatches(self._model(), self._tokenizer())

    def _on_gpu(self, name: str) -> Adapter:
        import torch

        if not torch.cuda.is_available():
            raise PeerMissing(f"{name} needs a GPU; there is none")
        from benchmarks.peers.gpu_adapters import SglangBatches, VllmBatches

        if name == "sglang":
            return SglangBatches(str(self._path))
        return VllmBatches(str(self._path))

    def _model(self) -> Any:
        from benchmarks.common.transformers_model import load_transformers

        if self._loaded is None:
            self._loaded = load_transformers(self._path)
        return self._loaded

    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        found: Any = AutoTokenizer.from_pretrained(self._path.parent, gguf_file=self._path.name)
        found.padding_side = "left"
        return found
