"""A command line that runs in this process, on a backend that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import GREET, Result, Sgc

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
