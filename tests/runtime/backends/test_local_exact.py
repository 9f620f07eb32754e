"""`distribution="exact"` on the local engine against one full forward a text."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support.local import backend, gen, prompts, run, stream

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

PROMPT = "The quick brown fox"
EXACT: dict[str, Any] = {"distribution": "exact", "max_tokens": 40}
WHOLE = {
    "ratings": ["Excellent", "Above Average", "Fair", "Below Average"],
    "beginnings of each other": ["apple", "apple pie", "applet", "apricot", "axe"],
    "nothing, too": ["", "the", "the quick"],
    "characters that begin alike": ["😀", "😁", "😂"],
    "unicode": ["日本語です", "日本酒です", "naïve", "😀😁", "😀😂"],
}


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def precise(folder: Path) -> transformers.PreTrainedModel:
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.double().eval()


def logprob(model: transformers.PreTrainedModel, before: list[int], ids: list[int]) -> float:
    """Of `ids` behind `before`, by one forward over all."""
    with torch.inference_mode():
        logp = model(torch.tensor([before + ids])).logits[0].log_softmax(-1)
    places = range(len(before) - 1, len(before) + len(ids) - 1)
    return sum(float(logp[place, token]) for place, token in zip(places, ids, strict=True))


def shares(
    model: transformers.PreTrainedModel,
    tokenizer: Tokenizer,
    begun: str,
    ends: dict[str, list[list[int]]],
) -> dict[str, float]:
    """Renormalised probabilities of the texts, each by the ids that it may end with."""
    before = tokenizer.encode(PROMPT) + (tokenizer.encode(begun) if begun else [])
    sums = {
        text: np.logaddexp.reduce([logprob(model, before, ids) for ids in sequences])
        for text, sequences in ends.items()
    }
    total = np.logaddexp.reduce(list(sums.values()))
    return {text: float(np.exp(value - total)) for text, value in sums.items()}


def told(result: CallResult, place: int = 0) -> dict[str, float]:
    """Texts from the gen's beginning on with the probabilities that the metadata gives."""
    found = result.meta["distribution"][place]
    before = result.text[: found["begin"]]
    pairs = zip(found["texts"], found["probabilities"], strict=True)
    return {before + text: share for text, share in pairs}


def alternatives(texts: list[str]) -> str:
    return "|".join(texts)


def ask(owner: LocalBackend, pattern: str, text: str = PROMPT, **params: Any) -> CallResult:
    async def main() -> CallResult:
        return await gen(stream(owner, text), regex=pattern, **{**EXACT, **params})

    result: CallResult = run(main)
    return result


@pytest.mark.parametrize("case", WHOLE)
def test_whole_texts_have_the_probabilities_of_a_full_forward(
    case: str, local: LocalBackend, precise: transformers.PreTrainedModel, tokenizer: Tokenizer
) -> None:
    texts = WHOLE[case]
    eos = [[*(tokenizer.encode(text) if text else [])] for text in texts]
    ends = {t: [[*ids, e] for e in tokenizer.eos_ids] for t, ids in zip(texts, eos, strict=True)}
    expected = shares(precise, tokenizer, "", ends)
    result = ask(local, alternatives(texts))
    assert told(result) == pytest.approx(expected, abs=1e-4)
    assert result.text == max(expected, key=expected.__getitem__)
    assert result.finish_reason == "constraint"
    assert result.complete
    assert list(result.token_ids) == (tokenizer.encode(result.text) if result.text else [])


def test_a_stop_is_what_ends_the_texts(
    local: LocalBackend, precise: transformers.PreTrainedModel, tokenizer: Tokenizer
) -> None:
    texts = WHOLE["beginnings of each other"]
    ends = {text: [tokenizer.encode(f"{text}{stop}") for stop in ("\n", ".")] for text in texts}
    expected = shares(precise, tokenizer, "", ends)
    result = ask(local, alternatives(texts), stop=("\n", "."))
    assert told(result) == pytest.approx(expected, abs=1e-4)
    assert list(result.token_ids) == tokenizer.encode(result.text)


def test_in_the_middle_of_a_regex(
    local: LocalBackend, precise: transformers.PreTrainedModel, tokenizer: Tokenizer
) -> None:
    grades = [letter + sign for letter in "ABCD" for sign in ("", "+", "-")]
    texts = [f"Grade: {grade};" for grade in grades]
    ends = {text: [tokenizer.encode(f"{text} Reason:")] for text in texts}
    expected = shares(precise, tokenizer, "", ends)
    result = ask(local, r"Grade: (A|B|C|D)[+-]?; Reason: [a-z ]*")
    assert told(result) == pytest.approx(expected, abs=1e-4)
    best = max(expected, key=expected.__getitem__)
    assert result.text.startswith(f"{best} Reason: ")
    assert result.usage.forced_tokens > 0
    assert result.usage.completion_tokens == len(result.token_ids)


def test_behind_free_text(local: LocalBackend) -> None:
    result = ask(local, "[a-z ]{2,12}; (yes|no), [a-z]{2,5}; (one|two)", temperature=1.0)
    assert len(result.meta["distribution"]) >= 2
    assert result.finish_reason == "constraint"


