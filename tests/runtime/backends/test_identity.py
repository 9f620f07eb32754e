"""What a journal compares of a local engine."""

from __future__ import annotations

from pathlib import Path

from sgc_runtime.backends.identity import NEUTRAL, local_identity, model_digest
from sgc_runtime.engine.options import EngineOptions


def folder_of(tmp_path: Path, **files: bytes) -> Path:
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_every_file_of_a_model_counts_but_hidden_ones(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, config=b"{}", weights=b"\0" * 5000)
    before = model_digest(folder)
    folder_of(tmp_path, **{".cache": b"x"})
    assert model_digest(folder) == before
    folder_of(tmp_path, config=b"[]")
    changed = model_digest(folder)
    folder_of(tmp_path, config=b"{}", more=b"")
    assert len({before, changed, model_digest(folder)}) == 3


def test_large_files_are_sampled_at_both_ends_and_by_size(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    found = set()
    for size, at in ((17 << 20, None), (17 << 20, 0), (17 << 20, (17 << 20) - 1), (18 << 20, None)):
        with open(path, "wb") as file:
            file.truncate(size)
            if at is not None:
                file.seek(at)
                file.write(b"x")
        found.add(model_digest(path))
    assert len(found) == 4


def test_options_count_where_they_change_results(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, config=b"{}")
    plain = local_identity(folder, EngineOptions(dtype="float32"))
    assert plain["dtype"] == "float32"
    assert not NEUTRAL & set(plain)
    assert {f"version of {name}" for name in ("torch", "llvmlite", "tokenizers")} < set(plain)
    same = EngineOptions(dtype="float32", kv_tokens=77, cache=False)
    assert local_identity(folder, same) == plain
    for other in (EngineOptions(dtype="bfloat16"), EngineOptions(dtype="float32", seam="splice")):
        assert local_identity(folder, other) != plain
    assert local_identity(folder, EngineOptions())["dtype"] in ("float32", "bfloat16")
