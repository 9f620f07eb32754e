"""Triton's mixture of experts against dense formulas in float64: in the interpreter where there is
no GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels import moe as reference
from sgc_kernels.gpu.device import has_pdl
from sgc_kernels.gpu.moe import few, grouped, route, run
from sgc_kernels.moe import Experts

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}
SMALL = run.Form(16, grouped.Tile(16, 16, 4, 1), grouped.Tile(32, 16, 4, 1))
SWAPPED = run.Form(16, grouped.Tile(32, 32, 4, 1, swap=True), grouped.Tile(16, 16, 4, 1, swap=True))


def some_experts(
    count: int, top_k: int, hidden: int, width: int, dtype: torch.dtype, renormalise: bool = True
) -> Experts:
    shapes = [(count, hidden), (count, 2 * width, hidden), (count, hidden, width)]
    generator = torch.Generator().manual_seed(count + hidden)
    tensors = [
        (torch.randn(shape, generator=generator) * shape[-1] ** -0.5).to(DEVICE, dtype)
        for shape in shapes
    ]
    return Experts(*tensors, top_k, renormalise)


def some_tokens(tokens: int, hidden: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    numbers = torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(seed))
    return (3 * numbers).to(DEVICE, dtype)


def exact(x: torch.Tensor, experts: Experts, chosen: torch.Tensor) -> torch.Tensor:
    """In float64, for a choice that is given: likely experts may tie within rounding."""
    x = x.double()
    shares = (x @ experts.router.double().T).softmax(-1).gather(1, chosen.long())
    if experts.renormalise:
        shares = shares / shares.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    for expert in range(experts.router.shape[0]):
        token, place = (chosen == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ experts.gate_up[expert].double().T).chunk(2, dim=-1)
        outer = (torch.nn.functional.silu(gate) * up) @ experts.down[expert].double().T
        out.index_add_(0, token, outer * shares[token, place, None])
    return out


def check(out: torch.Tensor, expected: torch.Tensor) -> None:
    assert bool(torch.isfinite(out).all())
    tolerance = TOLERANCE[out.dtype] * float(expected.abs().max())
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=0)


def check_routes(routes: route.Routes, tokens: int, experts: Experts) -> None:
    """The order holds each pair once, by expert and then by token; blocks cover it."""
    assert routes.order is not None
    assert routes.table is not None
    chosen = routes.experts.flatten().tolist()
    pairs = sorted(range(len(chosen)), key=lambda pair: (chosen[pair], pair))
    assert routes.order.tolist() == pairs
    covered = []
    for expert, first, end in routes.table.T.tolist():
        if expert >= 0:
            places = range(first, min(first + routes.block, end))
            assert places, "a block has rows"
            assert {chosen[pairs[place]] for place in places} == {expert}
            covered += places
    assert covered == list(range(len(pairs)))


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize(
    ("tokens", "count", "top_k"), [(1, 4, 1), (33, 6, 3), (64, 5, 5), (70, 7, 2)]
)
def test_routes(tokens: int, count: int, top_k: int, renormalise: bool) -> None:
    experts = some_experts(count, top_k, 40, 8, torch.float32, renormalise)
    x = some_tokens(tokens, 40, torch.float32)
    routes = route.route(x, experts, 16, True, False)
    chosen, weights = reference.route(x, experts)
    assert torch.equal(routes.experts.long(), chosen)
    torch.testing.assert_close(routes.weights, weights, atol=1e-6, rtol=1e-5)
    check_routes(routes, tokens, experts)


def test_many_experts_and_uneven_choices() -> None:
    """More programs than one chunk of counts; one expert takes nearly all."""
    experts = some_experts(130, 4, 16, 8, torch.float32)
    experts.router[7] = 0.0
    experts.router[7, 0] = 4.0
    x = some_tokens(300, 16, torch.float32)
    x[:, 0] = x[:, 0].abs() + 0.1
    routes = route.route(x, experts, 16, True, False)
    assert torch.equal(
        routes.experts.long().sort().values, reference.route(x, experts)[0].sort().values
    )
    check_routes(routes, 300, experts)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, in the interpreter
@pytest.mark.parametrize("tokens", [3, 66])
def test_rows_that_are_no_numbers_stay_alone(tokens: int) -> None:
    experts = some_experts(6, 3, 32, 24, torch.float32)
    x = some_tokens(tokens, 32, torch.float32)
    x[1], x[2, 0] = torch.nan, torch.inf
    check_routes(route.route(x, experts, 16, True, False), tokens, experts)
    out = run.run_form(x, experts, SMALL, False)
    others = [0, *range(3, tokens)]
    assert bool(out[1].isnan().all())
    clean = some_tokens(tokens, 32, torch.float32)
    torch.testing.assert_close(out[others], run.run_form(clean, experts, SMALL, False)[others])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", [SMALL, SWAPPED], ids=["rows", "swapped"])
@pytest.mark.parametrize(
    ("tokens", "count", "top_k", "hidden", "width"),
    [(1, 4, 2, 32, 48), (7, 8, 2, 48, 40), (40, 3, 1, 40, 24), (50, 4, 2, 64, 24)],
)
def test_grouped(
    tokens: int, count: int, top_k: int, hidden: int, width: int, form: run.Form, dtype: torch.dtype
) -> None:
    experts = some_experts(count, top_k, hidden, width, dtype)
    x = some_tokens(tokens, hidden, dtype)
    out = run.run_form(x, experts, form, False)
    assert out.dtype == dtype
    check(out, exact(x, experts, route.route(x, experts, 16, True, False).experts))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "hidden", "width"), [(1, 64, 24), (3, 40, 9), (4, 33, 17)])
def test_few_tokens(tokens: int, hidden: int, width: int, dtype: torch.dtype) -> None:
    experts = some_experts(5, 2, hidden, width, dtype, renormalise=False)
    x = some_tokens(tokens, hidden, dtype)
    routes = route.route(x, experts, 1, False, False)
    check(few.few_tokens(x, experts, routes, False), exact(x, experts, routes.experts))


@pytest.mark.parametrize("tokens", [1, 4, 5, 70])
def test_as_the_reference(tokens: int) -> None:
    experts = some_experts(6, 2, 32, 48, torch.float32)
    x = some_tokens(tokens, 64, torch.float32)[:, 16:48]  # rows of a wider tensor
    expected = reference.moe(x, experts)
    for result in (run.moe(x, experts), run.invariant_moe(x, experts)):
        torch.testing.assert_close(result, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("renormalise", [True, False])
def test_invariant_rows(renormalise: bool) -> None:
    """Bit by bit the same alone, in any company and order."""
    experts = some_experts(6, 2, 48, 40, torch.float16, renormalise)
    x = some_tokens(20, 48, torch.float16)
    whole = run.invariant_moe(x, experts)
    assert torch.equal(run.invariant_moe(x[7:8], experts)[0], whole[7])
    assert torch.equal(run.invariant_moe(x[3:15], experts), whole[3:15])
    assert torch.equal(run.invariant_moe(x.flip(0), experts).flip(0), whole)


def test_worst_case_of_blocks() -> None:
    for pairs, count, rows in [(1, 8, 16), (8, 8, 16), (64, 8, 16), (1000, 128, 64), (17, 1, 16)]:
        used = min(pairs, count)
        # All experts but one have a row in their last block; the rest goes to one.
        worst = max(
            sum(-(-n // rows) for n in [1] * (k - 1) + [pairs - k + 1]) for k in range(1, used + 1)
        )
        assert worst <= route.most_blocks(pairs, count, rows) <= worst + used


@pytest.fixture
def poison() -> Iterator[None]:
    """New memory holds NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


