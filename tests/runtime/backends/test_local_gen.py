"""Samples, stops, characters cut in two, EOS and log-probabilities on the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.local import (
    backend,
    gen,
    prompts,
    run,
    stream,
)

from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Call, Text


def test_samples_share_the_prompt_and_the_stream_goes_on_with_the_first(
    local: LocalBackend,
) -> None:
    async def main() -> None:
        text = "What is the answer to the quick brown fox of France"
        on = stream(local, text)
        params = SamplingParams(n=3, temperature=1.0, max_tokens=6, ignore_eos=True)
        results = await on.generate(Call("g0", "", 0, params, (11, 12, 13)))
        single = [
            (
                await gen(
                    stream(local, text), seeds=(s,), temperature=1.0, max_tokens=6, ignore_eos=True
                )
            )
            for s in (11, 12, 13)
        ]
        assert [r.token_ids for r in results] == [r.token_ids for r in single]
        assert results[0].usage.prompt_tokens > 0
        assert [r.usage.prompt_tokens for r in results[1:]] == [0, 0]
        assert on.ids[-6:] == results[0].token_ids

    run(main)


def test_a_prompt_that_samples_share_is_computed_once_and_cached_afterwards(folder: Path) -> None:
    async def main(fresh: LocalBackend) -> None:
        params = SamplingParams(n=3, temperature=1.0, max_tokens=2, ignore_eos=True)
        for cached_but in (None, 1):  # the last token is computed for its logits
            on = stream(fresh, "What is the answer to the quick brown fox of France")
            first, *others = await on.generate(Call("g0", "", 0, params, (11, 12, 13)))
            prompt = first.usage.prompt_tokens
            assert prompt > 4
            assert first.usage.cached_tokens == (prompt - cached_but if cached_but else 0)
            assert [r.usage.cached_tokens for r in others] == [0, 0]

    with backend(folder) as fresh:
        run(lambda: main(fresh))


def letters_only(owner: LocalBackend) -> dict[str, float]:
    """A bias against all tokens without plain text (a random model loves stray bytes)."""
    tokenizer = owner.tokenizer
    odd = (i for i in range(tokenizer.vocab_size) if not _is_plain(tokenizer.token_bytes(i)))
    return {str(i): -100.0 for i in odd}


def _is_plain(data: bytes) -> bool:
    return bool(data) and data.isascii()


def test_a_stop_inside_a_token_keeps_the_text_before_it(local: LocalBackend) -> None:
    async def main() -> int:
        bias, cut = letters_only(local), 0
        for i, text in enumerate(prompts(20, seed=9)):
            free = await gen(stream(local, text), max_tokens=10, logit_bias=bias)
            middle = len(free.text) // 2
            stop = free.text[middle : middle + 2]
            on, pieces = stream(local, text), []
            result = await gen(
                on, max_tokens=10, logit_bias=bias, stop=(stop,), on_text=pieces.append
            )
            assert result.text == "".join(pieces) == free.text[: free.text.index(stop)]
            assert (result.finish_reason, result.matched) == ("stop", stop)
            cut += local.tokenizer.decode(on.ids) != text + result.text
            on.append([Text(f" [{i}]")])
            await gen(on, max_tokens=1, logit_bias=bias)
            assert local.tokenizer.decode(on.ids[:-1]) == text + result.text + f" [{i}]"
        return cut

    assert run(main) > 3  # tokens were cut, not only ended at their borders


def test_a_split_character_waits_for_the_next_gen(local: LocalBackend) -> None:
    """Forced bytes of an emoji by logit bias: pending, then completed, then dropped by text."""

    async def main() -> None:
        tokenizer = local.tokenizer
        singles = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
        emoji = [singles[bytes([b])] for b in "🦊".encode()]
        on = stream(local, "the fox")
        for token in emoji[:2]:
            result = await gen(on, max_tokens=1, logit_bias={str(token): 100.0})
            assert (result.text, result.token_ids) == ("", [token])
        fork = on.fork()
        assert isinstance(fork, LocalStream)
        await gen(on, max_tokens=1, logit_bias={str(emoji[2]): 100.0})
        result = await gen(on, max_tokens=1, logit_bias={str(emoji[3]): 100.0})
        assert result.text == "🦊"
        fork.append([Text(" sleeps")])
        await gen(fork, max_tokens=1)
        assert tokenizer.decode(fork.ids).startswith("the fox sleeps")

    run(main)


def test_eos_ends_a_gen_and_ignore_eos_goes_on(local: LocalBackend) -> None:
    async def main() -> None:
        (eos,) = local.tokenizer.eos_ids
        bias = {str(eos): 100.0}
        on = stream(local, "the fox")
        result = await gen(on, logit_bias=bias)
        assert (result.text, result.token_ids) == ("", [])
        assert (result.finish_reason, result.matched) == ("eos", eos)
        assert result.usage.completion_tokens == 1
        held = await gen(stream(local, "the fox"), logit_bias=bias, min_tokens=3, max_tokens=9)
        assert held.finish_reason == "eos"
        assert len(held.token_ids) == 3
        ignored = await gen(on, logit_bias=bias, ignore_eos=True, max_tokens=2)
        assert (ignored.text, ignored.token_ids) == ("", [eos, eos])
        assert ignored.finish_reason == "length"
        stopped = await gen(on, logit_bias=bias, ignore_eos=True, stop_token_ids=(eos,))
        assert (stopped.finish_reason, stopped.matched) == ("stop", eos)

    run(main)


def test_logprobs_are_in_the_meta(local: LocalBackend, reference: Any) -> None:
    async def main() -> None:
        on = stream(local, "the quick brown")
        result = await gen(on, max_tokens=3, ignore_eos=True, logprobs=True, top_logprobs=2)
        with torch.inference_mode():
            logp = reference(torch.tensor([on.ids])).logits[0].double().log_softmax(-1)
        at = len(on.ids) - 4
        for i, token in enumerate(result.token_ids):
            own, top = result.meta["logprobs"][i], result.meta["top_logprobs"][i]
            assert own["id"] == token == top[0]["id"]
            assert own["logprob"] == pytest.approx(float(logp[at + i, token]), abs=1e-4)
            assert top[1]["logprob"] == pytest.approx(
                float(logp[at + i].topk(2).values[1]), abs=1e-4
            )

    run(main)
