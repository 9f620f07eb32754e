"""Equal calls made once: same results as without, whoever comes first, fails or is cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgc
from sgc.compile import CompiledProgram
from sgc.testing import ScriptedBackend
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.merging import MergingBackend, call_key
from sgc_runtime.executor.backend import Call, Text
from sgc_runtime.executor.merges import Merges, Place, tool_key

runs: Counter[str] = Counter()


@sgc.tool(effect="pure")
def look_up(word: str) -> dict[str, Any]:
    runs[word] += 1
    return {"word": word, "found": []}


@sgc.tool(effect="repeatable")
def note(word: str) -> str:
    runs[f"note {word}"] += 1
    return word


@sgc.function
def summary(s: Any, document: str) -> Any:
    s += "Sum up: " + document
    s += sgc.gen("summary", temperature=0, max_tokens=5)
    return s["summary"]


@sgc.function
def answer(s: Any, document: str, question: str) -> Any:
    short = summary(document)
    known = sgc.call(look_up, document)
    s += sgc.user(short["summary"] + " " + known["word"] + question)
    s += sgc.assistant(sgc.gen("free", max_tokens=5))
    s += sgc.user("Sure?")
    s += sgc.assistant(sgc.select("sure", ["yes", "no"]))
    s += sgc.gen("fixed", seed=7, n=2, max_tokens=3)
    return s["sure"]


def script() -> ScriptedBackend:
    return ScriptedBackend(lambda prompt, params: f" {len(prompt)} {params.seed} words", delay=None)


def view(state: Any) -> Any:
    return dict(state.vars), state.text(), state.messages(), state.value, state.usage


ROWS = [{"document": f"d{i % 3}", "question": f"q{i % 4}"} for i in range(24)]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_rows_give_what_they_give_without_merging(mode: str) -> None:
    plain, merging = script(), script()
    before = answer.run_batch(ROWS, backend=plain, mode=mode)
    after = answer.run_batch(ROWS, backend=merging, mode=mode, merge=True)
    assert [view(state)[:4] for state in before] == [view(state)[:4] for state in after]
    assert [s.usage.completion_tokens for s in before] == [s.usage.completion_tokens for s in after]
    made = Counter(call["prompt"] for call in merging.calls if call["prompt"].startswith("Sum up"))
    assert made == Counter({f"Sum up: d{i}": 1 for i in range(3)})
    sampled = [call for call in merging.calls if call["node"] == "g1"]
    assert len(sampled) == len(ROWS), "what is sampled is never merged"
    others = Counter((c["node"], c["prompt"]) for c in merging.calls if c["node"] in ("g2", "g3"))
    assert set(others.values()) == {1}
    assert len(others) == 2 * len({(r["document"], r["question"]) for r in ROWS})


def test_pure_tools_run_once_and_others_always() -> None:
    @sgc.function
    def uses(s: Any, word: str) -> Any:
        found = sgc.call(look_up, word)
        sgc.call(note, word)
        return found

    runs.clear()
    states = uses.run_batch([{"word": "a"}] * 5, merge=True, mode="interpreted")
    assert runs == {"a": 1, "note a": 5}
    states[0].value["found"].append(1)
    assert [state.value["found"] for state in states[1:]] == [[]] * 4, "each row has its own copy"


def ask(prompt: str = "", **params: Any) -> Call:
    return Call("g0", "", 0, SamplingParams(**params), (5,))


def test_what_is_left_to_chance_has_no_key() -> None:
    assert call_key(b"", ask()) is None
    for sure in {"temperature": 0.0}, {"choices": ("a", "b")}, {"seed": 1}:
        assert call_key(b"", ask(**sure)) is not None
    assert call_key(b"", ask(seed=1)) != call_key(b"", ask(seed=2))
    schema = {"maximum": 10**40}
    assert call_key(b"", ask(temperature=0.0, json_schema=schema)) is None


def test_keys_of_tools_tell_types_apart() -> None:
    def key(*args: Any) -> bytes | None:
        return tool_key(look_up, args, {})

    kinds: list[Any] = [1, 1.0, True, "1", (1,), [1], {"a": 1}, -0.0, 0.0, None]
    assert len({key(kind) for kind in kinds}) == len(kinds)
    assert key(object()) is None
    assert tool_key(note, ("a",), {}) is None


class Slow(ScriptedBackend):
    """Fails its first calls."""

    def __init__(self, failures: int) -> None:
        super().__init__(lambda prompt, params: " done", delay=lambda prompt: 0.002)
        self.failures = failures

    async def begin(self, *args: Any) -> Any:
        entry = await super().begin(*args)
        self.failures -= 1
        if self.failures >= 0:
            raise sgc.BackendError("not now")
        return entry


def test_one_that_fails_is_made_by_the_next() -> None:
    @sgc.function
    def same(s: Any, n: int) -> Any:
        s += "same" + sgc.gen("v", temperature=0)

    backend = Slow(2)
    states = same.run_batch([{"n": i} for i in range(6)], backend=backend, merge=True)
    assert sum(state.error() is not None for state in states) == 2
    assert len(backend.calls) == 3
    assert {state["v"] for state in states if state.error() is None} == {" done"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["fail", "cancel", "run"]), min_size=1, max_size=8))
def test_whoever_waits_goes_on(fates: list[str]) -> None:
    made: list[int] = []

    async def make(number: int) -> int:
        made.append(number)
        await asyncio.sleep(0)
        if fates[number] == "fail":
            raise ValueError(number)
        await asyncio.sleep(0 if fates[number] == "run" else 3600)
        return number

    async def run() -> list[Any]:
        merges = Merges()
        tasks = [
            asyncio.create_task(merges.once(b"k", Place(i, "g0"), lambda i=i: make(i)))
            for i in range(len(fates))
        ]
        for _ in range(200):
            await asyncio.sleep(0)
            for i in made:
                if fates[i] == "cancel":
                    tasks[i].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert merges.calls == len(found) - len(made)
        return found

    found = asyncio.run(run())
    first = next((i for i, fate in enumerate(fates) if fate == "run"), len(fates))
    assert made == list(range(min(first + 1, len(fates))))
    for i, outcome in enumerate(found):
        if i < first:
            assert isinstance(outcome, BaseException)
        else:
            assert outcome == (first, i == first)


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.booleans()), max_size=5), st.data())
def test_pieces_are_what_they_say_however_they_are_cut(
    pieces: list[tuple[str, bool]], data: st.DataObject
) -> None:
    backend = MergingBackend(script(), Merges())
    whole, cut = backend.open(), backend.open()
    for text, control in pieces:
        whole.append([Text(text, control)])
        at = data.draw(st.integers(0, len(text)))
        cut.append([Text(text[:at], control), Text(text[at:], control)])
    assert whole._prompt_key() == cut._prompt_key()
    other = backend.open()
    other.append([Text(text, not control) for text, control in pieces])
    assert (whole._prompt_key() == other._prompt_key()) == (not pieces)


def test_a_compiled_program_lists_what_was_merged() -> None:
    program = answer.compile()
    assert isinstance(program, CompiledProgram)
    job = program.job({"backend": script(), "merge": True})
    from sgc_runtime.executor.loop import run_sync

    for index, row in enumerate(ROWS[:4]):
        run_sync(job.row(index, program.arguments((), row)))
    assert job.merges is not None
    listed = {(group["node"], group["made"]): group["rows"] for group in job.merges.to_list()}
    assert listed["c0/g0", "c0/g0"] == [[3, 0]]
    assert job.merges.calls == sum(map(len, listed.values())) > 0
