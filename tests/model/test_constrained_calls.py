"""Calls of every kind under constraints, on the default model in float32: with and without jumps,
alone and together, with little memory; and as plain reasoning about their parameters says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from support.local import gen, run, stream
from support.on_off import Answer, Asked, answer_all, differences
from support.shared_model import SharedModel

import sgc
from sgc.testing import RecordingBackend, ReplayBackend
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Call, Text
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.model

ABOUT = "Hermione is a witch. As JSON: "
PERSON = r'\{"name": "[A-Z][a-z]{1,7}", "age": [0-9]{1,3}, "house": "(Gryffindor|Slytherin)"\}'
MORE: dict[str, dict[str, Any]] = {
    "plain": {},
    "one token": {"max_tokens": 1},
    "a few tokens": {"max_tokens": 9},
    "stop in forced text": {"stop": ("age",)},
    "stop across forced and free text": {
        "stop": tuple(f'": "{letter}' for letter in ascii_uppercase)
    },
    "stop at the end": {"stop": ('"}',)},
    "stop that is the first byte": {"stop": ("{",)},
    "regex as a stop": {"stop_regex": ("a[a-z]e",)},
    "stop held back": {"stop": ("name", "age"), "min_tokens": 8},
    "many at least": {"min_tokens": 50},
    "end of text ignored": {"ignore_eos": True},
    "penalties": {"frequency_penalty": 1.5, "presence_penalty": 0.5},
    "repetition": {"repetition_penalty": 1.4},
    "narrow": {"temperature": 1.0, "top_k": 3},
    "nucleus": {"temperature": 1.2, "top_p": 0.8, "min_p": 0.02},
    "hot": {"temperature": 1.5},
    "own seed": {"temperature": 1.0, "seed": 11},
    "probabilities": {"logprobs": True, "top_logprobs": 3, "temperature": 0.7},
}
HEALED = {
    "a word": ("The capital of Fra", r"nce is (Paris|London|Rome)\."),
    "an address": ('He said "htt', r'ps?://[a-z]{3,8}\.com"'),
    "an object": ('As JSON: {"na', r'me": "[A-Za-z ]{1,12}"\}'),
    "a blank": ("The capital of France is ", r"(Paris|London|Rome)[.,]"),
    "no blank": ("The capital of France is", r" (Paris|London|Rome)[.,]"),
    "a line end": ("Answer:\n", r"\n?(yes|no)"),
}
EXACT = {
    "ratings": ("Rating: ", "Excellent|Above Average|Fair|Below Average"),
    "grades": ("Grade: ", "[ABCD][+-]?"),
    "in the middle": ("Report. ", r"Grade: [ABCD][+-]?; reason: [a-z ]{3,12}\."),
}
TINY: dict[str, Any] = {"kv_tokens": 110, "reserve": 0.0, "hints": False}
ENGINES = (
    (99, {"jump": False}),
    (16, {"jump": True, **TINY}),
    pytest.param(16, {"jump": False, **TINY}, marks=pytest.mark.long),
    pytest.param(1, {"jump": True}, marks=pytest.mark.long),
)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(resolve(DEFAULT_MODEL), "float32", "cpu")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(resolve(DEFAULT_MODEL))


def asked() -> list[Asked]:
    calls = [
        Asked(name, ABOUT, {"max_tokens": 40, "regex": PERSON, **more}, seed)
        for seed, (name, more) in enumerate(MORE.items())
    ]
    for seed, (name, (prompt, pattern)) in enumerate(HEALED.items()):
        for temperature in (0.0, 1.0):
            params = {"regex": pattern, "heal": True, "temperature": temperature, "max_tokens": 24}
            calls.append(Asked(f"healed: {name}", prompt, params, seed))
    for seed, (name, (prompt, pattern)) in enumerate(EXACT.items()):
        for temperature in (0.0, 1.0):
            params = {"regex": pattern, "temperature": temperature, "max_tokens": 24}
            calls.append(Asked(f"exact: {name}", prompt, {**params, "distribution": "exact"}, seed))
    return calls


@pytest.fixture(scope="module")
def answers(model: LoadedModel, tokenizer: Tokenizer) -> list[Answer]:
    """Of all calls, together, with jumps."""
    return answer_all(model, tokenizer, asked(), 99, jump=True)[0]


@pytest.fixture(scope="module")
def found(answers: list[Answer]) -> dict[str, CallResult]:
    """Greedy results by their calls' names."""
    pairs = zip(asked(), answers, strict=True)
    return {
        call.name: answer.result
        for call, answer in pairs
        if isinstance(answer.result, CallResult) and call.params.get("temperature") != 1.0
    }


