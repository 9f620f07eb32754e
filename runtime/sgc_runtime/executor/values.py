"""From the text that a model call gave to the Python value of its variable; one rule for all
backends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sgc_ir.errors import BackendError
from sgc_ir.json_text import finite_float, refuse_constant
from sgc_ir.params import CallResult, SamplingParams


def value_of(params: SamplingParams, result: CallResult) -> Any:
    """The value of one sample: the text, or what `dtype` or `json_schema` makes of it.

    Raises BackendError when the text is not (or not completely) of that form.
    """
    if params.dtype is None and params.json_schema is None:
        return result.text
    wanted = f"dtype {params.dtype}" if params.dtype is not None else "json_schema"
    if not result.complete and result.finish_reason == "length":
        raise BackendError(
            f"max_tokens={params.max_tokens} cut the text before {wanted} was complete: "
            f"{_shown(result.text)}; raise max_tokens"
        )
    try:
        return _convert(params.dtype, result.text)
    except ValueError as error:
        raise BackendError(f"{_shown(result.text)} is no {wanted}: {error}") from error


def _convert(dtype: str | None, text: str) -> Any:
    if dtype == "int":
        return int(text)
    if dtype == "float":
        return finite_float(text)
    if dtype == "bool":
        if text not in ("True", "False"):
            raise ValueError("expected True or False")
        return text == "True"
    value = json.loads(text, parse_constant=refuse_constant, parse_float=finite_float)
    if dtype == "str" and not isinstance(value, str):
        raise ValueError("expected a quoted string")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def meta_of(params: SamplingParams, results: Sequence[CallResult]) -> dict[str, Any]:
    """Metadata of a call; for n > 1 each field is a list with one item a sample."""
    metas = [
        {
            "finish_reason": result.finish_reason,
            "matched": result.matched,
            "complete": result.complete,
            "completion_tokens": result.usage.completion_tokens,
            **result.meta,
        }
        for result in results
    ]
    if params.n == 1:
        return metas[0]
    names = list(dict.fromkeys(name for meta in metas for name in meta))
    return {name: [meta.get(name) for meta in metas] for name in names}
