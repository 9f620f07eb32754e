"""Seeds of sampling: a pure function of run seed, row, node path and sample."""

from __future__ import annotations

from hashlib import blake2b

from sgc_ir.params import SamplingParams

_SEPARATOR = "\x1f"


def _digest(text: str) -> int:
    first = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(first, "big") >> 1


def node_seed(run_seed: int, row: int, path: str, sample: int) -> int:
    """63-bit seed of one sample of the node at dynamic path `path`.

    Args:
        run_seed: the run's `--seed`.
        row: input row index, 0 for a single run.
        path: for example `f0[2]/g1`.
        sample: zero-based index among the node's n samples.
    """
    return _digest(f"{run_seed}{_SEPARATOR}{row}{_SEPARATOR}{path}{_SEPARATOR}{sample}")


def fixed_seed(seed: int, sample: int) -> int:
    """63-bit seed of a sample of `gen(seed=seed)`; the same wherever the gen stands."""
    return _digest(f"{seed}{_SEPARATOR}{sample}")


def call_seeds(params: SamplingParams, run_seed: int, row: int, path: str) -> tuple[int, ...]:
    """One seed for each of the call's `n` samples."""
    if params.seed is not None:
        return tuple([fixed_seed(params.seed, i) for i in range(params.n)])
    if params.n == 1:
        return (node_seed(run_seed, row, path, 0),)
    return tuple([node_seed(run_seed, row, path, i) for i in range(params.n)])
