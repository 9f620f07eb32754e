"""What the sampler knows of one sample: its parameters, and the tokens so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sgc_ir.params import SamplingParams
from sgc_runtime.sampling.healing import Healing
from sgc_runtime.sampling.token_counts import Ints, TokenCounts

if TYPE_CHECKING:
    from sgc_runtime.sampling.constraint import TokenRule


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one position: the log-probability of its token, the likeliest (id, logprob) pairs, best
    first, and whether a constraint forced the token."""

    logprob: float
    top: tuple[tuple[int, float], ...]
    forced: bool = False


class SamplingRow:
    """State of one sample; it outlives retraction, so a retracted sample goes on unchanged.

    Attributes:
        step: number of tokens so far; with `seed` it decides the next random number.
        held_back: ids that may not be sampled before `params.min_tokens` tokens (EOS, stop ids).
        counts: occurrences of each sampled id; kept only when a penalty asks for it.
        seen: those of prompt and sample; kept only for the repetition penalty.
        bias_ids, bias: ids, and what is added to the logit of each.
        healing: text of the prompt that the first tokens must spell, or None.
        max_new: tokens that may be sampled, `params.max_tokens` and those that heal.
        num_healed: tokens so far that hold nothing but such text; they count as prompt.
        rule: the constraint, or None.
        end_ids: ids that may end a text that the constraint calls complete.
        mask: packed bits of the ids that the constraint allows next, as `prepare` found it.
        allowed_mass: sum of the log-probabilities of all allowed ids together, over ids sampled.
        num_masked: how many ids were sampled under a mask.
    """

    __slots__ = (
        "_counts",
        "allowed_mass",
        "bias",
        "bias_ids",
        "counts",
        "end_ids",
        "healing",
        "held_back",
        "mask",
        "max_new",
        "num_healed",
        "num_masked",
        "params",
        "rule",
        "seed",
        "seen",
        "step",
    )

    def __init__(
        self,
        params: SamplingParams,
        seed: int,
        prompt: Sequence[int] | npt.NDArray[np.int32] = (),
        held_back: Collection[int] = (),
        healing: Healing | None = None,
        rule: TokenRule | None = None,
        end_ids: Collection[int] = (),
    ) -> None:
        self.params = params
        self.seed = seed
        self.step = 0
        self.held_back = tuple(held_back) if params.min_tokens > 0 else ()
        self.counts = TokenCounts()
        self.seen = TokenCounts(prompt if params.repetition_penalty != 1.0 else ())
        bias = params.logit_bias or {}
        self.bias_ids = np.array([int(token) for token in bias], np.int64)
        self.bias = np.array(list(bias.values()), np.float64)
        self.healing = healing
        self.max_new = params.max_tokens + (healing.num_ids if healing is not None else 0)
        self.num_healed = 0
        self.rule, self.end_ids = rule, frozenset(end_ids)
        self.mask: npt.NDArray[np.int32] | None = None
        self.allowed_mass = 0.0
        self.num_masked = 0
        p = params
        penalties = p.frequency_penalty, p.presence_penalty, p.repetition_penalty
        self._counts = penalties != (0.0, 0.0, 1.0)

    @property
    def wants_logprobs(self) -> bool:
        return self.params.logprobs or self.params.top_logprobs > 0

    @property
    def plain(self) -> bool:
        """Whether the logits are used as they are (apart from temperature and filters)."""
        p = self.params
        changed = p.logit_bias or self.held_back_now or p.repetition_penalty != 1.0 or self.heals
        return not changed and p.frequency_penalty == 0.0 == p.presence_penalty

    @property
    def heals(self) -> bool:
        """Whether the next token must go on with the prompt's own text."""
        return self.healing is not None and self.healing.active

    @property
    def allowed_now(self) -> Ints | None:
        """The ids that may come next, or None for all."""
        return self.healing.allowed() if self.healing is not None and self.heals else None

    @property
    def held_back_now(self) -> Collection[int]:
        return self.held_back if self.step - self.num_healed < self.params.min_tokens else ()

    def prepare(self, words: npt.NDArray[np.int32] | None = None) -> bool:
        """Find the mask of the next token; False where there is none that may follow.

        Args:
            words: what `rule.mask` gives, where it is known.

        Raises:
            ConstraintError: the constraint passes one of its limits.
        """
        assert self.rule is not None
        if words is None:
            words = self.rule.mask()
        ends = self.end_ids - frozenset(self.held_back_now) if self.rule.end_allowed else ()
        if words is self.mask and not ends:  # the one before
            return True
        if ends:
            words = words.copy()
            for token in ends:
                if token < 32 * len(words):
                    words[token >> 5] |= np.uint32(1 << (token & 31)).view(np.int32)
        self.mask = words if np.count_nonzero(words) else None
        return self.mask is not None

    def weigh(self, share: float) -> None:
        """Count one sampling, in which the allowed ids together had the log-probability `share`."""
        self.allowed_mass += share
        self.num_masked += 1

    def take_back(self, tokens: Sequence[int]) -> None:
        """Undo `advance` for the last tokens, which do not heal."""
        self.step -= len(tokens)
        for token in tokens:
            self._count(token, -1)

    def advance_all(self, tokens: Sequence[int]) -> None:
        """`advance` by each."""
        if self._counts or self.healing is not None:
            for token in tokens:
                self.advance(token)
        else:
            self.step += len(tokens)

    def advance(self, token: int) -> None:
        """Count one more token."""
        self.step += 1
        if self.healing is not None and self.heals and not self.healing.take(token):
            self.num_healed += 1
        elif self._counts:
            self._count(token, 1)

    def _count(self, token: int, times: int) -> None:
        p = self.params
        if p.frequency_penalty != 0.0 or p.presence_penalty != 0.0:
            self.counts.add(token, times)
        if p.repetition_penalty != 1.0:
            self.seen.add(token, times)
