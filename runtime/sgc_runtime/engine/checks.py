"""What the local engine refuses, by name."""

from __future__ import annotations

from collections.abc import Iterable

from sgc_ir.checks import exact_problem
from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams


def check_params(params: SamplingParams, vocab_size: int) -> None:
    """Raise BackendError for what a gen asks and this engine cannot do."""
    problem = exact_problem(params)
    if problem is not None:
        raise BackendError(problem)
    _check_ids("logit_bias", map(int, params.logit_bias or {}), vocab_size)
    _check_ids("stop_token_ids", params.stop_token_ids, vocab_size)


def _check_ids(name: str, ids: Iterable[int], vocab_size: int) -> None:
    for token in ids:
        if token >= vocab_size:
            raise BackendError(
                f"{name}: token id {token} is not in the model's vocabulary of {vocab_size} ids"
            )


def check_length(num_prompt: int, num_new: int, max_positions: int) -> None:
    """Raise BackendError for a call that is longer than the model's context."""
    if num_prompt + num_new > max_positions:
        raise BackendError(
            f"{num_prompt} prompt tokens and {num_new} more exceed the model's context of "
            f"{max_positions} tokens; shorten the prompt or lower max_tokens"
        )
