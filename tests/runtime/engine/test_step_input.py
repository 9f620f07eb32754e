"""Inputs that grow from step to step equal inputs made from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import Ask, make_core, run_with_arrivals

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Pending, StepInput, StepInputs, make_step_input
from sgc_runtime.model.forward import ForwardBatch

CPU = torch.device("cpu")


def contexts(batch: ForwardBatch) -> list[list[int]]:
    ends = batch.kv_indptr[1:] if batch.kv_ends is None else batch.kv_ends
    starts = batch.kv_indptr[:-1]
    return [
        batch.kv_slots[a:b].tolist() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def assert_equal(got: StepInput, wanted: StepInput) -> None:
    assert contexts(got.batch) == contexts(wanted.batch)
    for name in ("input_ids", "positions", "out_slots", "qo_indptr", "logit_rows"):
        one, other = getattr(got.batch, name), getattr(wanted.batch, name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    assert got.sampling == wanted.sampling
    assert got.scoring == wanted.scoring


class Compared(StepInputs):
    """Compares each step's input with one from scratch, and counts those that grew."""

    def __init__(self, room: int) -> None:
        super().__init__(CPU, room)
        self.grown = 0

    def make(self, chunks: Sequence[Chunk], pending: Pending = {}) -> StepInput:  # noqa: B006
        rows = self._rows
        got = super().make(chunks, pending)
        assert_equal(got, make_step_input(chunks, CPU, pending))
        self.grown += rows is not None and rows is self._rows
        return got


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(60, 400), st.sampled_from((1, 3, 128)))
def test_inputs_equal_those_from_scratch(seed: int, num_slots: int, room: int) -> None:
    rng = random.Random(seed)
    core = make_core(num_slots, prefill_tokens=rng.choice((5, 64)), max_running=rng.randint(1, 6))
    core.runner.inputs = Compared(room)
    asks = []
    for _ in range(rng.randint(1, 10)):
        prompt = [rng.randint(2, 4) for _ in range(rng.randint(1, 25))]
        if rng.random() < 0.2:
            choices = [[rng.randint(2, 4) for _ in range(rng.randint(1, 4))] for _ in range(2)]
            asks.append(Ask(prompt, choices=choices))
            continue
        params = SamplingParams(temperature=0, max_tokens=rng.randint(1, 30), ignore_eos=True)
        asks.append(Ask(prompt, params))
    run_with_arrivals(core, rng, asks)


def test_decode_steps_grow() -> None:
    core = make_core()
    inputs = core.runner.inputs = Compared(room=20)
    params = SamplingParams(temperature=0, max_tokens=50, ignore_eos=True)
    core.add(*(Ask([number, 3, 4], params).request for number in range(5, 9)))
    while core.step():
        pass
    # One prefill step, then 49 steps, of which every twentieth makes the tables anew.
    assert inputs.grown == 49 - 3
