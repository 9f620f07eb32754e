"""Decode attention with shared prefixes against float64, over trees of slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from kernels.gpu.decode_cases import Step, Tree

from sgc_kernels.attention.spec import AttentionShape

pytest.importorskip("triton")

from sgc_kernels.gpu.attention.decode import DecodeAttention
from sgc_kernels.gpu.attention.items import Launch
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Tree(((6, 40), (2, 20)), (1, 5, 30, 2, 18, 9))
LEVELS = Tree(((12, 40), (3, 33)), (5, 17, 1, 90, 2, 30, 8, 8, 21, 3, 1, 64))


def _shape(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> AttentionShape:
    return AttentionShape(heads, kv_heads, dim, dim**-0.5, dtype)


def _attend(
    step: Step, attention: DecodeAttention, room: int = 0, launch: Launch | None = None
) -> torch.Tensor:
    starts, lens = step.starts.cpu().numpy(), step.lens.cpu().numpy()
    slots = step.slots.cpu().numpy()
    order = depth_first_order(slots, starts, lens)
    lcp = neighbour_lcp(slots, starts[order], lens[order])
    attention.load(attention.plan(lcp, lens[order], room, order))
    return _run(step, attention, launch)


def _run(step: Step, attention: DecodeAttention, launch: Launch | None = None) -> torch.Tensor:
    out = torch.full_like(step.q, float("nan"))
    return attention.run(step.q, step.k, step.v, step.slots, step.starts, step.lens, out, launch)


def _close(found: torch.Tensor, expected: torch.Tensor) -> None:
    bound = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}[found.dtype]
    error = (found.double() - expected).norm() / expected.norm()
    assert error < bound, f"error {error:.2e}"


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "dtype"),
    [
        (8, 2, 64, torch.float16),
        (9, 3, 64, torch.float32),
        (4, 4, 16, torch.float32),
        (16, 1, 16, torch.float32),
        (5, 1, 96, torch.float16),
    ],
)
def test_equals_float64(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    shape = _shape(heads, kv_heads, dim, dtype)
    step = Step(LEVELS, shape, device=DEVICE)
    _close(_attend(step, DecodeAttention(shape, 16, DEVICE)), step.expected())


@pytest.mark.parametrize("window", [1, 20, 70])
def test_window(window: int) -> None:
    shape = _shape(4, 2, 32, torch.float32)
    step = Step(LEVELS, shape, device=DEVICE)
    # Tokens that no window reaches are gone.
    seen = torch.zeros(len(step.k), dtype=torch.bool, device=DEVICE)
    for start, n in zip(step.starts.tolist(), step.lens.tolist()):
        seen[step.slots[start + max(0, n - window) : start + n].long()] = True
    step.k[~seen] = float("nan")
    step.v[~seen] = float("nan")
    attention = DecodeAttention(shape, 16, DEVICE, window=window)
    _close(_attend(step, attention), step.expected(window))


def test_a_plan_stays_valid_while_rows_grow() -> None:
    shape = _shape(2, 1, 32, torch.float32)
    step = Step(SMALL, shape, device=DEVICE, growth=20)
    full_k, full_v = step.k.clone(), step.v.clone()
    attention = DecodeAttention(shape, 16, DEVICE)
    for growth in (0, 1, 19):
        step.k, step.v = full_k.clone(), full_v.clone()
        step.lens += growth
        step.hide_behind()
        found = _attend(step, attention, 20) if growth == 0 else _run(step, attention)
        _close(found, step.expected())


def test_rows_in_any_order() -> None:
    shape = _shape(3, 1, 32, torch.float32)
    step = Step(LEVELS, shape, device=DEVICE, shuffle=True)
    _close(_attend(step, DecodeAttention(shape, 16, DEVICE)), step.expected())


def test_a_row_without_tokens_gives_zero() -> None:
    shape = _shape(4, 2, 32, torch.float32)
    step = Step(Tree((), (0, 3, 20)), shape, device=DEVICE)
    found = _attend(step, DecodeAttention(shape, 4, DEVICE))
    assert not found[0].any()
    _close(found, step.expected())


@pytest.mark.parametrize("heads", [1, 3])
def test_many_pieces(heads: int) -> None:
    """Long spans of few rows are split; partial results of a row are many."""
    shape = _shape(heads, 1, 16, torch.float32)
    step = Step(Tree(((6, 900),), (400, 3, 3, 3, 3, 3)), shape, device=DEVICE)
    attention = DecodeAttention(shape, 8, DEVICE)
    found = _attend(step, attention)
    assert attention.launch is not None
    assert attention.launch.wide + attention.launch.few + attention.launch.own > 12
    _close(found, step.expected())


def test_larger_grids_than_the_plan_needs() -> None:
    shape = _shape(4, 2, 16, torch.float32)
    step = Step(Tree(((6, 40),), (4, 3, 3, 3, 3, 3)), shape, device=DEVICE)
    attention = DecodeAttention(shape, 16, DEVICE)
    _attend(Step(SMALL, shape, device=DEVICE), attention)  # leaves items that must not stay
    launch = Launch(rows=16, wide=3, few=2, own=20, tile=128, tokens=16)
    _close(_attend(step, attention, launch=launch), step.expected())


@pytest.mark.parametrize("form", ["general", "fitting"])
def test_grids_for_a_recording(form: str) -> None:
    shape = _shape(4, 2, 16, torch.float32)
    step = Step(SMALL, shape, device=DEVICE)
    attention = DecodeAttention(shape, 16, DEVICE)
    _attend(step, attention)
    assert attention.launch is not None
    grids = attention.grids(replace(attention.launch, rows=8))
    _close(_run(step, attention, getattr(grids, form)), step.expected())


def test_queries_inside_a_wider_product() -> None:
    shape = _shape(4, 2, 16, torch.float32)
    step = Step(SMALL, shape, device=DEVICE)
    wider = torch.full((len(step.q), 8, 16), float("nan"), device=DEVICE)
    wider[:, :4] = step.q
    step.q = wider[:, :4]
    _close(_attend(step, DecodeAttention(shape, 16, DEVICE)), step.expected())


def _random_tree(random: np.random.Generator, longest: int) -> Tree:
    rows = int(random.integers(1, 70))
    levels = [
        (int(random.integers(1, rows + 1)), int(random.integers(0, longest)))
        for _ in range(int(random.integers(0, 4)))
    ]
    # A level's nodes must lie inside those above.
    sizes: list[int] = []
    for some, _ in levels:
        sizes.append(some if not sizes else max(1, sizes[-1] // max(1, sizes[-1] // some)))
        sizes[-1] = sizes[-1] if not sizes[:-1] or sizes[-2] % sizes[-1] == 0 else 1
    own = random.integers(1, longest, rows)
    nodes = tuple((size, n) for size, (_, n) in zip(sizes, levels, strict=True))
    return Tree(nodes, tuple(own.tolist()))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dim", "group", "dtype"),
    [
        *((dim, 4, torch.bfloat16) for dim in (64, 96, 128, 256)),
        *((128, group, torch.bfloat16) for group in (1, 2, 7, 8, 16)),
        *((64, group, torch.float32) for group in (1, 3, 8)),
        (128, 4, torch.float16),
        (128, 4, torch.float32),
    ],
)
def test_random_trees(dim: int, group: int, dtype: torch.dtype) -> None:
    random = np.random.default_rng(dim * 100 + group)
    shape = _shape(2 * group, 2, dim, dtype)
    plain = DecodeAttention(shape, 80, DEVICE)
    windowed = DecodeAttention(shape, 80, DEVICE, window=100)
    for seed in range(3):
        tree = _random_tree(random, 300)
        step = Step(tree, shape, seed, DEVICE, growth=8, shuffle=bool(seed % 2))
        _close(_attend(step, plain, room=8), step.expected())
        _close(_attend(step, windowed, room=8), step.expected(100))
        step.lens += 8
        _close(_run(step, plain), step.expected())


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["general", "fitting"])
@pytest.mark.parametrize("levels", [((48, 300), (12, 40)), ((48, 100), (16, 60), (4, 50), (2, 40))])
def test_one_graph_serves_many_plans(form: str, levels: tuple[tuple[int, int], ...]) -> None:
    shape = _shape(32, 8, 128, torch.bfloat16)
    attention = DecodeAttention(shape, 64, DEVICE)
    tree = Tree(levels, tuple(range(1, 49)))
    steps = [Step(tree, shape, seed=seed, device=DEVICE) for seed in range(2)]
    static = Step(tree, shape, device=DEVICE)
    _attend(static, attention)
    assert attention.launch is not None
    launch: Launch = getattr(attention.grids(replace(attention.launch, rows=64)), form)
    _run(static, attention, launch)
    out = torch.empty_like(static.q)
    graph = torch.cuda.CUDAGraph()
    arrays = (static.q, static.k, static.v, static.slots, static.starts, static.lens)
    with torch.cuda.graph(graph):
        attention.run(*arrays, out, launch)
    for step in steps:
        _attend(step, attention)
        for name in ("q", "k", "v", "slots", "starts", "lens"):
            getattr(static, name).copy_(getattr(step, name))
        out.fill_(float("nan"))
        graph.replay()
        _close(out, step.expected())
