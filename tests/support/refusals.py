"""Programs that must be refused: noted with the words of the refusal, and tested."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import sgc
from sgc.lang.source import shown_file

Program = Callable[..., Any]
Case = tuple[Program, str]


def noting(cases: list[Case]) -> Callable[[str], Callable[[Program], Program]]:
    """A decorator `refused(words)` that puts a program among `cases`."""

    def refused(words: str) -> Callable[[Program], Program]:
        def note(fn: Program) -> Program:
            cases.append((fn, words))
            return fn

        return note

    return refused


def assert_refused(fn: Program, words: str) -> None:
    """The program must be refused with these words, at its line that ends in `# here`."""
    lines, first = inspect.getsourcelines(fn)
    expected = next(first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))
    with pytest.raises(sgc.CompileError) as caught:
        sgc.function(fn).compile()
    error = caught.value
    assert error.file == shown_file(fn.__code__.co_filename)
    assert error.line == expected, str(error)
    assert re.search(words, str(error)), str(error)
    assert "\n" not in str(error)
