"""Steps that begin before the results of the ones before them are known change no result."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mixes import Asked, FallingAside, Mix, run_mix

from sgc_runtime.engine.slices import Slices


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Mix:
    return Mix(tmp_path_factory.mktemp("mix"))


CONFIG = st.fixed_dictionaries(
    {
        "overlap": st.sampled_from([True, True, False]),
        "jump": st.booleans(),
        "prefill_tokens": st.sampled_from([1, 3, 7, 512]),
        "mixed_tokens": st.sampled_from([None, 1, 5]),
        "score_tokens": st.sampled_from([1, 256]),
        "max_running": st.sampled_from([1, 3, 64]),
        "reserve": st.sampled_from([0.0, 0.5, 1.0]),
        "share_min_tokens": st.sampled_from([1, 4]),
        "max_prefill_streak": st.sampled_from([0, 1, 4]),
        "cache": st.sampled_from([True, True, False]),
    }
)


@given(
    seed=st.integers(0, 100_000),
    num_slots=st.sampled_from([60, 70, 100, 600]),
    aside=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    config=CONFIG,
)
@settings(max_examples=60, deadline=None)
def test_any_mix_gives_what_each_gives_alone(
    mix: Mix, seed: int, num_slots: int, aside: float, config: dict[str, Any]
) -> None:
    rng = random.Random(seed)
    roots = [[rng.randrange(4, mix.vocab) for _ in range(25)] for _ in range(2)]
    wishes = [mix.wish(rng, roots, 18) for _ in range(10)]
    wishes += rng.choices(wishes, k=2)
    expected = [mix.alone(wish) for wish in wishes]
    core = mix.core(num_slots, **config)
    asked = [Asked(mix, wish, config["jump"]) for wish in wishes]
    with pytest.MonkeyPatch.context() as patch:
        falls = FallingAside(rng, aside)
        patch.setattr(Slices, "_is_done", lambda *args: falls(*args))
        cancelled = run_mix(core, rng, asked)
    for one, wanted in zip(asked, expected, strict=True):
        if one not in cancelled:
            one.answer().check(wanted)
