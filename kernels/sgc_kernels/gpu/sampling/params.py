"""What the rows of a step ask of the sampler, and the memory that its kernels work in."""

from __future__ import annotations

from dataclasses import dataclass

import torch

CHUNK_TOKENS = 128  # tokens whose largest logit and sum of weights are kept
PART_TOKENS = 4096  # tokens that one program of the first pass reads
KEPT_CHUNKS = 64  # chunks whose tokens one program holds; so many tokens a row's top-k may keep
# without reading the row more than once
PICKED_OUT = 256  # tokens that are sorted


@dataclass(frozen=True, slots=True)
class RowParams:
    """One number a row, on the device; they may change between two replays of a graph.

    Attributes:
        temperature: float32; below 1e-6 the row takes its largest logit.
        top_k: int32; outside of (0, vocab) nothing is cut.
        top_p: float32; from 1 on nothing is cut.
        min_p: float32; 0 cuts nothing.
        seed, step: int64, of which (and of the token ids) all noise of a row is a function. Draws
            after the first one of a token add 2^32 to the step for each.
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    seed: torch.Tensor
    step: torch.Tensor

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> RowParams:
        """Memory for `rows` rows, set to greedy."""

        def numbers(dtype: torch.dtype, value: float) -> torch.Tensor:
            return torch.full((rows,), value, dtype=dtype, device=device)

        return cls(
            numbers(torch.float32, 0.0),
            numbers(torch.int32, -1),
            numbers(torch.float32, 1.0),
            numbers(torch.float32, 0.0),
            numbers(torch.int64, 0),
            numbers(torch.int64, 0),
        )


@dataclass(frozen=True, slots=True)
class TokenMasks:
    """Packed masks: bit t % 32 of word t // 32 is 1 where token t is allowed.

    Attributes:
        words: int32 `[masks, words]`; tokens behind the last bit are disallowed.
        rows: int32 `[rows]`: the mask of each row; negative: everything is allowed.
    """

    words: torch.Tensor
    rows: torch.Tensor


@dataclass(frozen=True, slots=True)
class IdTable:
    """Where tokens are put for the step that comes next; 0 in place of none.

    Attributes:
        ids: int64, one for each place.
        places: int32 `[rows]`: the place of each row; negative: none.
    """

    ids: torch.Tensor
    places: torch.Tensor


@dataclass(frozen=True, slots=True)
class TokenList:
    """Some token ids of each row.

    Attributes:
        ids: int32 or int64 `[rows, n]`.
        counts: int32 `[rows]`: how many of them count.
    """

    ids: torch.Tensor
    counts: torch.Tensor


@dataclass(frozen=True, slots=True)
class Sampled:
    """Of each row.

    Attributes:
        tokens: int64, -1 where the row's largest logit is not a finite number.
        logprobs: float32, the token's log-probability under the logits as they are; None where
            these were not asked for. Without meaning where there is no token.
        shares: float32, the log of the probability of all allowed tokens together; None likewise.
    """

    tokens: torch.Tensor
    logprobs: torch.Tensor | None = None
    shares: torch.Tensor | None = None

    @classmethod
    def empty(cls, rows: int, device: torch.device, logprobs: bool) -> Sampled:
        """Memory for the results of `rows` rows."""
        numbers = [torch.empty(rows, device=device) for _ in range(2 if logprobs else 0)]
        return cls(torch.empty(rows, dtype=torch.int64, device=device), *numbers)


@dataclass(frozen=True, slots=True)
class Adjustments:
    """Tokens whose logits change, each once in a row; tensors on the device.

    Attributes:
        starts: int32 `[rows + 1]`: entries `starts[i]` to `starts[i + 1]` are those of row i.
        ids: int32 `[entries]`.
        seen: int32 `[entries]`, not 0: the token occurs in prompt or sample.
        counts: int32 `[entries]`: how often it was sampled.
        bias: float32 `[entries]`, added at the end; minus infinity for tokens held back.
        repetition, frequency, presence: float32 `[rows]`; 1, 0 and 0 change nothing.
        before: float32 `[entries]`, written: the logits as they were.
    """

    starts: torch.Tensor
    ids: torch.Tensor
    seen: torch.Tensor
    counts: torch.Tensor
    bias: torch.Tensor
    repetition: torch.Tensor
    frequency: torch.Tensor
    presence: torch.Tensor
    before: torch.Tensor


def num_parts(vocab: int) -> int:
    """Parts that a row is read in."""
    return -(-vocab // PART_TOKENS)


class Workspace:
    """Memory between the programs of a call; one call at a time may use it.

    Attributes:
        chunk_max, chunk_sum: float32 `[rows, chunks]`.
        raw, allowed: float32 `[rows, 2, parts]`: largest logit, and sum of exponentials below it.
        best: float32 `[rows, parts]`, and `best_at` int32.
        done: int32 `[rows]`, 0 between calls.
        kept: int32 `[rows, KEPT_CHUNKS + 2 * PICKED_OUT]`: chunks, then order keys and tokens.
    """

    def __init__(self, rows: int, vocab: int, device: torch.device) -> None:
        self.parts = num_parts(vocab)
        chunks = self.parts * PART_TOKENS // CHUNK_TOKENS
        self.chunk_max = torch.empty(rows, chunks, device=device)
        self.chunk_sum = torch.empty(rows, chunks, device=device)
        self.raw = torch.empty(rows, 2, self.parts, device=device)
        self.allowed = torch.empty(rows, 2, self.parts, device=device)
        self.best = torch.empty(rows, self.parts, device=device)
        self.best_at = torch.empty(rows, self.parts, dtype=torch.int32, device=device)
        self.done = torch.zeros(rows, dtype=torch.int32, device=device)
        self.kept = torch.empty(
            rows, KEPT_CHUNKS + 2 * PICKED_OUT, dtype=torch.int32, device=device
        )

    def check(self, logits: torch.Tensor) -> None:
        assert logits.ndim == 2, "logits are [rows, vocab]"
        assert logits.stride(1) == 1, "a row of logits lies in one piece"
        assert len(logits) <= len(self.done), "more rows than there is memory for"
        assert num_parts(logits.shape[1]) == self.parts, "another vocabulary"
