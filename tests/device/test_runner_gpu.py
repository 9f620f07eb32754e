"""The runner on a GPU: nothing waits, graphs stay within their memory, and ids of a real model are
those of the CPU's engine."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support import model as support_model
from support.device import Fleet, check_that_logits_outlive_a_step, pool_of, runner_of
from support.engine import Letters
from support.model import saved, tiny_model

from sgc_ir.errors import ModelError
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.device.graphs import CudaRecorder, Graphs
from sgc_runtime.device.sampler import DeviceSampler
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Request, State
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.executor.backend import Call, Text
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.sampling.row import SamplingRow

pytestmark = pytest.mark.gpu
KINDS = ("llama", "qwen2", "qwen3", "mistral", "qwen2 windows")


Pair = tuple[LoadedModel, LoadedModel]


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A model on the GPU, and on the CPU."""
    folder = saved(tiny_model(request.param), tmp_path_factory.mktemp("model"))
    return load_model(folder, "float32", "cuda"), load_model(folder, "float32")


@pytest.fixture
def loaded(pair: Pair) -> LoadedModel:
    return pair[0]


@pytest.mark.parametrize("form", [{"max_graph_tokens": 64}, {"graphs": False}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_logit_is_that_of_the_sequence_alone(
    pair: Pair, seed: int, form: dict[str, Any]
) -> None:
    fleet = Fleet(pair[0], seed, pair[1], **form)
    fleet.runner.warm_up()
    fleet.live(60)
    assert fleet.checked > 50


def core_of(loaded: LoadedModel, rows: int) -> EngineCore:
    sampler = DeviceSampler(loaded.config.vocab_size, rows, loaded.model.device)
    runner = runner_of(loaded, pool_of(loaded, 4000), rows, sampler)
    return EngineCore(runner, EngineConfig(kv_tokens=4000, max_running=rows, overlap=True))


def add(core: EngineCore, count: int, new: int) -> list[list[int]]:
    """Greedy requests; their ids, which come as they end."""
    found: list[list[int]] = [[] for _ in range(count)]
    for i, ids_of_one in enumerate(found):
        params = SamplingParams(max_tokens=new, temperature=0.0, ignore_eos=True)
        ids = torch.randint(3, 97, (5 + i,), generator=torch.Generator().manual_seed(i))
        request = Request(
            ids.int().numpy(),
            on_done=partial(_note, ids_of_one),
            row=SamplingRow(params, i),
            watcher=OutputWatcher(params, Letters(), ()),
        )
        core.add(request)
    return found


def _note(found: list[int], request: Request, _: Outcome) -> None:
    found += request.output.tolist()


def test_steady_decode_waits_for_nothing_but_ids(loaded: LoadedModel) -> None:
    core = core_of(loaded, 6)
    found = add(core, 6, 90)
    while any(r.state is not State.RUNNING for r in core.open):
        core.step()
    for _ in range(5):
        core.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(60):  # beyond the room of a plan
            core.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    while core.open:
        core.step()
    assert [len(ids) for ids in found] == [90] * 6


def test_recordings_stay_within_their_memory(loaded: LoadedModel) -> None:
    device = loaded.model.device
    graphs = Graphs(CudaRecorder(device), 1 << 62)
    x = torch.randn(64, 64, device=device)
    torch.mm(x, x)
    recorded = []
    for size in range(4):
        recorded.append(graphs.record((size,), lambda: torch.mm(x, x) @ x))
    assert graphs.bytes_taken < 256 << 20
    expected = torch.mm(x, x) @ x
    for one in recorded:
        assert one is not None
        one.replay()
        torch.testing.assert_close(one.result, expected)
    full = Graphs(CudaRecorder(device), 0)
    assert full.record((1,), lambda: torch.mm(x, x)) is None
    assert full.recordings == 0


def test_the_chain_of_one_row_is_as_exact_as_rows(tmp_path: Path) -> None:
    """In bfloat16, against the model in float32: with the chain and without."""
    sizes = {**support_model.SIZES, "hidden_size": 256, "intermediate_size": 512}
    torch.manual_seed(3)
    saved(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)), tmp_path / "model")
    exact = load_model(tmp_path / "model", "float32")
    loaded = load_model(tmp_path / "model", "bfloat16", "cuda")
    ids = torch.randint(3, 97, (70,), generator=torch.Generator().manual_seed(1)).tolist()
    texts = support_model.Runner(exact)
    (expected,) = texts.step([(texts.sequence(ids), len(ids))])
    errors = {}
    for chained in (True, False):
        pool = pool_of(loaded, 200)
        runner = runner_of(loaded, pool, 2)
        assert runner.row_steps is not None
        assert runner.row_steps._chain is not None
        if not chained:
            runner.row_steps._chain = None
        request = Request(
            np.array(ids, np.int32),
            on_done=lambda *_: None,
            row=SamplingRow(SamplingParams(max_tokens=2), 0),
        )
        request.slots[: len(ids)] = torch.randperm(200)[: len(ids)].numpy()
        found = []
        for place in range(len(ids)):
            request.num_tokens = place + 1
            found.append(runner.launch([Chunk(request, place, place + 1)]).logits.clone())
        errors[chained] = float((torch.cat(found).cpu() - expected).norm() / expected.norm())
    assert errors[True] < 1.2 * errors[False] < 0.06


