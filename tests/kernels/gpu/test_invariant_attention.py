"""Attention that does not depend on the batch: the same bits by every route; against float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.attention.torch_ref import TorchAttention

pytest.importorskip("triton")

from sgc_kernels.gpu.attention import invariant
from sgc_kernels.gpu.attention.invariant import Form, InvariantAttention, InvariantRows
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Form(lines=64, chunk=16, warps=4, stages=2)
pytestmark = pytest.mark.usefixtures("products_in_order")

Token = tuple[int, int]  # sequence, position


@dataclass
class World:
    """Sequences over a pool whose other slots hold NaN, with queries for all of their tokens.

    `forks` are (parent, shared tokens, own tokens); parent -1: none.
    """

    shape: AttentionShape
    forks: Sequence[tuple[int, int, int]]
    window: int | None = None
    form: Form | None = SMALL
    paths: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape, generator = self.shape, torch.Generator().manual_seed(7)
        total = sum(own for _, _, own in self.forks)
        order = torch.randperm(total + 30, generator=generator)
        free = order
        for parent, shared, own in self.forks:
            prefix = self.paths[parent][:shared] if parent >= 0 else order[:0]
            self.paths.append(torch.cat((prefix, free[:own])))
            free = free[own:]
        pool = (total + 30, shape.num_kv_heads, shape.head_dim)
        k, v = (torch.randn(pool, generator=generator) for _ in range(2))
        k[free] = v[free] = torch.nan
        self.k, self.v = k.to(DEVICE, shape.dtype), v.to(DEVICE, shape.dtype)
        self.q = [
            torch.randn((len(path), shape.num_heads, shape.head_dim), generator=generator).to(
                DEVICE, shape.dtype
            )
            for path in self.paths
        ]

    def eager(
        self, chunks: Sequence[tuple[int, int, int]], shared: bool = False
    ) -> list[torch.Tensor]:
        """Results of chunks (sequence, first position, behind the last), computed together."""
        paths = [self.paths[b][:end] for b, _, end in chunks]
        meta = AttentionMeta(
            qo_indptr=_indptr([end - start for _, start, end in chunks]),
            kv_indptr=_indptr([len(path) for path in paths]),
            kv_slots=torch.cat(paths).to(DEVICE),
            shared=_shared(paths) if shared else None,
        )
        q = torch.cat([self.q[b][start:end] for b, start, end in chunks])
        backend = InvariantAttention(self.form)
        out = backend.plan(meta, self.shape).run(q, self.k, self.v, self.window)
        return list(out.split([end - start for _, start, end in chunks]))

    def rows(
        self, tokens: Sequence[Token], sharing: bool = True, room: int = 0, wider: bool = False
    ) -> torch.Tensor:
        """Results of tokens, each a row of a slot table."""
        width = max(len(path) for path in self.paths)
        slots = torch.full((len(tokens), width), 1 << 30, dtype=torch.int32)
        for row, (b, position) in enumerate(tokens):
            slots[row, : position + 1] = self.paths[b][: position + 1]
        starts = np.arange(len(tokens)) * width
        lens = np.array([position + 1 for _, position in tokens], np.int32)
        flat = slots.view(-1).numpy()
        order = depth_first_order(flat, starts, lens)
        lcp = neighbour_lcp(flat, starts[order], lens[order])
        if not sharing:
            lcp[:] = 0
        rows = len(tokens) + 3 * wider
        attention = InvariantRows(self.shape, rows, DEVICE, self.window, self.form)
        plan = attention.plan(lcp, lens[order], room, order)
        attention.load(plan)
        launch = plan.launch.rounded()
        if wider:
            launch = launch.joined(invariant.Launch(rows, 0, 8, 8, launch.tile, launch.tokens))
        q = torch.stack([self.q[b][position] for b, position in tokens])
        return attention.run(
            q,
            self.k,
            self.v,
            slots.view(-1).to(DEVICE),
            torch.from_numpy(starts).to(DEVICE),
            torch.from_numpy(lens).to(DEVICE),
            torch.full_like(q, torch.nan),
            launch,
        )

    def expected(self, b: int) -> torch.Tensor:
        """All tokens of a sequence, float64 on the CPU."""
        path, shape = self.paths[b], self.shape
        exact = AttentionShape(
            shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.scale, torch.float64
        )
        meta = AttentionMeta(_indptr([len(path)]), _indptr([len(path)]), path)
        q, k, v = (x.double().cpu() for x in (self.q[b], self.k, self.v))
        return TorchAttention().plan(meta, exact).run(q, k, v, self.window)


def _indptr(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)


def _shared(paths: Sequence[torch.Tensor]) -> torch.Tensor:
    def common(a: torch.Tensor, b: torch.Tensor) -> int:
        n = min(len(a), len(b))
        differ = (a[:n] != b[:n]).nonzero()
        return int(differ[0]) if len(differ) else n

    shared = (common(a, b) for a, b in itertools.pairwise(paths))
    return torch.tensor([0, *shared], dtype=torch.int32)


def _shape(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> AttentionShape:
    return AttentionShape(heads, kv_heads, dim, dim**-0.5, dtype)


# A prompt of 60 tokens, two branches behind 44 of them, one behind the first of these, a stranger.
FORKS = [(-1, 0, 60), (0, 44, 16), (0, 44, 3), (1, 50, 7), (-1, 0, 27)]
BOUND = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
CASES = [
    (_shape(4, 2, 16, torch.float32), None),
    (_shape(3, 1, 24, torch.float16), None),
    (_shape(2, 1, 16, torch.float32), 21),
]


@pytest.mark.parametrize(("shape", "window"), CASES, ids=str)
def test_every_route_gives_the_same_bits(shape: AttentionShape, window: int | None) -> None:
    world = World(shape, FORKS, window)
    ends = [len(path) for path in world.paths]
    alone = [world.eager([(b, 0, end)])[0] for b, end in enumerate(ends)]
    for b, found in enumerate(alone):
        right = world.expected(b)
        error = (found.double().cpu() - right).norm() / right.norm()
        assert error < BOUND[shape.dtype], f"error {float(error):.2e}"
    # In pieces, beside others, with prefixes that are read together.
    chunks = [(1, 40, 60), (3, 56, 57), (0, 59, 60), (2, 46, 47), (4, 3, 27)]
    for shared in (False, True):
        for (b, start, end), found in zip(chunks, world.eager(chunks, shared), strict=True):
            assert torch.equal(found, alone[b][start:end])
    # As rows: decode, and several tokens of a sequence at once.
    tokens = [(b, end - 1) for b, end in enumerate(ends)] + [(4, p) for p in range(13, 20)]
    right_rows = torch.stack([alone[b][position] for b, position in tokens])
    for sharing, room, wider in ((False, 0, False), (True, 9, True)):
        assert torch.equal(world.rows(tokens, sharing, room, wider), right_rows)


def test_one_row_of_a_long_context_is_computed_in_many_parts() -> None:
    world = World(_shape(1, 1, 16, torch.float32), [(-1, 0, 200)])
    row = world.rows([(0, 199)])
    assert torch.equal(row[0], world.eager([(0, 190, 200)])[0][-1])
    right = world.expected(0)[-1]
    assert (row[0].double().cpu() - right).norm() / right.norm() < 2e-6


def test_a_plan_stays_valid_while_rows_grow() -> None:
    world = World(_shape(2, 1, 16, torch.float32), FORKS)
    attention = InvariantRows(world.shape, 4, DEVICE, form=SMALL)
    lens = np.array([30, 36], np.int32)
    plan = attention.plan([0, 0], lens, room=20)
    attention.load(plan)
    slots = torch.cat((world.paths[0], world.paths[3])).int().to(DEVICE)
    starts = torch.tensor([0, 60], device=DEVICE)
    for growth in (0, 1, 20):
        grown = lens + growth
        assert plan.holds(grown)
        q = torch.stack((world.q[0][grown[0] - 1], world.q[3][grown[1] - 1]))
        out = torch.full_like(q, torch.nan)
        table = torch.from_numpy(grown).to(DEVICE)
        attention.run(q, world.k, world.v, slots, starts, table, out)
        right = world.rows([(0, int(grown[0]) - 1), (3, int(grown[1]) - 1)], sharing=False)
        assert torch.equal(out, right)
    assert not plan.holds(lens + 21)


def test_tokens_of_one_sequence_do_not_grow() -> None:
    attention = InvariantRows(_shape(2, 1, 16, torch.float32), 8, DEVICE, form=SMALL)
    lens = np.array([40, 41, 42, 50], np.int32)
    plan = attention.plan([0, 40, 41, 30], lens, room=16)
    assert plan.holds(lens)
    assert plan.holds(lens + np.array([0, 0, 0, 16], np.int32))
    assert not plan.holds(lens + np.array([0, 0, 1, 0], np.int32))


def test_rows_without_keys_and_sequences_without_queries() -> None:
    world = World(_shape(2, 1, 16, torch.float32), FORKS)
    found = world.eager([(4, 0, 20), (0, 50, 50), (1, 59, 60)])
    assert torch.equal(found[2], world.eager([(1, 55, 60)])[0][-1:])
    attention = InvariantRows(world.shape, 2, DEVICE, form=SMALL)
    attention.load(attention.plan([0, 0], [0, 3], 0))
    q = torch.stack((world.q[0][0], world.q[0][2]))
    slots = world.paths[0].int().to(DEVICE)
    lens = torch.tensor([0, 3], dtype=torch.int32, device=DEVICE)
    starts = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    out = torch.full_like(q, torch.nan)
    attention.run(q, world.k, world.v, slots, starts, lens, out)
    assert not out[0].any()
    assert torch.equal(out[1], world.eager([(0, 0, 3)])[0][2])


def test_few_partial_results_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(_shape(2, 1, 16, torch.float32), FORKS)
    right = world.rows([(0, 59), (3, 56), (1, 59)])
    monkeypatch.setattr(invariant, "_MOST_PARTIALS", 4)
    found = world.eager([(0, 59, 60), (1, 59, 60), (3, 56, 57)], shared=True)
    assert torch.equal(torch.cat((found[0], found[2], found[1])), right)
