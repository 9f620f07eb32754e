"""Small tokenizers of several kinds."""

from __future__ import annotations

import pytest
from support.tokenizer import KINDS, save_directory

from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    found = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind.name)
        save_directory(kind, folder)
        found[kind.name] = load_tokenizer(folder)
    return found
