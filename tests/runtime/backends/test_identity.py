"""What a journal compares of a local engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sgc_runtime.backends import identity
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
    assert "gpu" not in plain


def test_a_gpu_counts_by_its_name_and_its_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, config=b"{}")
    names = ["NVIDIA H200", "NVIDIA L4"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: names[device.index])
    first, second = (
        local_identity(folder, EngineOptions(device=f"cuda:{i}", dtype="bfloat16")) for i in (0, 1)
    )
    assert [first["gpu"], second["gpu"]] == names
    versions = {"triton": "3.6.0"}
    monkeypatch.setattr(identity, "_PACKAGES", ())
    monkeypatch.setattr(identity.metadata, "version", lambda name: _known(versions, name))
    one = local_identity(folder, EngineOptions(device="cuda:0", dtype="bfloat16"))
    assert one["version of triton"] == "3.6.0"
    assert "version of flashinfer-python" not in one
    other = EngineOptions(device="cuda:0", dtype="bfloat16", attention="flashinfer")
    assert local_identity(folder, other)["version of flashinfer-python"] == "none"
    versions["triton"] = "3.7.0"
    assert local_identity(folder, EngineOptions(device="cuda:0", dtype="bfloat16")) != one
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "gpu" not in local_identity(folder, EngineOptions(device="cuda", dtype="bfloat16"))


def _known(versions: dict[str, str], name: str) -> str:
    if name not in versions:
        raise identity.metadata.PackageNotFoundError(name)
    return versions[name]
