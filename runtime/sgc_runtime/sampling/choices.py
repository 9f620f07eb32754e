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


def same_prefix_same_logprob(choices: Sequence[ScoredChoice]) -> list[ScoredChoice]:
    """The choices with the first choice's figure wherever two share all tokens up to a position.

    Such figures are equal but for rounding, which must not decide anything.
    """
    known: dict[tuple[int, ...], float] = {}
    out = []
    for c in choices:
        prefixes = [c.ids[: i + 1] for i in range(len(c.ids))]
        logprobs = tuple(known.setdefault(p, x) for p, x in zip(prefixes, c.logprobs, strict=True))
        out.append(ScoredChoice(c.ids, logprobs, c.unconditional))
    return out


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
