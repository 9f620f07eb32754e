"""An engine over a device's runner and sampler: any mix of requests gives what each gives alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.device import pool_of, runner_of
from support.mixes import Asked, FallingAside, Mix, run_mix
from support.on_off import random_llama

from sgc_runtime.device.sampler import DeviceSampler
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.core import EngineCore
from sgc_runtime.engine.lookahead import Lookahead
from sgc_runtime.engine.slices import Slices
from sgc_runtime.model.loader import LoadedModel, load_model

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
FORMS = {"graphs": {"max_graph_tokens": 64}, "by kernel": {"graphs": False}}
CONFIGS = {
    "overlap": [True, True, True, False],
    "jump": [True, False],
    "prefill_tokens": [3, 7, 512],
    "mixed_tokens": [None, 5],
    "score_tokens": [1, 256],
    "max_running": [3, 16],
    "reserve": [0.0, 0.5, 1.0],
    "cache": [True, True, False],
}


class DeviceMix(Mix):
    """A mix over a tiny model in float32, computed as on a GPU."""

    def __init__(self, folder: Path, device: str) -> None:
        super().__init__(folder)
        # On a CPU a size that compiled attention, which takes other tables, leaves to torch.
        random_llama(self.tokenizer, folder / "model", head_dim=64 if device == "cuda" else 8)
        self.loaded: LoadedModel = load_model(folder / "model", "float32", device)
        self.form: dict[str, object] = {}

    def core(self, num_slots: int = 2000, **config: object) -> EngineCore:
        settings = EngineConfig(kv_tokens=num_slots, **{"max_running": 16, **config})
        rows = settings.max_running
        device = self.loaded.model.device
        sampler = DeviceSampler(self.loaded.config.vocab_size, rows, device)
        runner = runner_of(self.loaded, pool_of(self.loaded, num_slots), rows, sampler, **self.form)
        return EngineCore(runner, settings)


@pytest.fixture(scope="module", params=DEVICES)
def mix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DeviceMix:
    return DeviceMix(tmp_path_factory.mktemp("mix"), request.param)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_any_mix_gives_what_each_gives_alone(mix: DeviceMix, seed: int, form: str) -> None:
    rng = random.Random(seed)
    config = {name: rng.choice(values) for name, values in CONFIGS.items()}
    roots = [[rng.randrange(4, mix.vocab) for _ in range(25)] for _ in range(2)]
    wishes = [mix.wish(rng, roots, 18) for _ in range(10)]
    wishes += rng.choices(wishes, k=2)
    mix.form = {}
    expected = [mix.alone(wish) for wish in wishes]
    mix.form = FORMS[form]
    core = mix.core(rng.choice([60, 100, 600]), **config)
    asked = [Asked(mix, wish, config["jump"]) for wish in wishes]
    with pytest.MonkeyPatch.context() as patch:
        falls, early = FallingAside(rng, rng.choice([0.0, 0.0, 0.2])), rng.choice([0.5, 1.0, 1.0])
        patch.setattr(Slices, "_is_done", lambda *args: falls(*args))
        patch.setattr(Lookahead, "pays", property(lambda _: rng.random() < early))
        cancelled = run_mix(core, rng, asked)
    # cuBLAS adds up in another order for other sizes of a step.
    error = 1e-4 if mix.loaded.model.device.type == "cuda" else 1e-5
    for one, wanted in zip(asked, expected, strict=True):
        if one not in cancelled:
            one.answer().check(wanted, error)
