"""Which choice wins, given the log-probabilities of every choice's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScoredChoice:
    """Tokens of one choice from the common scoring start on.

    Attributes:
        ids: token ids, at least one.
        logprobs: log-probability of each, given everything before it.
        unconditional: the same ids' log-probabilities without context (the first one 0), for
            `unconditional_likelihood_normalized`; else empty.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    unconditional: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        return sum(self.logprobs) / len(self.logprobs)


def decide(method: str, choices: Sequence[ScoredChoice]) -> tuple[int, list[float]]:
    """Index of the winner (the first of equals) and the scores in choice order.

    The score of a choice is its mean log-probability; for
    `unconditional_likelihood_normalized`, the mean difference to the unconditional one.
    `greedy_token_selection` decides position by position among the choices still in play, so its
    winner need not have the largest score.
    """
    if method == "unconditional_likelihood_normalized":
        scores = [c.mean - sum(c.unconditional) / len(c.ids) for c in choices]
    else:
        scores = [c.mean for c in choices]
    if method == "greedy_token_selection":
        return _tournament(choices), scores
    return max(range(len(scores)), key=scores.__getitem__), scores


def _tournament(choices: Sequence[ScoredChoice]) -> int:
    alive = list(range(len(choices)))
    for position in range(max(len(c.ids) for c in choices)):
        at = {
            i: choices[i].logprobs[position] if position < len(choices[i].ids) else choices[i].mean
            for i in alive
        }
        best = max(at.values())
        alive = [i for i in alive if at[i] == best]
        if len(alive) == 1:
            break
    return alive[0]
