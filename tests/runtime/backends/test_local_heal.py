"""`heal=True` on the local engine against a walk over the whole vocabulary by full forwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from support.local import gen, run, stream

from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.sampling.healing import MAX_HEALED_IDS

PROMPTS = ["the quick bro", "the lazy dog ", "What is the capi", "Paris  ", "The fox ju", "it's"]


def has_longer(tokenizer: Any, data: bytes) -> bool:
    texts = map(tokenizer.token_bytes, range(tokenizer.vocab_size))
    return any(len(text) > len(data) and text.startswith(data) for text in texts)


def split(tokenizer: Any, ids: list[int]) -> tuple[list[int], list[int]]:
    """What stays of the prompt, and the longest end of it with which a longer token begins."""
    best = 0
    for count in range(1, min(MAX_HEALED_IDS, len(ids) - 1) + 1):
        if has_longer(tokenizer, b"".join(map(tokenizer.token_bytes, ids[-count:]))):
            best = count
    return ids[: len(ids) - best], ids[len(ids) - best :]


def healed_greedy(
    model: transformers.PreTrainedModel, tokenizer: Any, text: str, num: int
) -> list[int]:
    """Ids of prompt and answer: every id that spells the text's end, or goes beyond it, is legal;
    of those that spell less, only the tokenizer's own."""
    ids, own = split(tokenizer, tokenizer.encode(text))
    left = b"".join(map(tokenizer.token_bytes, own))
    made = 0
    while made < num:
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0, -1]
        if left:
            legal = [
                i
                for i in range(tokenizer.vocab_size)
                if tokenizer.token_bytes(i).startswith(left) or i == own[0]
            ]
            token = max(legal, key=lambda i: float(logits[i]))
            data = tokenizer.token_bytes(token)
            made += len(data) > len(left)
            own, left = own[1:], left[len(data) :]
        else:
            token = int(logits.argmax())
            made += 1
        ids.append(token)
    return ids


@pytest.mark.parametrize("text", PROMPTS)
def test_ids_equal_a_walk_over_the_whole_vocabulary(
    local: LocalBackend, reference: transformers.PreTrainedModel, text: str
) -> None:
    async def main() -> LocalStream:
        on = stream(local, text)
        result = await gen(on, max_tokens=4, heal=True, ignore_eos=True)
        assert result.usage.completion_tokens == 4
        assert local.tokenizer.decode(on.ids).startswith(text + result.text)
        kept = len(local.tokenizer.encode(text)) - result.rolled_back
        assert on.ids[kept:] == list(result.token_ids)
        return on

    assert run(main).ids == healed_greedy(reference, local.tokenizer, text, 4)


def test_some_prompts_are_healed_and_without_heal_none_is(local: LocalBackend) -> None:
    async def main() -> list[int]:
        healed = []
        for text in PROMPTS:
            plain = await gen(on := stream(local, text), max_tokens=2)
            assert plain.rolled_back == 0
            assert on.ids[: len(local.tokenizer.encode(text))] == local.tokenizer.encode(text)
            healed.append((await gen(stream(local, text), max_tokens=2, heal=True)).rolled_back)
        return healed

    assert sum(run(main)) >= 3


def test_a_longer_token_takes_the_end_of_the_prompt_with_it(local: LocalBackend) -> None:
    tokenizer = local.tokenizer
    (whole,) = tokenizer.encode(" brown", start=False)

    async def main() -> None:
        on = stream(local, "the quick bro")
        pieces: list[str] = []
        result = await gen(
            on, heal=True, max_tokens=1, logit_bias={str(whole): 100.0}, on_text=pieces.append
        )
        assert (result.text, "".join(pieces)) == ("wn", "wn")
        assert on.ids == tokenizer.encode("the quick brown")
        assert result.usage.completion_tokens == 1
        assert result.usage.prompt_tokens == len(tokenizer.encode("the quick"))

    run(main)


