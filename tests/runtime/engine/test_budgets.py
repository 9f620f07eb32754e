"""What an engine on a GPU holds, for devices that only say how much memory they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.model import Runner, saved, tiny_model
from support.whole_gpu import whole_gpu

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
from sgc_runtime.engine.trial import CudaMachine, decode_rows, prompts
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
    row_bytes: int = 40_000
    fixed: int = 100 << 20
    kept: int = 0  # what computing leaves behind
    asked: list[tuple[int, int]] = field(default_factory=list)

    def free_bytes(self) -> int:
        return self.free - (self.kept if self.asked else 0)

    def held(self, rows: int, max_context: int) -> int | None:
        found = self.fixed + rows * (self.row_bytes + 4 * max_context)
        return None if found > self.free else found

    def trial(self, num_tokens: int, num_logits: int) -> Trial | None:
        self.asked.append((num_tokens, num_logits))
        peak = num_tokens * self.token_bytes + num_logits * self.logit_bytes
        if peak > self.free:
            return None
        return Trial(peak, 1e-6 * self.token_us * num_tokens)


def options(**values: object) -> EngineOptions:
    return EngineOptions(device="cuda", **values)  # type: ignore[arg-type]


def taken(found: Budgets, device: Device, share: int, sizes: Sizes = LLAMA) -> int:
    num_logits = found.max_running + sizes.score_tokens
    step = device.trial(found.prefill_tokens, num_logits)
    assert step is not None
    context = min(sizes.max_positions, share // sizes.slot_bytes)
    held = device.held(found.max_running, context)
    assert held is not None
    logits = 3 * found.max_running * device.logit_bytes
    pool = (found.kv_tokens + 1) * sizes.slot_bytes
    return device.kept + held + step.peak_bytes + logits + found.graph_bytes + pool


def test_a_large_device_gets_the_largest_step_and_the_most_rows() -> None:
    device = Device(free=125 * GB)
    found = gpu_budgets(options(), LLAMA, device)
    assert (found.max_running, found.prefill_tokens) == (RUNNING[0], PREFILL_TOKENS[0])
    assert found.mixed_tokens == 2688  # 60 ms at 22 us a token, in whole tiles
    share = int(0.9 * 125 * GB)
    assert share - LLAMA.slot_bytes < taken(found, device, share) <= share
    assert "sequences at once" in describe(found)


@given(
    free=st.integers(3 * GB, 200 * GB),
    share=st.floats(0.3, 1.0),
    token_bytes=st.integers(1_000, 2_000_000),
    token_us=st.floats(0.1, 500.0),
    kept=st.integers(0, 1 << 29),
)
def test_what_is_taken_never_exceeds_the_share(
    free: int, share: float, token_bytes: int, token_us: float, kept: int
) -> None:
    device = Device(free, token_bytes, token_us, kept=kept)
    try:
        found = gpu_budgets(options(memory_share=share), LLAMA, device)
    except BackendError:
        assert free * share < 4 * GB or token_bytes > 100_000
        return
    assert taken(found, device, int(free * share)) <= free * share
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
    batch = prompts(num_tokens, longest, 7, 97, torch.device("cpu"))
    assert 0 <= int(batch.input_ids.min()) <= int(batch.input_ids.max()) < 97
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
    batch = prompts(20, 8, 20, loaded.config.vocab_size, torch.device("cpu"))
    found = loaded.model.forward(batch, Runner(loaded).pool)
    runner, ids = Runner(loaded), batch.input_ids.tolist()
    texts = [ids[:8], ids[8:16], ids[16:]]
    assert len(set(ids)) > 10
    alone = runner.step([(runner.sequence(text), len(text)) for text in texts])
    torch.testing.assert_close(found, torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_decode_rows_of_a_trial(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), "float32")
    batch = decode_rows(6, 9, loaded.config.vocab_size, torch.device("cpu"))
    assert batch.qo_indptr.diff().tolist() == [1] * 6
    assert batch.kv_indptr.diff().tolist() == [9, 1, 1, 1, 1, 1]
    assert batch.positions.tolist() == [8, 0, 0, 0, 0, 0]
    assert int(batch.kv_slots.max()) < 6
    assert batch.kv_slots[9:].tolist() == [3, 4, 5, 0, 1]
    found = loaded.model.forward(batch, Runner(loaded).pool)
    assert found.shape == (1, loaded.config.vocab_size)


@pytest.mark.parametrize("kind", ["llama", "qwen2 windows"])
def test_what_a_runner_holds_is_made_and_dropped(tmp_path: Path, kind: str) -> None:
    loaded = load_model(saved(tiny_model(kind), tmp_path), "float32")
    cpu = torch.device("cpu")
    machine = CudaMachine(loaded.model, loaded.config, options(), torch.float32, cpu)
    assert machine.held(4, 64) == 0  # of a GPU's memory


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BackendError, match="what 512 sequences at once take does not fit"):
        gpu_budgets(options(max_running=512), LLAMA, Device(free=3 * GB, fixed=3 * GB))


@pytest.mark.gpu
@whole_gpu
def test_a_trial_on_a_gpu(tmp_path: Path) -> None:
    loaded = load_model(saved(tiny_model("llama"), tmp_path), "bfloat16", "cuda")
    device, given = loaded.model.device, options()
    machine = CudaMachine(loaded.model, loaded.config, given, torch.bfloat16, device)
    few, many = machine.held(8, 256), machine.held(512, 256)
    assert few is not None
    assert many is not None
    assert many - few > 4 * 256 * (512 - 8)  # the slot table alone
    free = machine.free_bytes()
    assert machine.held(512, 256) == many
    assert abs(machine.free_bytes() - free) < 64 << 20
    small, large = machine.trial(64, 8), machine.trial(4096, 512)
    assert small is not None
    assert large is not None
    assert large.peak_bytes > small.peak_bytes > 4 * 8 * loaded.config.vocab_size
    _, whole = torch.cuda.mem_get_info(loaded.model.device)
    assert 0 < machine.free_bytes() <= whole
    assert machine.trial(1 << 30, 8) is None, "a step that no GPU holds"
