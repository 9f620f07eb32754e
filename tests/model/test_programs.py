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
from support.gallery import NAMES, PROGRAMS, load_program, rows_of

ROOT = Path(__file__).parent.parent.parent
ROWS = 3

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]


def in_process(directory: Path, *modes: str) -> Any:
    done = subprocess.run(
        [sys.executable, "run_programs.py", "cases.json", *modes],
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
    shutil.copy(Path(__file__).parent / "run_programs.py", tmp_path)
    cases = {}
    for name in NAMES:
        cases[name] = {"path": str(PROGRAMS / f"{name}.py"), "rows": rows_of(name)[:ROWS]}
        load_program(name).compile().save(tmp_path / f"{name}.sgc")
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    here = in_process(tmp_path, "interpreted", "compiled")
    interpreted, compiled = here["interpreted"], here["compiled"]
    loaded = in_process(tmp_path, "loaded")["loaded"]
    assert set(interpreted) == set(NAMES)
    for name in interpreted:
        assert interpreted[name]["ids"], name
        assert compiled[name] == interpreted[name], name
        assert loaded[name] == interpreted[name], name
