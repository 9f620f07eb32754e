"""The Python blocks of each guide run, top to bottom, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sgc

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
GUIDES = [p for p in sorted((ROOT / "docs").glob("*.md")) if "```python" in p.read_text("utf-8")]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda p: p.name)
def test_python_blocks_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    # Programs are traced from source, so the blocks must stand in a file.
    script = tmp_path / f"{guide.stem}_blocks.py"
    script.write_text("\n\n".join(blocks), "utf-8")
    monkeypatch.chdir(tmp_path)
    try:
        code = compile(script.read_text("utf-8"), str(script), "exec", dont_inherit=True)
        exec(code, {"__name__": "guide"})
    finally:
        sgc.set_default_backend(None)