def test_a_stop_inside_the_healed_token_leaves_the_prompt_as_it_was(local: LocalBackend) -> None:
    (whole,) = local.tokenizer.encode(" brown", start=False)

    async def main() -> None:
        on = stream(local, "the quick bro")
        bias = {str(whole): 100.0}
        result = await gen(on, heal=True, max_tokens=3, logit_bias=bias, stop=("n",))
        assert (result.text, result.finish_reason, result.rolled_back) == ("w", "stop", 0)
        on.append([Text("l")])
        await gen(on, max_tokens=1, ignore_eos=True)
        assert local.tokenizer.decode(on.ids[:-1]) == "the quick browl"

    run(main)


def test_text_of_the_model_is_not_healed(local: LocalBackend) -> None:
    async def main() -> None:
        on = stream(local, "the quick bro")
        first = await gen(on, max_tokens=3, ignore_eos=True)
        before = list(on.ids)
        assert first.token_ids
        again = await gen(on, max_tokens=2, heal=True, ignore_eos=True)
        assert again.rolled_back == 0
        assert on.ids[: len(before)] == before

    run(main)


def test_the_text_of_a_role_is_not_healed(local: LocalBackend) -> None:
    async def main() -> None:
        on = local.open()
        assert isinstance(on, LocalStream)
        on.append([Text("<|im_start|>assistant\n", control=True)])
        result = await gen(on, max_tokens=1, heal=True, ignore_eos=True)
        assert result.rolled_back == 0

    run(main)


def test_a_fork_does_not_change_what_is_healed(local: LocalBackend) -> None:
    async def main() -> None:
        whole = stream(local, "the quick bro")
        parent = stream(local, "the quick b")
        branch = parent.fork()
        assert isinstance(branch, LocalStream)
        branch.append([Text("ro")])
        a = await gen(whole, heal=True, max_tokens=4)
        b = await gen(branch, heal=True, max_tokens=4)
        assert (whole.ids, a.text, a.rolled_back) == (branch.ids, b.text, b.rolled_back)

    run(main)


@pytest.mark.parametrize("text", PROMPTS)
def test_penalties_minimum_and_logprobs_count_new_text_only(local: LocalBackend, text: str) -> None:
    async def main() -> None:
        (eos,) = local.tokenizer.eos_ids
        result = await gen(
            stream(local, text),
            heal=True,
            min_tokens=3,
            max_tokens=6,
            logit_bias={str(eos): 100.0},
            logprobs=True,
        )
        assert (result.usage.completion_tokens, result.finish_reason) == (4, "eos")
        assert len(result.meta["logprobs"]) == 3

    run(main)


def test_samples_are_healed_each_for_itself(local: LocalBackend) -> None:
    async def main() -> None:
        from sgc_ir.params import SamplingParams
        from sgc_runtime.executor.backend import Call

        on = stream(local, "the quick bro")
        params = SamplingParams(n=6, max_tokens=4, heal=True, temperature=1.5)
        results = await on.generate(Call("g0", "", 0, params, tuple(range(6))))
        for seed, result in enumerate(results):
            alone = stream(local, "the quick bro")
            single = await gen(alone, seeds=(seed,), max_tokens=4, heal=True, temperature=1.5)
            assert (single.text, single.token_ids) == (result.text, result.token_ids)

    run(main)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_gen_in_two_parts_equals_the_whole(local: LocalBackend, temperature: float) -> None:
    """Greedy: the same ids. Sampled: a draw depends on seed and step, so the first part agrees."""

    async def main() -> None:
        for text in PROMPTS:
            whole, parts = stream(local, text), stream(local, text)
            sampling: dict[str, Any] = {"temperature": temperature, "ignore_eos": True}
            one = await gen(whole, max_tokens=9, **sampling)
            first = await gen(parts, max_tokens=4, **sampling)
            assert one.token_ids[:4] == list(first.token_ids)
            if temperature == 0.0:
                second = await gen(parts, max_tokens=5, heal=True, **sampling)
                assert whole.ids == parts.ids
                assert one.text == first.text + second.text

    run(main)
