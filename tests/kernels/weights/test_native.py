"""Compiled code is kept, found again, checked, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sgc_kernels.weights import native
from sgc_kernels.weights.grouped import GroupedLinear, can_group, pack, quantize

pytestmark = pytest.mark.skipif(
    not can_group(torch.device("cpu"), torch.bfloat16), reason="nothing is compiled here"
)
_PROGRAM = """
import torch
from sgc_kernels.weights.grouped import GroupedLinear, pack, quantize
torch.set_num_threads(1)
weight = quantize(torch.linspace(-1, 1, 16 * 64).view(16, 64), 8)
print(GroupedLinear(pack(weight))(torch.ones(3, 64).bfloat16()).double().sum().item())
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SGC_CACHE": str(folder)},
    )


def result(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory with code, and what the program prints."""
    folder = tmp_path_factory.mktemp("code") / "made on first use"
    return folder, result(start(folder))


def code_file(folder: Path) -> Path:
    (file,) = (folder / "kernels").iterdir()
    return file


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    """What the program prints, computed in this process with no code in memory."""

    def run(folder: Path) -> str:
        monkeypatch.setattr(native, "_alive", {})
        monkeypatch.setenv("SGC_CACHE", str(folder))
        weight = quantize(torch.linspace(-1, 1, 16 * 64).view(16, 64), 8)
        product = GroupedLinear(pack(weight))(torch.ones(3, 64).bfloat16())
        return f"{product.double().sum().item()}\n"

    return run


Fresh = Callable[[Path], str]


def test_code_is_found_again(kept: tuple[Path, str]) -> None:
    folder, printed = kept
    before = code_file(folder).stat()
    assert result(start(folder)) == printed
    assert code_file(folder).stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_code_is_compiled_anew(kept: tuple[Path, str], damage: str, fresh: Fresh) -> None:
    folder, printed = kept
    file = code_file(folder)
    whole = file.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    file.write_bytes({"cut": whole[:middle], "changed": changed}[damage])
    assert fresh(folder) == printed
    assert len(code_file(folder).read_bytes()) == len(whole)


def test_old_versions_are_dropped(kept: tuple[Path, str], fresh: Fresh) -> None:
    folder, printed = kept
    file = code_file(folder)
    stem = file.name.rpartition("-")[0]
    for number in range(7):
        (file.parent / f"{stem}-{number}").write_bytes(b"of an older version")
    file.unlink()
    assert fresh(folder) == printed
    assert file.exists()
    assert len(list(file.parent.iterdir())) == 4
    for other in file.parent.iterdir():
        if other != file:
            other.unlink()


def test_two_processes_at_once(kept: tuple[Path, str], tmp_path: Path) -> None:
    processes = [start(tmp_path / "code") for _ in range(2)]
    assert [result(process) for process in processes] == [kept[1]] * 2
    code_file(tmp_path / "code")  # one whole file, nothing beside it


def test_a_place_that_cannot_be_written(
    kept: tuple[Path, str], tmp_path: Path, fresh: Fresh
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert fresh(tmp_path / "file" / "code") == kept[1]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_a_directory_that_takes_no_files(kept: tuple[Path, str], fresh: Fresh) -> None:
    """Not even from the super-user, for whom permissions do not count."""
    assert fresh(Path("/proc/self")) == kept[1]
