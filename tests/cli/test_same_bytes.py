"""An artefact does not depend on the folder, only on where the program lies below it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_equal_bytes_from_two_folders(tmp_path: Path) -> None:
    written = []
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(ROOT / "programs" / "essay_judge.py", folder)
        subprocess.run(
            [sys.executable, "-m", "sgc", "compile", "essay_judge.py", "-o", "g.sgc", "--quiet"],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT)},
            check=True,
            timeout=60,
        )
        written.append((folder / "g.sgc").read_bytes())
    assert written[0] == written[1]
    assert b"essay_judge.py" in written[0]
    assert str(tmp_path).encode() not in written[0]
