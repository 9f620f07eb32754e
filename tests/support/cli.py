"""What the tests of the command line share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GREET = """
import sgc


@sgc.function
def greet(s, name: str, times: int = 1):
    s += f"Greet {name} {times} times:"
    s += sgc.gen("greeting", max_tokens=8, stop="\\n")
    return {"greeting": s["greeting"].strip(), "times": times}
"""


@dataclass(frozen=True)
class Result:
    """What a command gave back: exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Sgc = Callable[..., Result]
