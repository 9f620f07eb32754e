"""Prompt templates as graphs: text with `{slots}`, in a user turn or as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support.executor import GraphBuilder, program_of

from sgc_ir.graph import Param, Program
from sgc_ir.ops import Op

FOLDER = Path(__file__).parent.parent / "passes" / "templates"
_SLOT = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


def templates(name: str) -> list[dict[str, Any]]:
    """The templates of a file: name, form ("chat" or "raw"), prompt, perhaps system; `after` what
    it may become, or `why` it must stay."""
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def slots(prompt: str) -> list[str]:
    """Names of the slots, in order of first use."""
    return list(dict.fromkeys(_SLOT.findall(prompt)))


def graph_of(template: dict[str, Any], prompt: str | None = None) -> Program:
    """A program that appends the template piece by piece and generates a reply."""
    prompt = template["prompt"] if prompt is None else prompt
    b = GraphBuilder(template["name"])
    b.params = tuple(Param(slot) for slot in slots(prompt))
    if "system" in template:
        turn(b, "system", template["system"])
    if template["form"] == "chat":
        turn(b, "user", prompt)
        b.add(Op.ROLE_BEGIN, role="assistant")
        b.gen("reply")
        b.add(Op.ROLE_END, role="assistant")
    else:
        pieces(b, prompt)
        b.gen("reply")
    return program_of(b.done())


def turn(b: GraphBuilder, role: str, text: str) -> None:
    b.add(Op.ROLE_BEGIN, role=role)
    pieces(b, text)
    b.add(Op.ROLE_END, role=role)


def pieces(b: GraphBuilder, text: str) -> None:
    for i, part in enumerate(_SLOT.split(text)):
        if i % 2:
            b.arg(part, append=True)
        elif part:
            b.text(part)
