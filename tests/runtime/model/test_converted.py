"""The kept copy of converted weights: what it gives, and what happens where it cannot be had."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
import torch

from sgc_kernels.weights.grouped import PackedWeight
from sgc_kernels.weights.grouped_ir import Layout
from sgc_runtime.model.converted import Converted
from sgc_runtime.model.converted_file import DamagedFile, read_tensors, write_tensors

PACKED = PackedWeight(Layout(4, True, 2), torch.arange(2 * 3 * 80).to(torch.uint8).view(2, 3, 80))
NORM = torch.linspace(-3, 3, 37).to(torch.bfloat16)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(range(256)) * 1000)
    return path


def use(folder: Path | None, model: Path, option: str = "auto", most: int = 1 << 20) -> list[str]:
    """Ask for all weights, keep them; which of them were made."""
    made: list[str] = []

    def make(name: str, value: object) -> object:
        made.append(name)
        return value

    kept = Converted(folder, model, option, least_bytes=1, most_bytes=most)
    packed = kept.packed("qkv", lambda: make("qkv", PACKED))  # type: ignore[arg-type,return-value]
    dense = kept.packed("out", lambda: make("out", None))  # type: ignore[arg-type,return-value]
    norm = kept.tensor("norm", lambda: make("norm", NORM))  # type: ignore[arg-type,return-value]
    assert packed is not None
    assert packed.layout == PACKED.layout
    assert torch.equal(packed.data, PACKED.data)
    assert dense is None
    assert torch.equal(norm, NORM)
    kept.save()
    return made


ALL = ["qkv", "out", "norm"]


def test_the_second_process_makes_nothing(tmp_path: Path, model: Path) -> None:
    assert use(tmp_path / "kept", model) == ALL
    assert use(tmp_path / "kept", model) == []


def test_no_folder_keeps_nothing(tmp_path: Path, model: Path) -> None:
    assert use(None, model) == use(None, model) == ALL
    assert list(tmp_path.iterdir()) == [model]


def test_options_have_copies_of_their_own(tmp_path: Path, model: Path) -> None:
    use(tmp_path / "kept", model)
    assert use(tmp_path / "kept", model, "int8") == ALL
    assert use(tmp_path / "kept", model) == use(tmp_path / "kept", model, "int8") == []


@pytest.mark.parametrize("change", ["time", "size", "end"])
def test_a_changed_model_is_converted_anew(tmp_path: Path, model: Path, change: str) -> None:
    use(tmp_path / "kept", model)
    facts, data = model.stat(), model.read_bytes()
    if change == "time":
        os.utime(model, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    else:
        model.write_bytes(data + b"x" if change == "size" else data[:-1] + b"x")
        os.utime(model, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert use(tmp_path / "kept", model) == ALL


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "head", "data", "zeros"])
def test_a_damaged_copy_is_made_anew(tmp_path: Path, model: Path, damage: str) -> None:
    use(tmp_path / "kept", model)
    (copy,) = (tmp_path / "kept").iterdir()
    data = copy.read_bytes()
    changed = {
        "empty": b"",
        "cut": data[:-64],
        "longer": data + bytes(64),
        "head": data[:70] + bytes([data[70] ^ 1]) + data[71:],
        "data": data[:-200] + bytes([data[-200] ^ 4]) + data[-199:],
        "zeros": data[:-128] + bytes(128),
    }[damage]
    copy.write_bytes(changed)
    with pytest.raises(DamagedFile):
        read_tensors(copy)
    assert use(tmp_path / "kept", model) == ALL
    assert use(tmp_path / "kept", model) == []


def test_a_folder_that_cannot_be(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").touch()
    assert use(tmp_path / "file" / "kept", model) == ALL
    assert use(tmp_path / "file" / "kept", model) == ALL


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_takes_no_files(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert use(folder, model) == use(folder, model) == ALL


def test_a_full_disk(
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert use(tmp_path / "kept", model) == ALL
    assert list((tmp_path / "kept").iterdir()) == []
    assert "cannot keep converted weights" in caplog.text
    assert "No space left" in caplog.text


def test_the_least_recently_used_copies_go(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "kept"
    use(folder, model, "a")
    (first,) = folder.iterdir()
    room = first.stat().st_size * 5 // 2  # for two
    use(folder, model, "b")
    now = first.stat().st_mtime
    for file in folder.iterdir():
        os.utime(file, (now - 100, now - 100) if file != first else (now - 200, now - 200))
    assert use(folder, model, "a") == []  # used last from here on
    use(folder, model, "c", room)
    assert use(folder, model, "a") == use(folder, model, "c") == []
    assert use(folder, model, "b", room) == ALL
    assert sum(file.stat().st_size for file in folder.iterdir()) <= room


@pytest.mark.parametrize("found", [False, True])
def test_abandoned_files_go(tmp_path: Path, model: Path, found: bool) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    if found:
        use(folder, model)
    old, fresh = folder / ".writing-old", folder / ".writing-fresh"
    old.touch()
    fresh.touch()
    os.utime(old, (0, 0))
    assert use(folder, model) == ([] if found else ALL)
    assert not old.exists()
    assert fresh.exists()


def test_several_writers_and_readers_at_once(tmp_path: Path, model: Path) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                use(tmp_path / "kept", model)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert use(tmp_path / "kept", model) == []


def test_every_type_and_shape(tmp_path: Path) -> None:
    tensors = {
        "odd": torch.arange(7, dtype=torch.uint8),
        "half": torch.randn(3, 5).to(torch.float16),
        "turned": torch.randn(4, 6).T,
        "none": torch.empty(0, 3),
        "one": torch.tensor(2.5),
    }
    write_tensors(tmp_path / "file", tensors, {"a": [1, None]})
    found, facts = read_tensors(tmp_path / "file")
    assert facts == {"a": [1, None]}
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)
        assert found[name].numel() == 0 or found[name].data_ptr() % 64 == 0
