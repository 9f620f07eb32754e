"""A decode step that is cut out of the last one equals one that is cut from its slots."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention_cases import Sequence, Step, TreeStep

from sgc_kernels.attention.compiled import CompiledAttention
from sgc_kernels.attention.spec import AttentionMeta
from sgc_kernels.attention.torch_ref import TorchAttention

_ROOM = 5


@st.composite
def decoding(draw: st.DrawFn) -> TreeStep:
    """Sequences of one query each, whose contexts form trees."""
    sequences = [
        Sequence(
            1, draw(st.integers(0, 150)), draw(st.integers(-1, n - 1)), draw(st.integers(0, 300))
        )
        for n in range(draw(st.integers(1, 10)))
    ]
    return TreeStep(tuple(sequences), None, draw(st.integers(0, 10_000)))


class Growing:
    """The slots of a step's sequences with room behind each, into which they grow."""

    def __init__(self, step: Step) -> None:
        self.step = step
        lengths = torch.tensor([len(context) for context in step.contexts])
        starts = torch.cat((torch.zeros(1, dtype=torch.int64), (lengths + _ROOM).cumsum(0)))
        self.slots = torch.full((int(starts[-1]),), 1 << 40)  # no slot: not to be read
        for start, context in zip(starts.tolist(), step.contexts, strict=False):
            self.slots[start : start + len(context)] = context
        self.starts = starts.to(torch.int32)
        self.ends = (starts[:-1] + lengths).to(torch.int32)

    def meta(self) -> AttentionMeta:
        return replace(
            self.step.meta,
            kv_indptr=self.starts,
            kv_slots=self.slots,
            kv_ends=self.ends,
            grows=self,
        )

    def grow(self) -> None:
        """A new slot for each sequence, with keys and values of its own."""
        first, count = len(self.step.k), len(self.ends)
        self.slots[self.ends.long()] = torch.arange(first, first + count)
        self.ends = self.ends + 1
        generator = torch.Generator().manual_seed(first)
        more = torch.randn(2, count, *self.step.k.shape[1:], generator=generator)
        self.step.k, self.step.v = (
            torch.cat((old, new)) for old, new in zip((self.step.k, self.step.v), more, strict=True)
        )
        self.step.contexts = [
            torch.cat((context, torch.tensor([first + b])))
            for b, context in enumerate(self.step.contexts)
        ]


@settings(max_examples=50, deadline=None)
@given(decoding(), st.integers(1, _ROOM), st.integers(0, _ROOM), st.booleans())
def test_equals_the_formula_at_every_step(
    case: TreeStep, steps: int, disturbed: int, plain: bool
) -> None:
    growing = Growing(Step(case, torch.float32, 64, 3))
    backend = TorchAttention() if plain else CompiledAttention()
    step = growing.step
    for number in range(steps):
        growing.grow()
        if number == disturbed:  # another step between them has its own parts
            Step(case, torch.float32, 64, 3).run(backend)
        out = backend.plan(growing.meta(), step.shape).run(step.q, step.k, step.v)
        torch.testing.assert_close(out.double(), step.formula(), atol=2e-5, rtol=2e-5)
