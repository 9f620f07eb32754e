"""A command line that runs in this process, on a backend that answers from a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import GREET, Result, Sgc
from support.resuming import Bench

import sgc
from sgc.cli.main import main
from sgc.testing import ScriptedBackend


@pytest.fixture
def sgc_cli(capsys: pytest.CaptureFixture[str]) -> Sgc:
    def run(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def forget_modules(tmp_path: Path) -> Iterator[None]:
    """Modules of a test's folder would answer to their names in the tests behind it."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def fail(prompt: str) -> Exception | None:
    return sgc.BackendError("the line was cut") if "Mallory" in prompt else None


@pytest.fixture(autouse=True)
def scripted() -> Iterator[ScriptedBackend]:
    backend = ScriptedBackend(lambda prompt, params: " Hello there\nand more", fail=fail)
    sgc.set_default_backend(backend)
    yield backend
    sgc.set_default_backend(None)


@pytest.fixture
def greet(tmp_path: Path) -> Path:
    path = tmp_path / "greet.py"
    path.write_text(GREET)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"name": name}) + "\n" for name in ("Ada", "Bo", "Cy")))
    return path


@pytest.fixture
def bench(tmp_path: Path, sgc_cli: Sgc, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path, sgc_cli)
