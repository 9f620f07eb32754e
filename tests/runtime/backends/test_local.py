"""The local backend over a tiny random model, against transformers on the same ids."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from local_support import GREEDY, backend, gen, run, select, stream, tiny_folder

from sgc_ir.errors import BackendError, ModelError
from sgc_ir.params import CHOICE_METHODS, SamplingParams
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Call, Media, Text

WORDS = "the quick brown fox jumps over lazy dog What is capital of France Paris answer".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def reference(folder: Path) -> transformers.PreTrainedModel:
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[LocalBackend]:
    with backend(folder) as made:
        yield made


def greedy_ids(
    model: transformers.PreTrainedModel, prompt: list[int], num: int, eos: bool = True
) -> list[int]:
    """What transformers generates behind `prompt`, without EOS."""
    end = model.config.eos_token_id
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=num,
            do_sample=False,
            eos_token_id=end if eos else None,
            pad_token_id=0,
        )
    ids: list[int] = out[0, len(prompt) :].tolist()
    return ids[: ids.index(end)] if eos and end in ids else ids


def prompts(num: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    shared = " ".join(rng.choices(WORDS, k=20))
    return [shared + " " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 12))) for _ in range(num)]


async def answers(owner: LocalBackend, texts: list[str], **params: Any) -> list[Any]:
    """Generated ids of all texts, sent together."""
    rows = [gen(stream(owner, text), **params) for text in texts]
    return [result.token_ids for result in await asyncio.gather(*rows)]


# -- the token oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefill_tokens": 7},
        {"prefill_tokens": 3, "max_running": 5},
        {"kv_tokens": 90, "reserve": 0.0},
        {"cache": False},
    ],
    ids=str,
)
def test_greedy_tokens_equal_transformers(
    folder: Path, reference: transformers.PreTrainedModel, options: dict[str, Any]
) -> None:
    texts = prompts(16)
    with backend(folder, **options) as owner:
        encoded = [owner.tokenizer.encode(text) for text in texts]
        expected = [greedy_ids(reference, ids, 12) for ids in encoded]
        together = run(lambda: answers(owner, texts, max_tokens=12))
        warm = run(lambda: answers(owner, texts, max_tokens=12))
        alone = [run(lambda t=t: answers(owner, [t], max_tokens=12))[0] for t in texts[:4]]
        stats = owner.stats()
    assert together == warm == expected
    assert alone == expected[:4]
    if options.get("reserve") == 0.0:
        assert stats["retractions"] > 0
        assert stats["recomputed_tokens"] > 0


def test_forks_three_deep_equal_transformers(
    local: LocalBackend, reference: transformers.PreTrainedModel
) -> None:
    """Each branch's prompt, seams included, is what transformers is asked to go on with."""

    async def branch(parent: LocalStream, depth: int) -> None:
        ids = parent.ids
        result = await gen(parent, max_tokens=5, ignore_eos=True)
        before = parent.ids[: len(parent.ids) - len(result.token_ids)]
        assert before[: len(ids) - 8] == ids[: max(0, len(ids) - 8)]
        assert result.token_ids == greedy_ids(reference, before, 5, eos=False)
        if depth:
            children = [parent.fork() for _ in range(2)]
            for i, child in enumerate(children):
                assert isinstance(child, LocalStream)
                child.append([Text(f" {WORDS[i]} and")])
            await asyncio.gather(*(branch(c, depth - 1) for c in children))  # type: ignore[arg-type]

    run(lambda: branch(stream(local, "The answer is"), 3))


