"""Weights from a Hugging Face directory: one safetensors file, or shards with an index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from sgc_ir.errors import ModelError
from sgc_kernels.weights.grouped import GroupedWeight
from sgc_runtime.model.weights import Shape

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


class SafetensorsSource:
    """All tensors of a directory; files are mapped, a tensor is read when it is asked for.

    Raises:
        ModelError: no safetensors files, a file that is missing or damaged, a broken index.
    """

    has_integers = False

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._files = {path: _open(path) for path in _files(folder)}
        self._homes: dict[str, Path] = {}
        self._shapes: dict[str, Shape] = {}
        for path, file in self._files.items():
            for name in file.keys():
                self._homes[name] = path
                self._shapes[name] = tuple(file.get_slice(name).get_shape())

    def shapes(self) -> Mapping[str, Shape]:
        return self._shapes

    def load(self, name: str) -> torch.Tensor:
        path = self._homes[name]
        try:
            tensor: torch.Tensor = self._files[path].get_tensor(name)
        except SafetensorError as error:
            raise _damaged(path, error) from error
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise ModelError(
                f"{path}: tensor {name} has type {tensor.dtype}, expected float32, float16 or "
                "bfloat16: give the unquantised model"
            )
        return tensor

    def grouped(self, name: str) -> GroupedWeight | None:
        """None: the files hold floating-point numbers."""
        return None


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error}): fetch the model again") from error


def _damaged(path: Path, error: SafetensorError) -> ModelError:
    return ModelError(f"{path} is damaged or incomplete ({error}): fetch the model again")


def _files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if index.is_file():
        return [folder / name for name in _shards(index)]
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
    raise ModelError(
        f"{folder} has neither {_SINGLE} nor {_INDEX}: only safetensors weights are read; "
        "convert the model or fetch it again"
    )


def _shards(index: Path) -> list[str]:
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        shards = sorted(set(names))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} is no index of shards: fetch the model again") from error
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ModelError(f"{index} names a shard {shard!r} outside its directory")
    return shards