@pytest.mark.parametrize(("batch", "options"), ENGINES, ids=str)
def test_no_setting_changes_anything(
    model: LoadedModel,
    tokenizer: Tokenizer,
    answers: list[Answer],
    batch: int,
    options: dict[str, Any],
) -> None:
    calls = asked()
    others, stats = answer_all(model, tokenizer, calls, batch, **options)
    wrong = differences(calls, answers, others)
    assert not wrong, "\n".join(wrong)
    assert (stats["retractions"] > 0) == ("reserve" in options)


def test_complete_texts_are_legal(answers: list[Answer]) -> None:
    for call, answer in zip(asked(), answers, strict=True):
        assert isinstance(answer.result, CallResult), call.name
        legal = re.fullmatch(call.params["regex"], answer.result.text) is not None
        assert answer.result.complete == legal, call.name
        assert legal or answer.result.finish_reason in ("length", "stop"), call.name
        assert answer.pieces or not answer.result.text or "exact" in call.name, call.name


def test_a_limit_cuts_the_ids(found: dict[str, CallResult]) -> None:
    ids = list(found["plain"].token_ids)
    assert found["plain"].usage.forced_tokens > 8
    for name, limit in (("one token", 1), ("a few tokens", 9)):
        result = found[name]
        assert list(result.token_ids) == ids[:limit]
        assert (result.finish_reason, result.complete) == ("length", False)
        assert result.usage.completion_tokens == limit


def test_stops_cut_the_text(found: dict[str, CallResult]) -> None:
    text = found["plain"].text
    for name, end in (
        ("stop in forced text", text.index("age")),
        ("stop at the end", text.index('"}')),
        ("stop that is the first byte", 0),
    ):
        assert found[name].text == text[:end], name
        assert found[name].finish_reason == "stop", name
    across = text.index('": "')
    assert found["stop across forced and free text"].text == text[:across]
    by_regex = re.search("a[a-z]e", text)
    assert by_regex is not None
    assert found["regex as a stop"].text == text[: by_regex.start()]
    held = found["stop held back"]
    assert held.text == text[: text.index("age")]
    assert held.usage.completion_tokens > 8


def test_a_minimum_gives_way_to_the_end_of_the_text(found: dict[str, CallResult]) -> None:
    for name in ("many at least", "end of text ignored"):
        assert list(found[name].token_ids) == list(found["plain"].token_ids)
        assert found[name].finish_reason == "constraint"


def test_ids_that_stop_and_bias(
    model: LoadedModel, tokenizer: Tokenizer, found: dict[str, CallResult]
) -> None:
    """Each id of the plain text as a stop, forced ones among them; and digits by bias."""
    ids = list(found["plain"].token_ids)
    base: dict[str, Any] = {"max_tokens": 40, "regex": PERSON}
    calls = [
        Asked(f"stop id {token}", ABOUT, {**base, "stop_token_ids": (token,)})
        for token in dict.fromkeys(ids)
    ]
    (seven,) = tokenizer.encode("7", start=False)
    (comma,) = tokenizer.encode(",", start=False)
    calls.append(Asked("bias", ABOUT, {**base, "logit_bias": {str(seven): 100.0}}))
    calls.append(Asked("ban", ABOUT, {**base, "logit_bias": {str(comma): -100.0}}))
    one, _ = answer_all(model, tokenizer, calls, 99, jump=True)
    other, _ = answer_all(model, tokenizer, calls, 99, jump=False)
    assert differences(calls, one, other) == []
    for call, answer in zip(calls[:-2], one, strict=False):
        result, (token,) = answer.result, call.params["stop_token_ids"]
        assert isinstance(result, CallResult)
        assert (result.finish_reason, result.matched) == ("stop", token)
        before = ids[: ids.index(token)]
        assert result.text == tokenizer.decode(before), call.name
    biased, banned = one[-2].result, one[-1].result
    assert isinstance(biased, CallResult)
    assert isinstance(banned, CallResult)
    assert '"age": 777, ' in biased.text
    assert re.fullmatch(PERSON, banned.text)  # what is forced comes whatever the bias