def test_logits_outlive_the_next_step_whatever_it_is(tmp_path: Path) -> None:
    """Chains of both turns and graphs of rows share one pool of memory."""
    sizes = {**support_model.SIZES, "hidden_size": 256, "intermediate_size": 512}
    saved(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)), tmp_path / "model")
    loaded = load_model(tmp_path / "model", "bfloat16", "cuda")
    runner = runner_of(loaded, pool_of(loaded, 200), 2)
    assert runner.row_steps is not None
    assert runner.row_steps._chain is not None
    for _ in range(2):  # record; replay alone
        for order in product((1, 2), repeat=6):
            check_that_logits_outlive_a_step(runner, order)
    assert runner.graphs is not None
    assert "chain" in {key[1] for key in runner.graphs._entries if len(key) > 1}


# -- a real model -------------------------------------------------------------------------------

PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Q: What is 17 + 25?\nA:", "Once"]
REGEX = r'\{"name": "[A-Z][a-z]{2,10}", "age": [0-9]{1,3}, "ok": (true|false)\}'


def ids_of(**options: Any) -> list[list[int]]:
    """Greedy ids, cold and warm, plain and under a constraint."""
    try:
        path = str(resolve(DEFAULT_MODEL))
    except ModelError as error:
        pytest.skip(f"the default model is not here: {error}")
    backend = LocalBackend(path, dtype="float32", weights="dense", kv_tokens=4096, **options)

    async def one(text: str, number: int, **more: Any) -> list[int]:
        stream = backend.open()
        stream.append([Text(text)])
        params = SamplingParams(max_tokens=40, temperature=0.0, **more)
        result = await stream.generate(Call(f"g{number}", "", number, params, (0,)))
        return list(result[0].token_ids)

    async def everything() -> list[list[int]]:
        found: list[list[int]] = []
        for more in ({"ignore_eos": True}, {"ignore_eos": True}, {"regex": REGEX}):
            calls = (one(text, i, **more) for i, text in enumerate(PROMPTS))
            found += await asyncio.gather(*calls)
        return found

    try:
        return asyncio.run(everything())
    finally:
        backend.close()


@pytest.fixture(scope="module")
def on_cpu() -> list[list[int]]:
    return ids_of(device="cpu")


@pytest.mark.model
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
def test_ids_are_those_of_the_cpu(on_cpu: list[list[int]], graphs: bool, overlap: bool) -> None:
    found = ids_of(device="cuda", graphs=graphs, overlap=overlap, process="off")
    assert found == on_cpu


@pytest.mark.model
@pytest.mark.parametrize("option", [{"jump": False}, {"cache": False}])
def test_no_option_changes_ids(on_cpu: list[list[int]], option: dict[str, Any]) -> None:
    assert ids_of(device="cuda", process="off", **option) == on_cpu
