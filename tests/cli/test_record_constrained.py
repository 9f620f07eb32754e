"""Runs of the default model under constraints: recorded and replayed, with and without jumps."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Sgc

pytestmark = pytest.mark.model

PROGRAM = """
import sgc


@sgc.function
def form(s, who: str):
    s += sgc.user(f"Describe {who}.")
    s += sgc.assistant(sgc.gen("person", json_schema={
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "kind": {"enum": ["a", "b"]}},
        "required": ["name", "kind"],
        "additionalProperties": False,
    }, max_tokens=40))
    s += sgc.user("How many?") + sgc.assistant(sgc.gen("count", regex="[1-9] in all", n=2))
    s += "\\nGrade: " + sgc.gen("grade", regex="[ABCD][+-]?", distribution="exact")
    s += "\\nSure: " + sgc.gen("sure", dtype=bool, logprobs=True)
    return s["person"]["name"], s["count"], s["grade"], s["sure"]
"""


def test_a_replay_gives_the_same_bytes(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "form.py").write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text('{"who": "a cat"}\n{"who": "Ada"}\n')
    run = ("run", tmp_path / "form.py", "--inputs", tmp_path / "rows.jsonl", "--quiet")
    local = ("--backend", "local", "--dtype", "float32", "--kv-tokens", "1000")
    record, a, b, c = (tmp_path / name for name in ("r", "a.jsonl", "b.jsonl", "c.jsonl"))
    assert sgc_cli(*run, *local, "-o", a, "--record", record).code == 0
    for mode in ("compiled", "interpreted"):
        assert sgc_cli(*run, "-o", b, "--replay", record, "--mode", mode).code == 0
        assert a.read_bytes() == b.read_bytes()
    singly = sgc_cli(*run, *local, "--no-jump", "--record", c)
    assert singly.code == 0
    recorded = sgc_cli(*run, "--replay", record).rows
    assert [(row["vars"], row["value"]) for row in singly.rows] == [
        (row["vars"], row["value"]) for row in recorded
    ]
    wrong = sgc_cli(*run, "--replay", record, "--max-tokens", "3")
    assert wrong.code == 1
    assert "max_tokens" in wrong.rows[0]["error"]["message"]