def test_healed_texts_have_the_ids_of_the_whole(
    found: dict[str, CallResult], tokenizer: Tokenizer
) -> None:
    """With a blank at the prompt's end and `Paris`, that of no blank and ` Paris`."""
    ids, healed = {}, 0
    for name, (prompt, _) in HEALED.items():
        result = found[f"healed: {name}"]
        before = tokenizer.encode(prompt)
        ids[name] = before[: len(before) - result.rolled_back] + list(result.token_ids)
        assert ids[name] == tokenizer.encode(prompt + result.text), name
        healed += result.rolled_back > 0
    assert healed >= 4
    assert ids["a blank"] == ids["no blank"]


def test_exact_shares_are_told_and_taken(found: dict[str, CallResult]) -> None:
    for name in EXACT:
        result = found[f"exact: {name}"]
        first = result.meta["distribution"][0]
        shares = dict(zip(first["texts"], first["probabilities"], strict=True))
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)
        best = max(shares, key=lambda text: shares[text])
        assert result.text[first["begin"] :].startswith(best), name


Scenario = Callable[[LocalBackend], Any]


async def samples(owner: LocalBackend) -> list[CallResult]:
    """n = 3, beside each of them alone."""
    params = SamplingParams(regex=PERSON, max_tokens=40, temperature=1.0)
    three = replace(params, n=3)
    together = await stream(owner, ABOUT).generate(Call("g0", "", 0, three, (5, 6, 7)))
    single = [
        (await stream(owner, ABOUT).generate(Call("g0", "", 0, params, (seed,))))[0]
        for seed in (5, 6, 7)
    ]
    assert [list(r.token_ids) for r in together] == [list(r.token_ids) for r in single]
    assert len({r.text for r in together}) > 1
    return list(together)


async def forks(owner: LocalBackend) -> list[CallResult]:
    """Branches behind a constrained gen, text between, and the same without a fork."""
    on = stream(owner, ABOUT)
    first = await gen(on, regex=PERSON, max_tokens=40)
    ends = ("\nIs she kind? ", "\nHer friend: ", "\nHer age again: ")
    rules: tuple[dict[str, Any], ...] = (
        {"regex": "(Yes|No), (she|he) is( not)? kind"},
        {"json_schema": {"enum": ["Harry", "Ron", "Luna Lovegood"]}},
        {"dtype": "int", "max_tokens": 6},
    )

    async def branch(end: str, rule: dict[str, Any]) -> CallResult:
        forked = on.fork()
        forked.append([Text(end)])
        return await gen(forked, **{"max_tokens": 20, **rule})

    found = list(await asyncio.gather(*map(branch, ends, rules)))
    for end, rule, result in zip(ends, rules, found, strict=True):
        fresh = stream(owner, ABOUT + first.text + end)
        alone = await gen(fresh, **{"max_tokens": 20, **rule})
        assert (alone.text, list(alone.token_ids)) == (result.text, list(result.token_ids))
    return [first, *found]


async def gens_in_a_row(owner: LocalBackend) -> list[CallResult]:
    """One constrained gen behind another, without text between."""
    on = stream(owner, ABOUT)
    return [
        await gen(on, regex=r'\{"name": "[A-Z][a-z]{1,9}"', max_tokens=20),
        await gen(on, regex=r', "age": [0-9]{1,3}', max_tokens=20, temperature=1.0),
        await gen(on, regex=r"\}", max_tokens=20),
    ]


