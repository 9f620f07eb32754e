"""Select on the local engine against one full forward a choice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from support.local import (
    gen,
    run,
    select,
    stream,
)

from sgc_ir.params import CHOICE_METHODS
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Text


def brute_force(
    model: transformers.PreTrainedModel, tokenizer: Any, prompt: str, choices: list[str]
) -> list[list[float]]:
    """Log-probabilities from the common start on, by one full forward a choice."""
    bare = prompt.rstrip(" ")
    base = tokenizer.encode(bare)
    encoded = [tokenizer.encode(prompt + c) for c in choices]
    start = min(
        next((i for i, (a, b) in enumerate(zip(base, e)) if a != b), len(base)) for e in encoded
    )
    out = []
    for ids in encoded:
        with torch.inference_mode():
            logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        out.append([float(logp[i - 1, ids[i]]) for i in range(start, len(ids))])
    return out


@pytest.mark.parametrize("method", CHOICE_METHODS)
@pytest.mark.parametrize("blank", ["", " ", "  "])
def test_scores_equal_a_full_forward(
    local: LocalBackend, reference: transformers.PreTrainedModel, method: str, blank: str
) -> None:
    choices = ["Paris", "the capital", "late", "la", "42"]
    if blank == "":
        choices = [" " + c for c in choices]
    prompt = "What is the capital of France? Answer:" + blank
    logprobs = brute_force(reference, local.tokenizer, prompt, choices)
    means = [sum(x) / len(x) for x in logprobs]
    if method == "unconditional_likelihood_normalized":
        encoded = [local.tokenizer.encode(prompt + c)[-len(x) :] for c, x in zip(choices, logprobs)]
        for i, ids in enumerate(encoded):
            with torch.inference_mode():
                logp = reference(torch.tensor([ids])).logits[0].double().log_softmax(-1)
            means[i] -= sum(float(logp[j - 1, ids[j]]) for j in range(1, len(ids))) / len(ids)
    result = run(lambda: select(stream(local, prompt), choices, method))
    assert result.meta["scores"] == pytest.approx(means, abs=1e-4)
    if method != "greedy_token_selection":
        assert result.text == choices[means.index(max(means))]
    assert result.usage.scored_tokens == sum(map(len, logprobs))


@pytest.mark.parametrize("method", CHOICE_METHODS)
def test_scores_do_not_move_with_the_border_blank(local: LocalBackend, method: str) -> None:
    words = ["quick", "lazy dog", "The fox"]

    async def both() -> None:
        outside = await select(stream(local, "It is the "), words, method)
        inside = await select(stream(local, "It is the"), [" " + w for w in words], method)
        assert outside.meta["scores"] == pytest.approx(inside.meta["scores"], abs=1e-5)
        assert inside.text == " " + outside.text

    run(both)


def test_the_choice_is_spelled_and_the_stream_goes_on(local: LocalBackend) -> None:
    async def main() -> None:
        on = stream(local, "The answer is ")
        result = await select(on, ["late", "later", "Paris, France"])
        assert local.tokenizer.decode(on.ids) == "The answer is " + result.text
        on.append([Text(" now")])
        follow = await gen(on, max_tokens=2, ignore_eos=True)
        assert local.tokenizer.decode(on.ids).startswith(f"The answer is {result.text} now")
        assert follow.usage.cached_tokens >= len(local.tokenizer.encode("The answer is"))

    run(main)


def test_select_behind_generated_blanks_and_at_the_beginning(local: LocalBackend) -> None:
    async def main() -> None:
        blank = local.tokenizer.encode(" ")[0]
        on = stream(local, "the fox")
        await gen(on, max_tokens=1, logit_bias={str(blank): 100.0})
        fresh = stream(local, "the fox ")
        words = ["jumps", "ate"]
        healed, plain = await select(on, words), await select(fresh, words)
        assert healed.meta["scores"] == pytest.approx(plain.meta["scores"], abs=1e-5)
        assert on.ids == fresh.ids
        empty = await select(stream(local), ["a", "The dog"])
        assert len(empty.meta["scores"]) == 2

    run(main)
