"""A layer's mixture of experts on a GPU: no wait for the device, any number of tokens, and inside a
CUDA graph as well."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sgc_kernels.gpu.device import has_pdl
from sgc_kernels.gpu.moe.few import few_tokens, fits
from sgc_kernels.gpu.moe.grouped import Tile, combine, gated_product, product
from sgc_kernels.gpu.moe.route import route
from sgc_kernels.moe import Experts


@dataclass(frozen=True, slots=True)
class Form:
    """Rows of a block, and the tiles of both products."""

    block: int
    gate_up: Tile
    down: Tile


_FEW_TOKENS = 1  # up to so many each pair reads its expert by itself
# For 16-bit numbers by mean rows of an expert that has any (H200).
_FORMS = (
    (16, Form(16, Tile(64, 128, 4, 4, swap=True), Tile(64, 256, 4, 4, swap=True))),
    (48, Form(64, Tile(64, 64, 4, 4), Tile(128, 64, 4, 4))),
    (None, Form(128, Tile(128, 64, 8, 3), Tile(256, 64, 8, 3))),
)
# Hopper's products come out bit by bit the same by all of these tiles (tested); elsewhere one is
# taken for any number of rows.
_ELSEWHERE = Form(64, Tile(64, 64, 4, 4), Tile(128, 64, 4, 4))
_FLOAT32 = Form(16, Tile(32, 32, 4, 2), Tile(32, 32, 4, 2))


def moe(x: torch.Tensor, experts: Experts) -> torch.Tensor:
    """As `sgc_kernels.moe.moe`; a row's result may depend by rounding on how many there are."""
    return _run(x, experts, False)


def invariant_moe(x: torch.Tensor, experts: Experts) -> torch.Tensor:
    """As `moe`, bit by bit the same for a row whatever rows are beside it."""
    return _run(x, experts, True)


def choose_form(tokens: int, experts: Experts) -> Form:
    """What was fastest for so many tokens."""
    if experts.router.dtype == torch.float32:
        return _FLOAT32
    pairs = tokens * experts.top_k
    mean = pairs / min(pairs, experts.router.shape[0])
    return next(form for most, form in _FORMS if most is None or mean <= most)


def run_form(
    x: torch.Tensor, experts: Experts, form: Form, pdl: bool, invariant: bool = False
) -> torch.Tensor:
    """With tiles that are given."""
    routes = route(x, experts, form.block, True, pdl, invariant)
    inner = gated_product(x, experts.gate_up, routes, form.gate_up, pdl)
    outer = product(inner, experts.down, routes, form.down, pdl)
    return combine(outer, routes.weights, pdl)


def _run(x: torch.Tensor, experts: Experts, invariant: bool) -> torch.Tensor:
    assert x.shape[0] > 0, "there are tokens"
    if x.stride(1) != 1:
        x = x.contiguous()
    pdl = has_pdl(x.device)
    if not invariant and x.shape[0] <= _FEW_TOKENS and fits(experts):
        return few_tokens(x, experts, route(x, experts, 1, False, pdl), pdl)
    if invariant and not pdl and experts.router.dtype != torch.float32:
        return run_form(x, experts, _ELSEWHERE, pdl, invariant)
    return run_form(x, experts, choose_form(x.shape[0], experts), pdl, invariant)
