"""A tiny random model, read by transformers and run by the local engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from support.local import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def reference(folder: Path) -> object:
    import torch
    import transformers

    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def local(folder: Path) -> Iterator[object]:
    from support.local import backend

    with backend(folder) as made:
        yield made
