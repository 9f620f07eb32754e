"""Types given as schemas compile as the first thing that a process does: what pydantic looks up
once in a process is not taken for something that the program reads."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import sgc

KINDS = {
    "dataclass": "dataclasses.make_dataclass('Person', [('name', str), ('age', int)])",
    "TypedDict": "typing_extensions.TypedDict('Person', {'name': str, 'age': int})",
    "NamedTuple": "typing.NamedTuple('Person', [('name', str), ('age', int)])",
    "Enum": "enum.Enum('Colour', {'RED': 'red', 'BLUE': 'blue'})",
    "Literal": "typing.Literal['red', 'blue']",
    "Optional": "typing.Optional[int]",
    "Union": "int | None",
    "list": "list[int]",
    "Annotated": "typing.Annotated[int, pydantic.Field(ge=3)]",
    "NewType": "typing.NewType('Age', int)",
    "model": "pydantic.create_model('Person', name=(str, ...))",
}
PROGRAM = """
import dataclasses, enum, sys, typing
import typing_extensions
import pydantic
import sgc

T = {kind}

@sgc.function
def program(s):
    s += "x: "
    s += sgc.gen("value", json_schema=T)

graph = program.compile().graph
assert "warnings" not in graph.notes, graph.notes
assert program.compile().graph.notes == graph.notes
"""
DOCUMENTED = """
import dataclasses
import sgc
from sgc.testing import ScriptedBackend

@dataclasses.dataclass
class Person:
    name: str
    age: int

@sgc.function
def profile(s, who: str):
    s += f"Describe {who} as JSON: "
    s += sgc.gen("person", json_schema=Person, max_tokens=64)
    s += f"\\nIn ten years {s['person']['name']} will be {s['person']['age'] + 10}. Sure? "
    s += sgc.gen("sure", regex="yes|no|(rather|quite) (un)?likely")
    return s["person"]

def reply(prompt, params):
    return '{"name": "Ada", "age": 36}' if params.json_schema else "yes"

state = profile.run(who="Ada", backend=ScriptedBackend(reply), mode="compiled")
assert state.value == {"name": "Ada", "age": 36}
"""


def _run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("kind", KINDS)
def test_type_compiles_first(tmp_path: Path, kind: str) -> None:
    done = _run(tmp_path, PROGRAM.replace("{kind}", KINDS[kind]))
    assert (done.returncode, done.stderr) == (0, "")


def test_documented_dataclass_compiles_first(tmp_path: Path) -> None:
    done = _run(tmp_path, DOCUMENTED)
    assert (done.returncode, done.stderr) == (0, "")


def test_file_that_is_read_once_and_remembered_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    path.write_text("a fact")

    @cache
    def fact(name: str) -> str:
        return Path(name).read_text()

    @sgc.function
    def program(s):
        s += fact(str(path))

    compiled = program.compile()
    assert "opens a file while it is compiled" in compiled.graph.notes["warnings"][0]
    assert compiled.run().text() == "a fact"
