"""A mixture of experts in plain torch: a router gives each token to a few gated networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.linear import by_fixed_rows


@dataclass(frozen=True, slots=True)
class Experts:
    """Weights of a layer's experts, one number format and device.

    Attributes:
        router: `[experts, hidden]`.
        gate_up: `[experts, 2 * width, hidden]`, the gates' rows first.
        down: `[experts, hidden, width]`.
        top_k: experts a token, at most as many as there are.
        renormalise: the weights of a token's experts add up to 1, not those of all experts.
    """

    router: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    top_k: int
    renormalise: bool


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # x, weight


def route(
    x: torch.Tensor, experts: Experts, product: Product = torch.nn.functional.linear
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which experts compute a token, likeliest first, and their weights.

    Args:
        x: `[T, hidden]`.

    Returns:
        Experts `[T, top_k]` int64 and weights `[T, top_k]` float32: shares of a softmax. Scores are
        float32: rounded to fewer bits, likely experts tie.
    """
    shares = product(x.float(), experts.router.float()).softmax(-1)
    weights, chosen = shares.topk(experts.top_k, dim=-1)
    return chosen, weights / weights.sum(-1, keepdim=True) if experts.renormalise else weights


def invariant_moe(x: torch.Tensor, experts: Experts) -> torch.Tensor:
    """As `moe`; a row's result does not depend on the others, bit by bit."""

    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return by_fixed_rows(lambda rows: torch.nn.functional.linear(rows, weight), x)

    return moe(x, experts, product)


def moe(
    x: torch.Tensor, experts: Experts, product: Product = torch.nn.functional.linear
) -> torch.Tensor:
    """The weighted sum of what each token's experts give.

    A token's sum is float32, in the order of the experts' numbers.

    Args:
        x: `[T, hidden]`.
    """
    chosen, weights = route(x, experts, product)
    pairs = chosen.flatten().sort(stable=True)
    counts = torch.bincount(pairs.values, minlength=experts.router.shape[0]).tolist()
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    shares = weights.flatten()
    for number, places in enumerate(pairs.indices.split_with_sizes(counts)):
        if not len(places):
            continue
        tokens = places // experts.top_k
        inner = silu_mul(product(x[tokens], experts.gate_up[number]))
        outer = product(inner, experts.down[number])
        # A token has an expert once, so no place is written twice.
        out.index_add_(0, tokens, outer * shares[places, None])
    return out.to(x.dtype)
