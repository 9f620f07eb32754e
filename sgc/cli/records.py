"""The output record of a row: what `sgc run` writes as one line of JSON."""

from __future__ import annotations

from typing import Any

from sgc.cli.failure import one_line
from sgc.cli.output import output_data
from sgc_ir.errors import GenerationError, InputError, SgcError
from sgc_ir.params import Usage

NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "forced_tokens": 0}


def record_of(index: int, place: str, state: Any, full_text: bool) -> dict[str, Any]:
    """The record of a row that ran; `state` is its finished state.

    Where a value is nothing that JSON can hold, the record says so as its error and keeps the
    variables that it can hold.
    """
    error = state.error()
    record: dict[str, Any] = {"index": index, "vars": {}, "value": None}
    problem = ""
    for name, value in state.vars.items():
        try:
            record["vars"][name] = output_data(value, f"variable {name}")
        except ValueError as refusal:
            problem = problem or str(refusal)
    try:
        record["value"] = output_data(state.value if error is None else None)
    except ValueError as refusal:
        problem = problem or str(refusal)
    record["usage"] = usage_record(state.usage)
    if error is None and problem:
        error = InputError(f"{place}: {problem}")
    record["error"] = None if error is None else error_record(error, place)
    if full_text:
        record["text"] = state.text()
        record["messages"] = output_data(state.messages(), "messages")
    return record


def failed_record(index: int, place: str, error: BaseException, full_text: bool) -> dict[str, Any]:
    """The record of a row that never ran."""
    record = {
        "index": index,
        "vars": {},
        "value": None,
        "usage": dict(NO_USAGE),
        "error": error_record(error, place),
    }
    return record | ({"text": "", "messages": []} if full_text else {})


def usage_record(usage: Usage) -> dict[str, int]:
    """The token counts that a repetition of the run gives again."""
    return {name: getattr(usage, name) for name in NO_USAGE}


def error_record(error: BaseException, place: str) -> dict[str, Any]:
    """Type, message, node and source line; `place` is FILE:LINE of the input row."""
    node, source = None, place
    if isinstance(error, GenerationError):
        node, source = error.node or None, error.source or place
    return {
        "type": type(error).__name__,
        "message": one_line(str(error)) or type(error).__name__,
        "node": node,
        "source": source,
    }


def unavailable(error: BaseException | None) -> SgcError | None:
    """The ModelError behind a row's error, if a model that is not to be had caused it."""
    from sgc_ir.errors import ModelError

    while error is not None:
        if isinstance(error, ModelError):
            return error
        error = error.__cause__
    return None
