"""A program, and the pages about it and a run of it on a scripted backend."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sgc
from sgc.cli.main import main
from sgc.testing import ScriptedBackend

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert('y')>"
PROGRAM = f"""
import sgc

HOSTILE = {HOSTILE!r}


@sgc.function
def page_quiz(s, question: str = HOSTILE):
    s += "Answer with one word. " + HOSTILE
    s += question + " Answer: " + sgc.gen("first", max_tokens=4)
    branches = s.fork(3)
    for i, branch in enumerate(branches):
        branch += f"Part {{i}}. " + sgc.gen("part", max_tokens=2)
        branch += "And then? " + sgc.gen("more", max_tokens=6)
    branches.join()
    with s.user():
        s += "Is it so?"
    with s.assistant():
        s += sgc.select(HOSTILE, ["yes", "no"])
    return HOSTILE
"""


@dataclass(frozen=True)
class PageRun:
    """Files of pages, and the result of `sgc explain` as JSON."""

    inspect: Path
    explain: Path
    result: dict[str, Any]
    program: Path


def page_run(folder: Path) -> PageRun:
    """Write everything into `folder`."""
    program, rows = folder / "page_quiz.py", folder / "rows.jsonl"
    program.write_text(PROGRAM)
    questions = ["One?", "Two and three?", HOSTILE]
    rows.write_text("".join(json.dumps({"question": q}) + "\n" for q in questions))
    stats, trace = folder / "stats.json", folder / "trace.json"
    sgc.set_default_backend(ScriptedBackend(lambda prompt, params: " some words"))
    try:
        _cli("run", program, "--inputs", rows, "-o", folder / "out", "--quiet", "--stats", stats)
        _cli("run", program, "--inputs", rows, "-o", folder / "out", "--quiet", "--trace", trace)
    finally:
        sgc.set_default_backend(None)
    found = PageRun(folder / "inspect.html", folder / "explain.html", {}, program)
    _cli("inspect", program, "--format", "html", "-o", found.inspect)
    asked = ("explain", program, "--inputs", rows, "--analyze", stats)
    _cli(*asked, "--trace", trace, "--format", "html", "-o", found.explain)
    _cli(*asked, "--format", "json", "-o", folder / "explain.json")
    result = json.loads((folder / "explain.json").read_text())
    return PageRun(found.inspect, found.explain, result, program)


def _cli(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0