@pytest.mark.parametrize("scenario", [samples, forks, gens_in_a_row])
def test_streams(model: LoadedModel, tokenizer: Tokenizer, scenario: Scenario) -> None:
    results = []
    for jump in (True, False):
        with SharedModel(model, DEFAULT_MODEL, tokenizer, kv_tokens=2_000, jump=jump) as owner:
            results.append([Answer(r, [r.text]) for r in run(lambda: scenario(owner))])
    calls = [Asked(f"{scenario.__name__} {i}", "", {}) for i in range(len(results[0]))]
    assert differences(calls, *results) == []


@sgc.function
def interview(s: Any, who: str) -> Any:
    s += sgc.system("You answer in JSON.")
    s += sgc.user(f"Who is {who}?")
    s += sgc.assistant(sgc.gen("person", json_schema=SCHEMA, max_tokens=48))
    s += sgc.user("Is it a child?")
    s += sgc.assistant(sgc.gen("child", regex="Yes|No|(Rather|Quite) (un)?likely"))
    branches = s.fork(2)
    for branch, what in zip(branches, ("age", "height")):
        branch += sgc.user(f"Guess the {what}.")
        with branch.assistant():
            branch += "It is " + sgc.gen("guess", dtype=int, max_tokens=8) + "."
    branches.join()
    s += sgc.user("Grade the answers.")
    s += sgc.assistant(sgc.gen("grades", regex="[ABCD][+-]?", n=2, temperature=1.0))
    s += sgc.user("Grade them once more.")
    s += sgc.assistant(sgc.gen("grade", regex="[ABCD][+-]?", distribution="exact"))
    s += sgc.user("A sum?")
    s += sgc.assistant(sgc.gen("sum", grammar='start: ("1" | "2") " + " ("1" | "2") " = " /[2-4]/'))
    return s["person"], s["child"], s["guess"], s["grades"], s["grade"], s["sum"]


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "born": {"enum": [1979, 1980]}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
ROWS = [{"who": "Hermione"}, {"who": "Ron"}]


def outcome(backend: Any, mode: str) -> list[Any]:
    states = interview.run_batch(ROWS, backend=backend, mode=mode, seed=3)
    for state in states:
        if state.error() is not None:
            raise state.error()
    return [
        (
            s.value,
            s.text(),
            s.messages(),
            s.meta("person"),
            s.meta("grades"),
            s.meta("grade"),
            s.usage,
        )
        for s in states
    ]


def counts(backend: Any, mode: str) -> list[Any]:
    """Outcomes without what rounding changes."""
    return [(*found[:3], found[3]["finish_reason"]) for found in outcome(backend, mode)]


def test_chats_are_recorded_and_replayed(
    model: LoadedModel, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"kv_tokens": 4_000}
    with SharedModel(model, DEFAULT_MODEL, tokenizer, **options) as owner:
        recording = RecordingBackend(owner, tmp_path / "r")
        recorded = outcome(recording, "compiled")
        expected = counts(owner, "interpreted")
        recording.close()
    for mode in ("compiled", "interpreted"):
        replay = ReplayBackend(tmp_path / "r")
        assert outcome(replay, mode) == recorded
        replay.close()
    with SharedModel(model, DEFAULT_MODEL, tokenizer, jump=False, **options) as owner:
        assert counts(owner, "compiled") == expected
    assert [(*found[:3], found[3]["finish_reason"]) for found in recorded] == expected
    for (person, child, guess, grades, grade, total), *_ in recorded:
        assert set(person) == {"name", "born"}
        assert re.fullmatch("Yes|No|(Rather|Quite) (un)?likely", child)
        assert all(isinstance(number, int) for number in guess)
        assert all(re.fullmatch("[ABCD][+-]?", text) for text in (*grades, grade))
        assert re.fullmatch(r"[12] \+ [12] = [2-4]", total)
