"""One directory, our tokenizer and transformers' for each kind, built once."""

from __future__ import annotations

import os

import pytest
from support.tokenizer import KINDS, Pair, build_pair

# The suite must not reach for the network when transformers looks for optional files.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    return {kind.name: build_pair(kind, tmp_path_factory.mktemp(kind.name)) for kind in KINDS}