class Wanderer:
    """Random programs: text, gens, selects and forks; notes what each gen went on from."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.asked: list[tuple[list[int], list[int], int]] = []

    async def walk(self, on: LocalStream, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            await self.step(on)
        if depth:
            children = [on.fork() for _ in range(self.rng.randrange(1, 4))]
            await asyncio.gather(*(self.walk(c, depth - 1) for c in children))  # type: ignore[arg-type]
        await self.step(on)

    async def step(self, on: LocalStream) -> None:
        rng = self.rng
        if rng.random() < 0.7:
            on.append([Text(" " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 5))))])
        if rng.random() < 0.3:
            await select(on, rng.sample(WORDS, 3), rng.choice(CHOICE_METHODS))
            return
        num = rng.randrange(1, 9)
        result = await gen(on, max_tokens=num, ignore_eos=True)
        self.asked.append((on.ids[:-num], list(result.token_ids), num))


@pytest.mark.parametrize("kv_tokens", [260, 4000])
def test_random_programs_equal_transformers(
    folder: Path, reference: transformers.PreTrainedModel, kv_tokens: int
) -> None:
    wanderer = Wanderer(kv_tokens)

    async def main(owner: LocalBackend) -> None:
        roots = [stream(owner, text) for text in prompts(5, seed=2)]
        await asyncio.gather(*(wanderer.walk(root, 2) for root in roots))
        core = (await owner.engine()).engine.core
        assert core.cache.referenced == 0
        core.cache.check()

    with backend(folder, kv_tokens=kv_tokens, reserve=0.0, prefill_tokens=50) as owner:
        run(lambda: main(owner))
        stats = owner.stats()
    assert stats["hit_rate"] <= stats["optimal_hit_rate"]
    assert len(wanderer.asked) > 50
    for prompt, output, num in wanderer.asked:
        assert output == greedy_ids(reference, prompt, num, eos=False)


def test_seeded_sampling_does_not_see_the_batch(local: LocalBackend) -> None:
    texts = prompts(12, seed=3)

    async def sampled(rows: list[int]) -> list[Any]:
        calls = [
            gen(stream(local, texts[i]), temperature=1.0, top_p=0.95, seeds=(i,), max_tokens=10)
            for i in rows
        ]
        return [r.token_ids for r in await asyncio.gather(*calls)]

    together = run(lambda: sampled(list(range(12))))
    shuffled = run(lambda: sampled([7, 2, 9]))
    assert shuffled == [together[7], together[2], together[9]]
    assert len({tuple(ids) for ids in together}) > 6


# -- what the engine saves ----------------------------------------------------------------------


def test_many_rows_decode_together(folder: Path) -> None:
    with backend(folder) as owner:
        run(lambda: answers(owner, prompts(32), max_tokens=32, ignore_eos=True))
        stats = owner.stats()
    assert stats["completion_tokens"] == 32 * 32
    assert stats["decode_steps"] <= 40
    assert stats["tokenizer_calls"] <= 32
    assert stats["peak_running"] == 32
    assert stats["hit_rate"] > 0.5  # sent at once, and yet one computes the shared part
    assert stats["hit_rate"] <= stats["optimal_hit_rate"]


def test_a_stream_of_five_gens_computes_each_token_once(folder: Path) -> None:
    async def five(owner: LocalBackend) -> tuple[int, int]:
        on, computed, pieces = stream(owner), 0, 0
        for i in range(5):
            on.append([Text(f"Step {i}: {WORDS[i]} "), Text("is the")])
            pieces += 2
            result = await gen(on, max_tokens=6, ignore_eos=True)
            computed += result.usage.prompt_tokens - result.usage.cached_tokens
        made = 5 * 6
        # Decode computed all generated tokens but the last of each gen.
        return computed, len(on.ids) - made + 5 - 1

    with backend(folder, seam="splice") as owner:
        computed, needed = run(lambda: five(owner))
        stats = owner.stats()
    assert computed == needed
    assert stats["tokenizer_calls"] <= 10
    assert stats["hit_rate"] == pytest.approx(stats["optimal_hit_rate"])


def test_canonical_seams_compute_no_more_than_they_change(folder: Path) -> None:
    async def five(owner: LocalBackend) -> int:
        on, extra = stream(owner, "The answer"), 0
        cached_before = 0
        for _ in range(5):
            ids = on.ids
            result = await gen(on, max_tokens=6, ignore_eos=True)
            before = on.ids[: len(on.ids) - 6]
            kept = next((i for i, (a, b) in enumerate(zip(ids, before)) if a != b), len(ids))
            extra += min(kept, cached_before) - result.usage.cached_tokens
            cached_before = len(on.ids) - 1
            on.append([Text(" is the quick fox")])
        return extra

    with backend(folder) as owner:
        assert run(lambda: five(owner)) == 0
        assert owner.stats()["tokenizer_calls"] <= 6


def test_forked_text_is_encoded_once(local: LocalBackend) -> None:
    async def main() -> int:
        before = local.tokenizer.calls
        parent = stream(local, "The quick brown fox jumps over")
        children = [parent.fork() for _ in range(8)]
        await asyncio.gather(*(gen(c, max_tokens=2) for c in children))  # type: ignore[arg-type]
        return local.tokenizer.calls - before

    assert run(main) == 1


def test_forks_share_what_is_computed(local: LocalBackend) -> None:
    async def main() -> None:
        parent = stream(local, prompts(1, seed=8)[0])
        await gen(parent, max_tokens=6, ignore_eos=True)
        children = [parent.fork() for _ in range(8)]
        results = await asyncio.gather(*(gen(c, max_tokens=3) for c in children))  # type: ignore[arg-type]
        for result in results:
            assert result.usage.prompt_tokens - result.usage.cached_tokens == 1
            assert result.token_ids == results[0].token_ids

    run(main)


def test_idle_streams_never_block_a_full_pool(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        idle = [stream(owner, f"{i} {text}") for i, text in enumerate(prompts(200, seed=5))]
        await asyncio.gather(*(gen(s, max_tokens=2) for s in idle))
        fresh = await answers(owner, ["Brown dogs " + t for t in prompts(8, seed=6)], max_tokens=20)
        assert len(fresh) == 8
        back = await asyncio.gather(*(gen(s, max_tokens=2) for s in idle[:20]))
        assert all(r.finish_reason in ("length", "eos") for r in back)

    with backend(folder, kv_tokens=300) as owner:
        run(lambda: main(owner))


def test_cancelling_frees_the_slots(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        await answers(owner, prompts(1))
        cache = (await owner.engine()).engine.core.cache
        tasks = [
            asyncio.ensure_future(gen(stream(owner, t), max_tokens=400, ignore_eos=True))
            for t in prompts(4)
        ]
        while cache.referenced == 0:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(200):
            if cache.referenced == 0:
                break
            await asyncio.sleep(0.005)
        assert cache.referenced == 0
        assert (await answers(owner, ["the dog"]))[0]

    with backend(folder) as owner:
        run(lambda: main(owner))


# -- samples, stops, characters -----------------------------------------------------------------


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


# -- select -------------------------------------------------------------------------------------


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


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"regex": "a+"}, "regex"),
        ({"json_schema": True}, "json_schema"),
        ({"grammar": "start: /a/"}, "grammar"),
        ({"dtype": "int"}, "dtype"),
        ({"heal": True}, "heal"),
        ({"logit_bias": {"99999": 1.0}}, "logit_bias.*99999"),
        ({"stop_token_ids": (99999,)}, "stop_token_ids.*99999"),
        ({"max_tokens": 5000}, "3 prompt tokens and 5000 more exceed .* 1024"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_refused_by_name(
    local: LocalBackend, params: dict[str, Any], name: str
) -> None:
    with pytest.raises(BackendError, match=name):
        run(lambda: gen(stream(local, "The quick brown"), **params))


def test_media_are_refused(local: LocalBackend) -> None:
    with pytest.raises(BackendError, match="does not take images yet"):
        stream(local).append([Media("image", b"x")])


def test_a_call_that_never_fits_names_its_numbers(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        long = gen(stream(owner, " ".join(WORDS * 3)), max_tokens=4)
        fine = gen(stream(owner, "the fox"), max_tokens=4)
        failed, result = await asyncio.gather(long, fine, return_exceptions=True)
        assert isinstance(failed, BackendError)
        assert "the pool has 30" in str(failed)
        assert not isinstance(result, BaseException)

    with backend(folder, kv_tokens=30) as owner:
        run(lambda: main(owner))


def test_an_empty_prompt_without_bos_is_refused(tmp_path: Path) -> None:
    with (
        backend(tiny_folder(tmp_path, "gpt2")) as owner,
        pytest.raises(BackendError, match="the prompt is empty"),
    ):
        run(lambda: gen(stream(owner)))


@pytest.mark.parametrize(
    "options",
    [
        {"kv_tokens": 0},
        {"kv_tokens": 5, "kv_memory": "1GB"},
        {"seam": "tight"},
        {"kv_memory": "many"},
        {"reserve": 2.0},
    ],
    ids=str,
)
def test_options_without_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BackendError):
        LocalBackend("nowhere", **options)


def test_memory_for_no_token_is_told_at_the_first_call(folder: Path) -> None:
    owner = LocalBackend(folder, dtype="float32", kv_memory="12")
    with pytest.raises(BackendError, match="kv_memory of 12 bytes holds no token"):
        run(lambda: gen(stream(owner, "the fox")))
    owner.close()


def test_kv_memory_sets_the_pool(folder: Path) -> None:
    owner = LocalBackend(folder, dtype="float32", kv_memory="1MiB")
    run(lambda: gen(stream(owner, "the fox")))
    pool = owner.load() or run(owner.engine).engine.core.cache.num_slots
    assert pool == (1 << 20) // (2 * 2 * 2 * 8 * 4)
    owner.close()


def test_a_missing_model_is_told_at_the_first_call() -> None:
    owner = LocalBackend("./nowhere")
    assert owner.stats() == {}
    for _ in range(2):
        with pytest.raises(ModelError, match="nowhere"):
            run(lambda: gen(stream(owner, "x")))
    owner.close()


def test_closing_fails_what_is_in_flight(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        await gen(stream(owner, "the fox"))
        task = asyncio.ensure_future(gen(stream(owner, "the"), max_tokens=900, ignore_eos=True))
        await asyncio.sleep(0.02)
        await asyncio.to_thread(owner.close)
        with pytest.raises(BackendError, match="closed"):
            await task
        with pytest.raises(BackendError, match="closed"):
            await gen(stream(owner, "the fox"))

    with backend(folder) as owner:
        run(partial(main, owner))


def test_greedy_is_the_default_of_these_tests() -> None:
    assert SamplingParams(**GREEDY).greedy
