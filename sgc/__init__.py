"""sgc: structured language-model programs, compiled to graphs and executed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sgc._checkout  # noqa: F401  (first: the imports below need the source roots)
from sgc.higher.patterns import best_of, map, reduce, retry_until
from sgc.lang.higher import first
from sgc.lang.primitives import assistant, gen, image, select, system, user, video, vote
from sgc.lang.tools import call, tool
from sgc.program import Program, function
from sgc_ir.errors import (
    ArtifactError,
    BackendError,
    CompileError,
    GenerationError,
    InputError,
    ModelError,
    SgcError,
    ToolError,
)
from sgc_ir.params import SamplingParams

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram, load
    from sgc.default_backend import set_default_backend
    from sgc_runtime.executor.event import Event

__all__ = [
    "ArtifactError",
    "BackendError",
    "CompileError",
    "CompiledProgram",
    "Event",
    "GenerationError",
    "InputError",
    "ModelError",
    "Program",
    "SamplingParams",
    "SgcError",
    "ToolError",
    "assistant",
    "best_of",
    "call",
    "first",
    "function",
    "gen",
    "image",
    "load",
    "map",
    "reduce",
    "retry_until",
    "select",
    "set_default_backend",
    "system",
    "tool",
    "user",
    "video",
    "vote",
]

_LAZY = {  # what only a run or an artefact needs
    "CompiledProgram": "sgc.compile",
    "Event": "sgc_runtime.executor.event",
    "load": "sgc.compile",
    "set_default_backend": "sgc.default_backend",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sgc' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
