"""Tells answers of a backend that make sense from those that make none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult, SamplingParams


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
    ids = result.token_ids
    if len(ids):
        low, high = min(ids), max(ids)
        if low < 0 or (vocab_size is not None and high >= vocab_size):
            return f"the token id {low if low < 0 else high}, which is outside of the vocabulary"
    return ""


def _check_choice(choices: Sequence[str], result: CallResult) -> None:
    if result.text not in choices:
        raise BadAnswer(f"the backend chose {result.text!r:.60}, which is no choice", result.text)
    scores = result.meta.get("scores")
    if scores is None:
        return
    if len(scores) != len(choices):
        raise BadAnswer(
            f"the backend gave {len(scores)} scores for {len(choices)} choices", result.text
        )
    for choice, score in zip(choices, scores, strict=True):
        if math.isnan(score):
            raise BadAnswer(f"the backend scored {choice!r:.60} as {score}", result.text)


def _text_of(results: Any) -> str | None:
    """Sample 0's text, with which the backend's stream has gone on."""
    first = results[0] if isinstance(results, list) and results else None
    text = getattr(first, "text", None)
    return text if type(text) is str else None
