"""Our forward pass against transformers', on tiny random models in float32."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from support.model import KINDS, Runner, Sequence, hf_logits, make_batch, saved, tiny_model

from sgc_runtime.model.loader import LoadedModel, load_model

TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


Pair = tuple[transformers.PreTrainedModel, LoadedModel]


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    model = tiny_model(request.param)
    folder = saved(model, tmp_path_factory.mktemp("model"))
    return model, load_model(folder, torch.float32)


def some_ids(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(3, 97), k=count)


def check(logits: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_prefill_in_one_go(pair: Pair) -> None:
    reference, loaded = pair
    runner = Runner(loaded)
    ids = some_ids(150, 1)
    (logits,) = runner.step([(runner.sequence(ids), len(ids))])
    assert logits.dtype == torch.float32
    check(logits, hf_logits(reference, ids))


def test_prefill_in_chunks_of_every_size(pair: Pair) -> None:
    reference, loaded = pair
    ids = some_ids(60, 2)
    expected = hf_logits(reference, ids)
    for size in (1, 2, 7, 16, 17, 33):
        runner = Runner(loaded, seed=size)
        sequence = runner.sequence(ids)
        parts = []
        while sequence.done < len(ids):
            count = min(size, len(ids) - sequence.done)
            parts += runner.step([(sequence, count)])
        check(torch.cat(parts), expected)


def test_ragged_batches_equal_each_alone(pair: Pair) -> None:
    """Random steps: some sequences wait, some decode, some take long or short chunks."""
    reference, loaded = pair
    runner = Runner(loaded, num_slots=1024)
    chance = random.Random(3)
    texts = [some_ids(chance.randint(5, 90), 10 + i) for i in range(9)]
    sequences = [runner.sequence(ids) for ids in texts]
    parts: list[list[torch.Tensor]] = [[] for _ in texts]
    while unfinished := [i for i, s in enumerate(sequences) if s.done < len(s.ids)]:
        chosen = chance.sample(unfinished, k=chance.randint(1, len(unfinished)))
        work = []
        for i in chosen:
            left = len(texts[i]) - sequences[i].done
            work.append((sequences[i], min(left, chance.choice((1, 1, 1, 2, 5, 20, 64)))))
        for i, logits in zip(chosen, runner.step(work), strict=True):
            parts[i].append(logits)
    for ids, logits in zip(texts, parts, strict=True):
        check(torch.cat(logits), hf_logits(reference, ids))


def test_branches_share_the_slots_of_their_prefix(pair: Pair) -> None:
    reference, loaded = pair
    runner = Runner(loaded)
    parent = runner.sequence(some_ids(40, 4))
    runner.step([(parent, 40)])
    branches = [runner.fork(parent, some_ids(n, 20 + n)) for n in (1, 3, 3, 25)]
    results = runner.step([(b, len(b.ids) - b.done) for b in branches])
    for branch, logits in zip(branches, results, strict=True):
        check(logits, hf_logits(reference, branch.ids)[40:])


def test_only_wanted_rows_go_through_the_head(pair: Pair) -> None:
    reference, loaded = pair
    runner = Runner(loaded)
    sequences: list[Sequence] = [runner.sequence(some_ids(n, n)) for n in (12, 30, 5)]
    batch = make_batch([(s, len(s.ids)) for s in sequences], last_only=True)
    logits = loaded.model.forward(batch, runner.pool)
    assert logits.shape == (3, loaded.config.vocab_size)
    for sequence, row in zip(sequences, logits, strict=True):
        check(row, hf_logits(reference, sequence.ids)[-1])


def test_a_step_without_logits_still_writes_its_keys(pair: Pair) -> None:
    reference, loaded = pair
    runner = Runner(loaded)
    sequence = runner.sequence(some_ids(20, 5))
    batch = replace(make_batch([(sequence, 19)]), logit_rows=torch.empty(0, dtype=torch.int64))
    assert loaded.model.forward(batch, runner.pool).shape == (0, loaded.config.vocab_size)
    sequence.done = 19
    (logits,) = runner.step([(sequence, 1)])
    check(logits, hf_logits(reference, sequence.ids)[19:])


def test_sharded_and_half_precision_files(tmp_path: Path) -> None:
    model = tiny_model("qwen3", seed=7).to(torch.bfloat16)
    saved(model, tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    runner = Runner(load_model(tmp_path, torch.float32))
    ids = some_ids(30, 6)
    (logits,) = runner.step([(runner.sequence(ids), 30)])
    reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    check(logits, hf_logits(reference, ids))


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    model = tiny_model("llama", seed=8)
    runner = Runner(load_model(saved(model, tmp_path), "bfloat16"))
    ids = some_ids(50, 7)
    (logits,) = runner.step([(runner.sequence(ids), 50)])
    expected = hf_logits(model, ids)
    # 8 bits of mantissa through 3 layers: a few per cent of the logits' spread.
    assert float((logits - expected).abs().mean()) < 0.03 * float(expected.std())


def test_a_row_sees_neither_later_tokens_nor_other_sequences(tmp_path: Path) -> None:
    model = tiny_model("mistral", seed=9)
    loaded = load_model(saved(model, tmp_path), torch.float32)
    ids = some_ids(40, 8)
    runner = Runner(loaded)
    (whole,) = runner.step([(runner.sequence(ids), 40)])
    other = ids[:25] + some_ids(15, 99)
    changed, _ = runner.step([(runner.sequence(other), 40), (runner.sequence(some_ids(60, 5)), 60)])
    check(changed[:25], whole[:25])
    assert not torch.allclose(changed[25:], whole[25:], atol=TOLERANCE)
