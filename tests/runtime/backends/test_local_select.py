"""Select on the local engine against one full forward a choice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.local import WORDS, backend, gen, greedy_ids, prompts, run, select, stream, tiny_folder

from sgc_ir.params import CHOICE_METHODS, CallResult
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Text


def full_forward(model: transformers.PreTrainedModel, ids: list[int]) -> list[float]:
    """Log-probability of each id but the first, given all before it."""
    with torch.inference_mode():
        logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return [float(logp[i - 1, ids[i]]) for i in range(1, len(ids))]


def brute_force(
    model: transformers.PreTrainedModel,
    tokenizer: Any,
    prompt: str,
    choices: list[str],
    method: str,
    bos: tuple[int, ...] = (),
) -> tuple[list[float], int, int]:
    """Scores by one full forward a choice, the winner, and how many ids are scored."""
    bare = prompt.rstrip(" ")
    base = [*bos, *(tokenizer.encode(bare) if bare else [])]
    encoded = [[*bos, *tokenizer.encode(prompt + c)] for c in choices]
    start = min(
        next((i for i, (a, b) in enumerate(zip(base, e)) if a != b), len(base)) for e in encoded
    )
    rows = [[0.0, *full_forward(model, ids)][start:] for ids in encoded]
    scores = [sum(x) / len(x) for x in rows]
    if method == "unconditional_likelihood_normalized":
        for i, ids in enumerate(encoded):
            scores[i] -= sum(full_forward(model, ids[start:])) / len(rows[i])
    best = scores.index(max(scores))
    if method == "greedy_token_selection":
        longest = max(map(len, rows))
        padded = [x + [scores[i]] * (longest - len(x)) for i, x in enumerate(rows)]
        rounded = [[round(x, 5) for x in row] for row in padded]  # shared tokens are equal
        best = rounded.index(max(rounded))
    return scores, best, sum(map(len, rows))


CASES = {
    "words": ("What is the capital of France? Answer:", ["Paris", "the capital", "late", "42"]),
    "starts of each other": ("The answer is", ["la", "lazy", "la la", "lazy dog", "lazy do"]),
    "long shared starts": ("It is", [f"the quick brown fox jumps over {w}" for w in WORDS[:5]]),
    "one": ("The quick brown", ["fox"]),
    "unicode": ("The answer is", ["naïve", "naïf", "日本語", "日本", "🦊🦊", "🦊"]),
    "longer and longer": ("the", ["fox " * n + "." for n in range(1, 8)]),
}


@pytest.mark.parametrize("method", CHOICE_METHODS)
@pytest.mark.parametrize("blank", ["", " ", "  "])
@pytest.mark.parametrize("case", CASES)
def test_scores_equal_a_full_forward(
    local: LocalBackend, reference: transformers.PreTrainedModel, method: str, blank: str, case: str
) -> None:
    prompt, choices = CASES[case]
    if blank == "":
        choices = [" " + c for c in choices]
    check(local, reference, prompt + blank, choices, method)


def check(
    owner: LocalBackend,
    model: transformers.PreTrainedModel,
    prompt: str,
    choices: list[str],
    method: str,
    bos: tuple[int, ...] = (),
) -> None:
    async def main() -> tuple[CallResult, list[int]]:
        on = stream(owner, prompt)
        return await select(on, choices, method), on.ids

    result, ids = run(main)
    scores, best, num_scored = brute_force(model, owner.tokenizer, prompt, choices, method, bos)
    assert result.meta["scores"] == pytest.approx(scores, abs=1e-4)
    assert result.text == choices[best]
    assert result.usage.scored_tokens == num_scored
    assert result.timing is not None
    whole = [*bos, *owner.tokenizer.encode(prompt + result.text)]
    assert ids == whole
    assert list(result.token_ids) == whole[len(whole) - len(result.token_ids) :]
    assert result.usage.prompt_tokens == len(whole) - len(result.token_ids)


@pytest.mark.parametrize("method", CHOICE_METHODS)
def test_three_hundred_choices(
    local: LocalBackend, reference: transformers.PreTrainedModel, method: str
) -> None:
    rng = random.Random(5)
    choices: dict[str, None] = {}  # in the order of their coming
    while len(choices) < 300:
        choices[" " + " ".join(rng.choices(WORDS, k=rng.randrange(1, 5)))] = None
    check(local, reference, "The answer is", list(choices), method)


@pytest.mark.parametrize("method", CHOICE_METHODS)
@pytest.mark.parametrize("kind", ["smollm", "llama-bpe"])
def test_an_empty_prompt(tmp_path_factory: pytest.TempPathFactory, kind: str, method: str) -> None:
    folder = tiny_folder(tmp_path_factory.mktemp(kind), kind)
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with backend(folder) as owner:
        bos = owner.tokenizer.bos_id
        assert (bos is None) == (kind == "smollm")
        for choices in (["The fox", "The quick", "a"], ["a", "T"]):
            check(owner, model, "", choices, method, () if bos is None else (bos,))


def test_log_probabilities_without_context_are_remembered(local: LocalBackend) -> None:
    async def main() -> tuple[CallResult, CallResult, int]:
        core = (await local.engine()).engine.core
        words = [" jumps over", " jumps the", " fox"]
        method = "unconditional_likelihood_normalized"
        one = await select(stream(local, "What is the fox"), words, method)
        before = core.metrics.prefill_steps
        two = await select(stream(local, "What is the fox"), words, method)
        return one, two, core.metrics.prefill_steps - before

    one, two, steps = run(main)
    assert one.meta["scores"] == pytest.approx(two.meta["scores"], abs=1e-5)
    assert one.text == two.text
    assert steps == 1


@pytest.mark.parametrize(
    "options",
    [
        {"prefill_tokens": 7},
        {"prefill_tokens": 512},
        {"kv_tokens": 110, "reserve": 0.0, "hints": False, "prefill_tokens": 7},
        {"kv_tokens": 110, "reserve": 0.0, "hints": False, "prefill_tokens": 512},
        {"cache": False},
    ],
    ids=str,
)
def test_selects_among_gens_under_pressure(
    folder: Path, reference: transformers.PreTrainedModel, options: dict[str, Any]
) -> None:
    texts = prompts(12, seed=4)
    sets = [
        [" " + " ".join(WORDS[i : i + n]) for i in (0, 3, 5) for n in (1, 2, 3)],
        [" fox", " a"],
    ]

    async def main(owner: LocalBackend) -> list[Any]:
        calls: list[Any] = []
        for i, text in enumerate(texts):
            calls.append(gen(stream(owner, text), max_tokens=14, ignore_eos=True))
            calls.append(select(stream(owner, text), sets[i % 2], CHOICE_METHODS[i % 3]))
        found = await asyncio.gather(*calls)
        core = (await owner.engine()).engine.core
        assert core.cache.referenced == 0
        core.cache.check()
        return found

    with backend(folder, **options) as owner:
        found = run(lambda: main(owner))
        stats = owner.stats()
        tokenizer = owner.tokenizer
    for i, text in enumerate(texts):
        expected = greedy_ids(reference, tokenizer.encode(text), 14, eos=False)
        assert list(found[2 * i].token_ids) == expected
        scores, best, _ = brute_force(
            reference, tokenizer, text, sets[i % 2], CHOICE_METHODS[i % 3]
        )
        assert found[2 * i + 1].meta["scores"] == pytest.approx(scores, abs=1e-4)
        assert found[2 * i + 1].text == sets[i % 2][best]
    if options.get("reserve") == 0.0:
        assert stats["retractions"] > 0
    assert stats["hit_rate"] <= stats["optimal_hit_rate"]


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
