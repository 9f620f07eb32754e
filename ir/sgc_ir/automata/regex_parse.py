"""Python's own parser of regular expressions, asked for its tree; its errors as ours.

The standard library has no public way to a parsed pattern. `re._parser` (called `sre_parse` before
Python 3.11) is the parser that `re.compile` itself runs, so whatever it accepts is Python's dialect
by construction. Its tree has kept one shape from 3.11 to 3.14; an operation that is not known here
is refused by name, never guessed.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from typing import Any

from sgc_ir.automata.limits import Limits
from sgc_ir.errors import ConstraintError

try:
    _parser: Any = importlib.import_module("re._parser")
except ImportError as error:  # an interpreter without the module that CPython has
    raise ImportError("sgc reads regular expressions with CPython's re._parser") from error

_MAX_CHARS = 100_000  # the parser cannot be interrupted; it reads these in 0.1 to 0.3 s
_NESTING = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|([()])", re.DOTALL)

# What a later Python may read otherwise; here the running Python's reading is the meaning.
_DOUBTFUL = ("[[", "--", "&&", "~~", "||")
_FILTERING = threading.Lock()  # the filters of warnings are the whole process's


def parse(pattern: str, limits: Limits) -> tuple[Any, int]:
    """The tree of `pattern` and its flags.

    Raises:
        ConstraintError: not a regular expression of Python's (kind "malformed", with Python's
            message and the position), or one that is too long or too deeply nested ("limit").
    """
    _check_size(pattern, limits)
    try:
        tree = _tree(pattern)
    except re.error as error:
        where = "" if error.pos is None else f"position {error.pos}"
        raise ConstraintError(f"{error.msg}; mend the regex", kind="malformed", where=where) from (
            error
        )
    except OverflowError as error:
        raise ConstraintError(f"{error}; mend the regex", kind="malformed") from error
    return tree, int(tree.state.flags)


def _tree(pattern: str) -> Any:
    """Python's tree, without its warnings that name no line of the user's."""
    if not any(text in pattern for text in _DOUBTFUL):
        return _parser.parse(pattern)
    with _FILTERING, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)
        return _parser.parse(pattern)


def _check_size(pattern: str, limits: Limits) -> None:
    if len(pattern) > _MAX_CHARS:
        raise ConstraintError(
            f"the regex has {len(pattern)} characters and at most {_MAX_CHARS} are read; split it"
        )
    if pattern.count("(") <= limits.depth:
        return
    depth = deepest = 0
    for bracket in _NESTING.findall(pattern):
        depth += (bracket == "(") - (bracket == ")")
        deepest = max(deepest, depth)
    if deepest > limits.depth:
        raise ConstraintError(
            f"the regex nests {deepest} groups and at most {limits.depth} are read; flatten it"
        )