# Few shapes: kernels are compiled for each. Experts, top_k, hidden, width, renormalise.
EVEN = (32, 4, 1024, 768, True)
ODD = (60, 7, 200, 104, False)


def experts_on_gpu(shape: tuple[int, int, int, int, bool], dtype: torch.dtype) -> Experts:
    return some_experts(*shape[:4], dtype, shape[4])


@pytest.mark.gpu
@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("shape", [EVEN, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("tokens", [1, 2, 4, 9, 64, 65, 300, 900])
def test_poisoned_outputs_in_bfloat16(tokens: int, shape: tuple[int, int, int, int, bool]) -> None:
    experts = experts_on_gpu(shape, torch.bfloat16)
    x = some_tokens(tokens, shape[2], torch.bfloat16, tokens)
    routes = route.route(x, experts, 16, True, has_pdl(x.device))
    check_routes(routes, tokens, experts)
    expected = exact(x, experts, routes.experts)
    for out in (run.moe(x, experts), run.invariant_moe(x, experts)):
        assert float((out.double() - expected).norm() / expected.norm()) < 1e-2


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [(EVEN, torch.bfloat16), (ODD, torch.bfloat16), (EVEN, torch.float32)],
    ids=["even", "odd", "float32"],
)
def test_rows_alone_and_in_any_company(
    shape: tuple[int, int, int, int, bool], dtype: torch.dtype
) -> None:
    experts = experts_on_gpu(shape, dtype)
    x = some_tokens(900, shape[2], dtype)
    whole = run.invariant_moe(x, experts)
    for first, end in ((0, 1), (3, 7), (10, 74), (100, 350), (100, 450), (1, 900)):
        assert torch.equal(run.invariant_moe(x[first:end], experts), whole[first:end])


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 4, 48, 300])
def test_one_graph_for_any_choice(tokens: int) -> None:
    """Captured once, without waiting for the device; other tokens choose other experts."""
    experts = experts_on_gpu(EVEN, torch.bfloat16)
    x = some_tokens(tokens, 1024, torch.bfloat16)
    run.moe(x, experts)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run.moe(x, experts)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run.moe(x, experts)
    for seed in range(1, 6):
        x.copy_(some_tokens(tokens, 1024, torch.bfloat16, seed))
        if seed == 5:
            x[1:] = x[:1]  # all choose the same experts
        graph.replay()
        assert torch.equal(out, run.moe(x, experts))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 4, 48, 300])
def test_early_launches_keep_their_order(tokens: int) -> None:
    experts = experts_on_gpu(EVEN, torch.bfloat16)
    x = some_tokens(tokens, 1024, torch.bfloat16)

    def chain(pdl: bool) -> torch.Tensor:
        hidden = x
        for _ in range(10):
            if tokens <= 4:
                routes = route.route(hidden, experts, 1, False, pdl)
                made = few.few_tokens(hidden, experts, routes, pdl)
            else:
                made = run.run_form(hidden, experts, run.choose_form(tokens, experts), pdl)
            hidden = torch.nn.functional.rms_norm(hidden + made, (1024,))
        return hidden

    expected = chain(False)
    assert bool(torch.isfinite(expected).all())
    for _ in range(20):
        assert torch.equal(chain(True), expected)
