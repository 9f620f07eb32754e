"""Scores of choices that depend on prompt and choices only: made-up log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from sgc_runtime.backends.scripted_tokens import Tokens

_BLANKS = " \t\n\r"


def made_up_scores(prompt: str, choices: Sequence[str], method: str, tokens: Tokens) -> list[float]:
    """One score a choice by `method`, from log-probabilities hashed out of context and token.

    Blanks that end the prompt count as part of each choice.
    """
    context = prompt.rstrip(_BLANKS)
    blanks = prompt[len(context) :]
    rows = [_logprobs(context, blanks + choice, tokens) for choice in choices]
    if method == "greedy_token_selection":
        return _tournament(rows)
    scores = [_mean(row) for row in rows]
    if method == "unconditional_likelihood_normalized":
        for i, choice in enumerate(choices):
            bare = _logprobs("", blanks + choice, tokens)
            scores[i] -= _mean([0.0, *bare[1:]]) if bare else 0.0
    return scores


def _logprobs(context: str, text: str, tokens: Tokens) -> list[float]:
    row = []
    for token in tokens.split(text):
        digest = blake2b(f"{context}\x1f{token.text}".encode("utf-8", "surrogatepass"))
        row.append(-10.0 * int.from_bytes(digest.digest()[:6], "big") / 2.0**48)
        context += token.text
    return row


def _mean(row: Sequence[float]) -> float:
    return sum(row) / len(row) if row else 0.0


def _tournament(rows: Sequence[Sequence[float]]) -> list[float]:
    """Position by position the best go on; shorter rows are padded with their mean. The score is
    the number of positions survived, so that the first of the highest wins."""
    width = max(len(row) for row in rows)
    padded = [[*row, *[_mean(row)] * (width - len(row))] for row in rows]
    scores = [0.0] * len(rows)
    alive = list(range(len(rows)))
    for position in range(width):
        best = max(padded[i][position] for i in alive)
        alive = [i for i in alive if padded[i][position] == best]
        for i in alive:
            scores[i] += 1.0
    return scores
