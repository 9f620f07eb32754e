"""Each program of the gallery, 3 rows, default model in float32: equal ids in all three modes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
ROWS = 3
FILES = sorted((ROOT / "programs").glob("*.py"))
DATA = {"essay_judge": "essays"}

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]


def first_rows(name: str) -> list[dict[str, Any]]:
    lines = (ROOT / "programs" / "data" / f"{DATA.get(name, name)}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in lines.splitlines()[:ROWS]]


def in_process(mode: str, directory: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "run_programs.py", mode, "cases.json"],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": ":".join(str(ROOT / p) for p in (".", "ir", "runtime", "kernels")),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_equal_ids_in_all_three_modes(tmp_path: Path) -> None:
    from tests_support import load_program

    shutil.copy(Path(__file__).parent / "run_programs.py", tmp_path)
    cases = {}
    for path in FILES:
        cases[path.stem] = {"path": str(path), "rows": first_rows(path.stem)}
        load_program(path).compile().save(tmp_path / f"{path.stem}.sgc")
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    interpreted = in_process("interpreted", tmp_path)
    compiled = in_process("compiled", tmp_path)
    loaded = in_process("loaded", tmp_path)
    assert len(interpreted) == len(FILES) >= 11
    for name in interpreted:
        assert interpreted[name]["ids"], name
        assert compiled[name] == interpreted[name], name
        assert loaded[name] == interpreted[name], name
