"""What the sampler knows of one sample: its parameters, and the tokens so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sgc_ir.params import SamplingParams


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one position: the sampled token's log-probability, and the likeliest (id, logprob)
    pairs, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...]


class SamplingRow:
    """State of one sample; it outlives retraction, so a retracted sample goes on unchanged.

    Attributes:
        step: number of tokens sampled so far; with `seed` it decides the next random number.
        held_back: ids that may not be sampled before `params.min_tokens` tokens (EOS, stop ids).
        counts: occurrences of each sampled id; kept only when a penalty asks for it.
        seen: ids of prompt and sample (for the repetition penalty), as keys.
        bias: id -> what is added to its logit.
    """

    __slots__ = ("bias", "counts", "held_back", "params", "seed", "seen", "step")

    def __init__(
        self,
        params: SamplingParams,
        seed: int,
        prompt: Iterable[int] = (),
        held_back: Collection[int] = (),
    ) -> None:
        self.params = params
        self.seed = seed
        self.step = 0
        self.held_back = tuple(held_back) if params.min_tokens > 0 else ()
        self.counts: dict[int, int] = {}
        repeats = params.repetition_penalty != 1.0
        self.seen: dict[int, None] = dict.fromkeys(map(int, prompt)) if repeats else {}
        self.bias = {int(k): v for k, v in (params.logit_bias or {}).items()}

    @property
    def plain(self) -> bool:
        """Whether the logits are used as they are (apart from temperature and filters)."""
        p = self.params
        return not (self.bias or self.held_back_now or p.repetition_penalty != 1.0) and (
            p.frequency_penalty == 0.0 == p.presence_penalty
        )

    @property
    def held_back_now(self) -> Collection[int]:
        return self.held_back if self.step < self.params.min_tokens else ()

    def advance(self, token: int) -> None:
        """Count a sampled token."""
        self.step += 1
        p = self.params
        if p.frequency_penalty != 0.0 or p.presence_penalty != 0.0:
            self.counts[token] = self.counts.get(token, 0) + 1
        if p.repetition_penalty != 1.0:
            self.seen[token] = None
