"""Every program shape: interpreted, compiled, and compiled-saved-loaded elsewhere are equal.

Equal means call by call: node, stream, prompt, parameters and result of every model call, then
variables, value, text, messages and usage, or the same error with the same node. A shape that the
tracer refuses says so with file and line, and `mode="auto"` interprets it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shapes import calls, driver, failures, gallery, streams, texts  # noqa: F401 (the catalogue)
from shapes.catalog import SHAPES, Shape

import sgc

COMPILED = [s for s in SHAPES if s.refused is None]
REFUSED = [s for s in SHAPES if s.refused is not None]


def ids(shape: Shape) -> str:
    return shape.name


def test_shape_names_are_unique() -> None:
    assert len({s.name for s in SHAPES}) == len(SHAPES) > 100


@pytest.mark.parametrize("shape", COMPILED, ids=ids)
def test_compiled_equals_interpreted(shape: Shape) -> None:
    for row in shape.rows:
        interpreted = driver.outcome(shape.program, dict(row), "interpreted")
        compiled = driver.outcome(shape.program, dict(row), "compiled")
        if shape.fails is None:
            assert interpreted["error"] is None, interpreted
            assert compiled == interpreted
        else:
            assert interpreted["error"] == compiled["error"] == shape.fails
            assert compiled["node"] == interpreted["node"]
            assert compiled["source"] == interpreted["source"]
            assert set(interpreted["calls"]) <= set(compiled["calls"])


@pytest.mark.parametrize("shape", REFUSED, ids=ids)
def test_refused_by_name(shape: Shape) -> None:
    with pytest.raises(sgc.CompileError) as caught:
        shape.program.compile()
    error = caught.value
    assert error.file is not None
    assert error.file.endswith(("failures.py", "streams.py", "calls.py"))
    assert error.line is not None
    assert shape.refused is not None
    assert re.search(shape.refused, str(error)), str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("shape", REFUSED, ids=ids)
def test_refused_shape_interprets_in_auto_mode(shape: Shape) -> None:
    for row in shape.rows:
        interpreted = driver.outcome(shape.program, dict(row), "interpreted")
        assert driver.outcome(shape.program, dict(row), "auto") == interpreted


def test_saved_and_loaded_in_a_fresh_process(tmp_path: Path) -> None:
    """One process for all shapes, in a directory that holds artefacts and no program source."""
    here = Path(__file__).parent
    for name in ("driver.py", "replies.py"):
        shutil.copy(here / name, tmp_path)
    cases: dict[str, Any] = {}
    for shape in COMPILED:
        shape.program.compile().save(tmp_path / f"{shape.name}.sgc")
        cases[shape.name] = [dict(row) for row in shape.rows]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    root = here.parent.parent
    path = ":".join(str(root / p) for p in (".", "ir", "runtime", "kernels", "tests"))
    done = subprocess.run(
        [sys.executable, "driver.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = json.loads(done.stdout)
    for shape in COMPILED:
        for row, elsewhere in zip(shape.rows, loaded[shape.name], strict=True):
            here_again = driver.outcome(shape.program, dict(row), "compiled")
            assert elsewhere == json.loads(json.dumps(here_again)), shape.name
