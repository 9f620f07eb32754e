"""A program, three rows and a backend for runs that are broken off and resumed in this process."""

from __future__ import annotations

import json
from pathlib import Path

from support.cli import Result, Sgc

import sgc
from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.function
def work(s, name: str):
    s += f"First {name}:" + sgc.gen("a", max_tokens=3)
    s += f" second {name}:" + sgc.gen("b", max_tokens=3)
    return s["b"]
"""


class Bench:
    """A folder with a program and three rows, and a backend in which calls can be made to fail."""

    def __init__(self, folder: Path, cli: Sgc) -> None:
        self.folder = folder
        self._cli = cli
        self.broken: set[str] = set()  # prompts that contain one of these fail
        self.backend = ScriptedBackend(self._reply, fail=self._fail)
        self.write("work.py", PROGRAM)
        names = ("Ada", "Bo", "Cy")
        self.write("rows.jsonl", "".join(json.dumps({"name": n}) + "\n" for n in names))

    def _reply(self, prompt: str, params: sgc.SamplingParams) -> str:
        return f" {len(prompt)} words follow here"

    def _fail(self, prompt: str) -> Exception | None:
        broken = any(part in prompt for part in self.broken)
        return sgc.BackendError("the line was cut") if broken else None

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def read(self, name: str = "out.jsonl") -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def run(self, *flags: str, inputs: str = "rows.jsonl") -> Result:
        sgc.set_default_backend(self.backend)
        self.backend.calls.clear()
        return self._cli("run", "work.py", "--inputs", inputs, "-o", "out.jsonl", *flags)

    @property
    def journal(self) -> Path:
        return self.folder / "out.jsonl.journal"

    @property
    def prompts(self) -> list[str]:
        return [call["prompt"] for call in self.backend.calls]


def refused(result: Result, *words: str) -> None:
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("sgc: error: ")
    for word in words:
        assert word in line
