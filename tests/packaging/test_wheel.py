"""The wheel: it holds the four packages whole, needs no compiler, and runs when installed."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = {"sgc": "sgc", "sgc_ir": "ir", "sgc_runtime": "runtime", "sgc_kernels": "kernels"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    return built


def tracked(package: str) -> set[str]:
    base = ROOT if package == "sgc" else ROOT / ROOMS[package]
    files = (base / package).rglob("*")
    return {
        path.relative_to(base).as_posix()
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_it_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
    assert names == set().union(*(tracked(package) for package in ROOMS))
    assert {f"{package}/py.typed" for package in ROOMS} <= names
    assert any(name.endswith(".lark") for name in names)


def test_it_is_pure_python(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_heavy_and_gpu_packages_are_extras_or_absent(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("METADATA"))
        lines = archive.read(name).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    for package in ("triton", "flashinfer", "llm-", "llama", "pillow"):
        assert not any(package in line for line in needed), package
    assert any("triton" in line and "extra == 'gpu'" in line for line in lines)


def test_the_installed_command_runs_outside_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "env"
    venv.create(place, with_pip=False, symlinks=True)
    site = next(place.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The dependencies come from this environment; its editable sgc is not seen through a path.
    (site / "dependencies.pth").write_text(_site_packages())
    done = subprocess.run(
        [place / "bin" / "python", "-m", "sgc", "--version"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout == "sgc 0.1.0\n"


def _site_packages() -> str:
    import click

    return str(Path(click.__file__).parent.parent)
