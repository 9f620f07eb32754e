"""Ids that a constraint puts in the place of sampled ones have the model's log-probabilities, and
the engine keeps no logits for them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from support.engine import logits_after
from support.mixes import PATTERNS, Asked, Mix, Wish

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Scheduler


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Mix:
    return Mix(tmp_path_factory.mktemp("mix"))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("jump", [False, True])
def test_log_probabilities_of_replaced_ids(
    mix: Mix, jump: bool, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    inner = Scheduler.cut

    def cut(scheduler: Scheduler, request: Request, length: int) -> None:
        again.append(request.num_tokens - length)
        inner(scheduler, request, length)

    monkeypatch.setattr(Scheduler, "cut", cut)
    params = [
        SamplingParams(max_tokens=18, logprobs=True, temperature=t, top_logprobs=2)
        for t in (0.0, 1.0)
    ]
    prompts = [(5, 6, 7, 8 + i) for i in range(3)]
    wishes = [
        Wish(prompt, some, 7, pattern)
        for pattern in PATTERNS
        for some in params
        for prompt in prompts
    ]
    core = mix.core(2000, overlap=overlap, jump=jump)
    asked = [Asked(mix, wish, jump) for wish in wishes]
    core.add(*(one.request for one in asked))
    while core.step():
        pass
    assert again.count(1) > 10
    for one in asked:
        request = one.request
        assert one.answer().error is None
        ids = request.tokens[: request.num_tokens].tolist()
        for place, found in enumerate(request.logprobs, request.num_prompt):
            logits = torch.from_numpy(logits_after(ids[:place], mix.vocab))
            right = logits.log_softmax(-1)
            assert found is not None
            assert found.logprob == pytest.approx(float(right[ids[place]]), abs=1e-4)
            tops = [value for _, value in found.top]
            assert np.allclose(tops, right.topk(2).values, atol=1e-4)
    held = [x for one in asked for x in gc.get_referents(*vars(one.request).values())]
    assert not any(isinstance(x, torch.Tensor) for x in held)


def test_a_prompt_stays_cached_though_its_end_is_computed_again(mix: Mix) -> None:
    """The first ids are replaced, so that the end of the prompt is computed once more."""
    params = SamplingParams(max_tokens=12, logprobs=True, temperature=0.0)
    prompt = (5, 6, 7, 8, 9)
    core = mix.core(400)
    for number in range(3):
        asked = Asked(mix, Wish(prompt, params, 7, "(the|a) (cat|dog) and (the|a) (cat|dog)"))
        core.add(asked.request)
        while core.step():
            core.cache.check()
        assert asked.outcome is not None
        assert asked.outcome.error is None
        assert asked.outcome.cached_tokens == (len(prompt) - 1 if number else 0)
    assert core.cache.referenced == 0