def test_the_stream_goes_on_with_what_was_taken(
    local: LocalBackend, reference: transformers.PreTrainedModel, tokenizer: Tokenizer
) -> None:
    async def main() -> tuple[CallResult, CallResult, list[int]]:
        on = stream(local, PROMPT)
        first = await gen(on, regex=alternatives(WHOLE["ratings"]), **EXACT)
        ids = list(on.ids)
        return first, await gen(on, max_tokens=6, ignore_eos=True), ids

    first, second, ids = run(main)
    assert ids == tokenizer.encode(PROMPT) + list(first.token_ids)
    with torch.inference_mode():
        for token in second.token_ids:
            assert int(reference(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)
    assert second.usage.cached_tokens >= second.usage.prompt_tokens - 1


def test_draws_follow_the_shares(local: LocalBackend) -> None:
    heat, num = 30.0, 600
    known = told(ask(local, alternatives(WHOLE["ratings"])))
    weights = np.array(list(known.values())) ** (1 / heat)
    expected = weights / weights.sum() * num

    async def main() -> list[CallResult]:
        found = []
        for start in range(0, num, 100):
            on, seeds = stream(local, PROMPT), tuple(range(start, start + 100))
            found += await samples(on, seeds, temperature=heat)
        return found

    results = run(main)
    drawn = Counter(result.text for result in results)
    seen = np.array([drawn[text] for text in known])
    assert seen.sum() == num
    assert ((seen - expected) ** 2 / expected).sum() < 24  # chi-square, 3 degrees: p = 2.5e-5
    assert sum(result.usage.prompt_tokens > 0 for result in results) == num // 100


async def samples(on: Any, seeds: tuple[int, ...], **params: Any) -> list[CallResult]:
    from sgc_ir.params import SamplingParams
    from sgc_runtime.executor.backend import Call

    values = SamplingParams(
        **{**EXACT, "regex": alternatives(WHOLE["ratings"]), "n": len(seeds), **params}
    )
    results: list[CallResult] = await on.generate(Call("g0", "", 0, values, seeds))
    return results


def test_samples_are_those_of_their_seeds(local: LocalBackend) -> None:
    async def main() -> tuple[list[str], list[str]]:
        together = await samples(stream(local, PROMPT), (3, 4, 5), temperature=30.0)
        alone = [
            (await samples(stream(local, PROMPT), (seed,), temperature=30.0))[0]
            for seed in (3, 4, 5)
        ]
        return [r.text for r in together], [r.text for r in alone]

    together, alone = run(main)
    assert together == alone


PATTERNS = (
    r"Grade: (A|B|C|D)[+-]?; Reason: [a-z ]{3,10}",
    "[a-z]{2,5}; (one|two|three)",
    "(yes|no): (日本語|日本酒)です, .{1,8}",
    alternatives(WHOLE["beginnings of each other"]),
)


async def _all(owner: LocalBackend, batch: int) -> list[Any]:
    """What each of some gens gives, at most `batch` at a time."""
    places = asyncio.Semaphore(batch)

    async def one(number: int, text: str) -> tuple[object, ...]:
        async with places:
            pieces: list[str] = []
            params = {**EXACT, "temperature": (0.0, 20.0)[number % 2], "stop": ("e 1", "o w")}
            pattern = PATTERNS[number % len(PATTERNS)]
            r = await gen(
                stream(owner, text),
                regex=pattern,
                seeds=(number,),
                on_text=pieces.append,
                **params,
            )
            assert "".join(pieces) == r.text
            sets = [sorted(d["texts"]) for d in r.meta["distribution"]]
            counts = (r.usage.completion_tokens, r.usage.forced_tokens, r.usage.scored_tokens)
            return (r.text, tuple(r.token_ids), r.finish_reason, counts, str(sets))

    texts = prompts(3) * 4
    return list(await asyncio.gather(*(one(i, text) for i, text in enumerate(texts))))


@pytest.mark.parametrize(
    "options",
    [
        {"jump": False},
        {"kv_tokens": 420, "reserve": 0.0, "hints": False, "prefill_tokens": 16},
        {"kv_tokens": 420, "reserve": 0.0, "jump": False, "cache": False},
    ],
)
def test_no_setting_changes_what_comes(folder: Path, options: dict[str, Any]) -> None:
    async def answers(batch: int, **settings: Any) -> list[tuple[object, ...]]:
        with backend(folder, **settings) as owner:
            found = await _all(owner, batch)
            core = (await owner.engine()).engine.core
            core.cache.check()
            assert core.cache.referenced == 0
            return found

    alone = run(lambda: answers(1))
    assert run(lambda: answers(12, **options)) == alone


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"regex": "[a-z]+"}, "this has none"),
        ({"regex": None}, "without a constraint"),
        ({"regex": None, "dtype": "int"}, "dtype=int has too many"),
        ({"regex": "a|b", "logprobs": True}, "together with logprobs"),
        ({"regex": "a|b", "repetition_penalty": 1.5, "min_tokens": 1}, "min_tokens, repetition"),
        ({"regex": "a|b", "max_tokens": 0}, "max_tokens"),
    ],
)
def test_refusals(local: LocalBackend, params: dict[str, Any], reason: str) -> None:
    async def main() -> None:
        await gen(stream(local, PROMPT), **{**EXACT, **params})

    with pytest.raises(BackendError, match=reason):
        run(main)


@pytest.mark.parametrize(
    "params",
    [
        {"dtype": "bool"},
        {"json_schema": {"enum": ["high", "low", 3]}},
        {"grammar": 'start: "a" x\nx: "b" | "c" x2\nx2: "d"?'},
    ],
)
def test_every_kind_of_constraint(local: LocalBackend, params: dict[str, Any]) -> None:
    async def main() -> CallResult:
        return await gen(stream(local, PROMPT), **EXACT, **params)

    result: CallResult = run(main)
    assert sum(told(result).values()) == pytest.approx(1)
    assert result.text in told(result)


def test_heals_the_prompt(local: LocalBackend, tokenizer: Tokenizer) -> None:
    result = ask(local, "(own fox|own dog)", text="The quick br", heal=True)
    assert result.text in ("own fox", "own dog")
    assert result.rolled_back > 0
