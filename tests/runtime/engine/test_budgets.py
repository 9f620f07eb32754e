"""What an engine on a GPU holds, for devices that only say how much memory they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.model import Runner, saved, tiny_model

from sgc_ir.errors import BackendError
from sgc_runtime.engine.budgets import (
    MIXED_SECONDS,
    MOST_SLOTS,
    PREFILL_TOKENS,
    RUNNING,
    Budgets,
    Sizes,
    Trial,
    cpu_budgets,
    describe,
    gpu_budgets,
)
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.engine.trial import CudaMachine, prompts
from sgc_runtime.model.loader import load_model

GB = 1 << 30
# Llama-3.1-8B: 32 layers of 8 heads of 128 numbers in 16 bits
LLAMA = Sizes(
    slot_bytes=2 * 32 * 8 * 128 * 2,
    slot_numbers=8 * 128,
    vocab_size=128_256,
    max_positions=131_072,
    score_tokens=256,
)


@dataclass
class Device:
    """A device on which a step takes so many bytes and microseconds a token."""

    free: int
    token_bytes: int = 120_000
    token_us: float = 22.0
    logit_bytes: int = 4 * LLAMA.vocab_size
    asked: list[tuple[int, int]] = field(default_factory=list)

    def free_bytes(self) -> int:
        return self.free

    def trial(self, num_tokens: int, num_logits: int) -> Trial | None:
        self.asked.append((num_tokens, num_logits))
        peak = num_tokens * self.token_bytes + num_logits * self.logit_bytes
        if peak > self.free:
            return None
        return Trial(peak, 1e-6 * self.token_us * num_tokens)


def options(**values: object) -> EngineOptions:
    return EngineOptions(device="cuda", **values)  # type: ignore[arg-type]


def taken(found: Budgets, device: Device, sizes: Sizes = LLAMA) -> int:
    num_logits = found.max_running + sizes.score_tokens
    step = device.trial(found.prefill_tokens, num_logits)
    assert step is not None
    rows = found.max_running * sizes.row_bytes
    return step.peak_bytes + rows + found.graph_bytes + found.kv_tokens * sizes.slot_bytes


def test_a_large_device_gets_the_largest_step_and_the_most_rows() -> None:
    device = Device(free=125 * GB)
    found = gpu_budgets(options(), LLAMA, device)
    assert (found.max_running, found.prefill_tokens) == (RUNNING[0], PREFILL_TOKENS[0])
    assert found.mixed_tokens == 2688  # 60 ms at 22 us a token, in whole tiles
    share = 0.9 * 125 * GB
    assert share - LLAMA.slot_bytes < taken(found, device) <= share
    assert "sequences at once" in describe(found)


@given(
    free=st.integers(3 * GB, 200 * GB),
    share=st.floats(0.3, 1.0),
    token_bytes=st.integers(1_000, 2_000_000),
    token_us=st.floats(0.1, 500.0),
)
def test_what_is_taken_never_exceeds_the_share(
    free: int, share: float, token_bytes: int, token_us: float
) -> None:
    device = Device(free, token_bytes, token_us)
    try:
        found = gpu_budgets(options(memory_share=share), LLAMA, device)
    except BackendError:
        assert free * share < 4 * GB or token_bytes > 100_000
        return
    assert taken(found, device) <= free * share
    assert found.kv_tokens >= 1
    assert found.mixed_tokens is not None
    assert found.mixed_tokens <= found.prefill_tokens
    longest = 1e-6 * token_us * found.mixed_tokens
    assert longest <= MIXED_SECONDS or found.mixed_tokens == PREFILL_TOKENS[-1]


def test_a_small_device_gets_a_smaller_step_and_fewer_rows() -> None:
    found = gpu_budgets(options(), LLAMA, Device(free=6 * GB))
    assert found.max_running == 128
    assert found.prefill_tokens == 4096


def test_what_is_given_stands() -> None:
    device = Device(free=100 * GB)
    asked = options(
        kv_tokens=1_000, max_running=3, prefill_tokens=700, mixed_tokens=70, graph_memory="1GB"
    )
    assert gpu_budgets(asked, LLAMA, device) == Budgets(1_000, 3, 700, 70, GB)
    assert device.asked == [(700, 3 + LLAMA.score_tokens)]
    size = gpu_budgets(options(kv_memory="2GB", graphs=False), LLAMA, device)
    assert (size.kv_tokens, size.graph_bytes) == (2 * GB // LLAMA.slot_bytes, 0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kv_tokens": 10_000_000}, "holds 2097151 tokens at most"),
        ({"kv_memory": "99GB"}, "kv_memory=99GB: a KV pool of 101376 MiB is more than"),
        ({"kv_memory": "1KB"}, "holds no token"),
        ({"prefill_tokens": 10_000_000}, "10000000 prompt tokens"),
        ({"memory_share": 0.01}, "does not fit into|no memory is left"),
        ({"graph_memory": "98GB"}, "no memory is left for the KV pool"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(BackendError, match=words) as caught:
        gpu_budgets(options(**values), LLAMA, Device(free=100 * GB))
    assert "\n" not in str(caught.value)


def test_a_pool_asked_for_may_take_what_the_share_leaves() -> None:
    asked = options(kv_memory="90GB", memory_share=0.5)
    assert gpu_budgets(asked, LLAMA, Device(free=100 * GB)).kv_tokens == 90 * GB // LLAMA.slot_bytes


def test_a_tiny_model_gets_no_more_slots_than_are_of_use() -> None:
    tiny = Sizes(
        slot_bytes=192, slot_numbers=16, vocab_size=97, max_positions=256, score_tokens=256
    )
    assert gpu_budgets(options(), tiny, Device(100 * GB, 1_000)).kv_tokens == MOST_SLOTS


def test_a_cpu_keeps_its_constants() -> None:
    assert cpu_budgets(EngineOptions(), 77) == Budgets(77, 128, 1024, None)
    given_ones = EngineOptions(max_running=3, prefill_tokens=64, mixed_tokens=16)
    assert cpu_budgets(given_ones, 77) == Budgets(77, 3, 64, 16)


@pytest.mark.parametrize(("num_tokens", "longest"), [(1, 8), (8, 8), (21, 8), (16, 8), (5, 100)])
def test_the_prompts_of_a_trial(num_tokens: int, longest: int) -> None:
    batch = prompts(num_tokens, longest, 7, torch.device("cpu"))
    lengths = batch.qo_indptr.diff().tolist()
    assert sum(lengths) == num_tokens
    assert max(lengths) <= longest
    assert min(lengths) > 0
    assert batch.positions.tolist() == [p for n in lengths for p in range(n)]
    assert batch.qo_indptr.dtype == torch.int32
    assert len(batch.logit_rows) == 7
    assert int(batch.logit_rows.max()) < num_tokens


def test_a_trial_computes_prompts(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), "float32")
    batch = prompts(20, 8, 20, torch.device("cpu"))
    found = loaded.model.forward(batch, Runner(loaded).pool)
    assert torch.allclose(found[:8], found[8:16])
    assert torch.allclose(found[:4], found[16:])


@pytest.mark.gpu
def test_a_trial_on_a_gpu(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), "bfloat16", "cuda")
    machine = CudaMachine(loaded.model, loaded.config, torch.bfloat16, loaded.model.device)
    small, large = machine.trial(64, 8), machine.trial(4096, 512)
    assert small is not None
    assert large is not None
    assert large.peak_bytes > small.peak_bytes > 4 * 8 * loaded.config.vocab_size
    _, whole = torch.cuda.mem_get_info(loaded.model.device)
    assert 0 < machine.free_bytes() <= whole
    assert machine.trial(1 << 30, 8) is None, "a step that no GPU holds"
