"""Tells answers of a backend that make sense from those that make none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult, SamplingParams, Usage

_FIELDS: tuple[tuple[str, type], ...] = (
    ("token_ids", Sequence),
    ("finish_reason", str),
    ("usage", Usage),
    ("meta", Mapping),
    ("pending", bytes),
    ("residual", str),
    ("rolled_back", int),
)


class BadAnswer(BackendError):
    """The backend answered, and its stream may have gone on, but the answer makes no sense."""

    def __init__(self, message: str, text: str | None) -> None:
        super().__init__(message)
        self.text = text  # what the stream has gone on with, where that is known


def checked(
    params: SamplingParams, results: list[CallResult], vocab_size: int | None
) -> list[CallResult]:
    """What a call with `params` gave, unless it makes no sense. Raises BadAnswer.

    Ids are held against `vocab_size`, where that is known.
    """
    if type(results) is not list or len(results) != params.n:
        found = f"{len(results)} samples" if type(results) is list else f"{results!r:.60}"
        raise BadAnswer(f"the backend gave {found} for n={params.n}", _text_of(results))
    for result in results:
        problem = _problem(result, vocab_size)
        if problem:
            raise BadAnswer(f"the backend gave {problem}", _text_of(results))
    if params.choices is not None:
        _check_choice(params.choices, results[0])
    return results


def _problem(result: Any, vocab_size: int | None) -> str:
    if not isinstance(result, CallResult):
        return f"a {type(result).__name__} in place of a result"
    if type(result.text) is not str:
        return f"a text of type {type(result.text).__name__}"
    if not _has_usual_types(result):
        for name, wanted in _FIELDS:
            value = getattr(result, name)
            if not isinstance(value, wanted):
                return f"{name} of type {type(value).__name__}"
    return _problem_of_ids(result.token_ids, vocab_size) if len(result.token_ids) else ""


def _has_usual_types(result: CallResult) -> bool:
    """The check of `_FIELDS` for what nearly every result is; a tenth of the time."""
    return (
        type(result.token_ids) is list
        and type(result.meta) is dict
        and type(result.usage) is Usage
        and type(result.finish_reason) is str
        and type(result.residual) is str
        and type(result.pending) is bytes
        and type(result.rolled_back) is int
    )


def _problem_of_ids(ids: Sequence[int], vocab_size: int | None) -> str:
    try:
        low, high = min(ids), max(ids)
    except TypeError:  # of several kinds, which have no order
        low = high = None  # type: ignore[assignment]
    if type(low) is not int or type(high) is not int:
        return "token ids that are no integers"
    if low < 0 or (vocab_size is not None and high >= vocab_size):
        return f"the token id {low if low < 0 else high}, which is outside of the vocabulary"
    return ""


def _check_choice(choices: Sequence[str], result: CallResult) -> None:
    if result.text not in choices:
        raise BadAnswer(f"the backend chose {result.text!r:.60}, which is no choice", result.text)
    scores = result.meta.get("scores")
    if scores is None:
        return
    if not isinstance(scores, Sequence) or len(scores) != len(choices):
        found = (
            f"{len(scores)} scores" if isinstance(scores, Sequence) else f"scores {scores!r:.60}"
        )
        raise BadAnswer(f"the backend gave {found} for {len(choices)} choices", result.text)
    for choice, score in zip(choices, scores, strict=True):
        if not isinstance(score, int | float) or math.isnan(score):
            raise BadAnswer(f"the backend scored {choice!r:.60} as {score!r:.60}", result.text)


def _text_of(results: Any) -> str | None:
    """Sample 0's text, with which the backend's stream has gone on."""
    first = results[0] if isinstance(results, list) and results else None
    text = getattr(first, "text", None)
    return text if type(text) is str else None
