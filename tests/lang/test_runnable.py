"""run, arun, stream and their options, interpreted."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import sgc
from sgc.lang.source import shown_file
from sgc.testing import ScriptedBackend

tag: contextvars.ContextVar[str] = contextvars.ContextVar("tag", default="none")


@sgc.function
def ask(s, q: str = "q"):
    s += q + sgc.gen("v") + "."
    return s["v"]


@sgc.function
def option_names(s, mode, seed, temperature, backend="b", options="o"):
    s += f"{mode} {seed} {temperature} {backend} {options}" + sgc.gen("v")
    return s.text()


@pytest.fixture(autouse=True)
def _default(backend):
    sgc.set_default_backend(backend)
    yield
    sgc.set_default_backend(None)


def test_the_finished_state(backend):
    state = ask.run("one two", mode="interpreted")
    assert state["v"] == state.value == " 2"
    assert state.text() == "one two 2."
    assert state.mode == "interpreted"
    assert state.vars == {"v": " 2"}
    assert state.meta("v")["finish_reason"] == "eos"
    assert state.messages() == []
    assert state.error() is None
    assert (state.usage.prompt_tokens, state.usage.completion_tokens) == (2, 1)
    assert state.get("nope", 5) == 5
    with pytest.raises(KeyError, match="nope"):
        state["nope"]


def test_sampling_options_are_defaults_that_a_gen_overrides(backend):
    @sgc.function
    def program(s):
        s += "a" + sgc.gen() + sgc.gen(temperature=0.3, stop="s")

    program.run(mode="interpreted", temperature=0, max_tokens=7, stop=["x"], seed=5, top_p=0.5)
    first, second = (call["params"] for call in backend.calls)
    assert (first["temperature"], first["max_tokens"], first["stop"]) == (0.0, 7, ["x"])
    assert (second["temperature"], second["max_tokens"], second["stop"]) == (0.3, 7, ["s"])
    assert second["top_p"] == 0.5


def test_an_argument_named_like_an_option_is_the_argument(backend):
    state = option_names.run("m", "s", "t", options="mine", backend="x")
    assert state.value == "m s t x mine 5"

    @sgc.function
    def mode_only(s, mode, temperature):
        s += f"{mode}{temperature}" + sgc.gen("v")
        return s.text()

    options = {"mode": "interpreted", "temperature": 0.25}
    assert mode_only.run(mode=1, temperature="t", options=options).value == "1t 1"
    assert backend.calls[-1]["params"]["temperature"] == 0.25


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"mode": "sideways"},
        {"seed": "five"},
        {"options": {"nope": 1}},
        {"options": 3},
        {"seed": 1, "options": {"seed": 2}},
        {"parallel": 3},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(sgc.InputError):
        ask.run("x", **options)


def test_no_backend_is_needed_without_model_calls():
    sgc.set_default_backend(None)

    @sgc.function
    def program(s, x):
        s += f"{x}"
        return s.text()

    assert program.run(3, mode="interpreted").value == "3"


def test_arun_and_run_inside_a_running_event_loop(backend):
    async def main():
        runs = [ask.arun(f"w{i}", mode="interpreted") for i in range(5)]
        values = [state.value for state in await asyncio.gather(*runs)]
        return values, ask.run("a b", mode="interpreted").value

    values, inside = asyncio.run(main())
    assert values == [" 1"] * 5
    assert inside == " 2"


def test_cancelling_arun_stops_the_run(backend):
    backend.delay = lambda prompt: 600.0

    async def main():
        task = asyncio.create_task(ask.arun("x", mode="interpreted"))
        while not backend.calls:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    deadline = time.monotonic() + 60
    while any(t.name == "sgc-ask" for t in threading.enumerate()):  # the body's thread ends too
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_programs_at_once_on_two_backends():
    one = ScriptedBackend(lambda prompt, params: " one", delay=lambda prompt: 0.05)
    two = ScriptedBackend(lambda prompt, params: " two", delay=lambda prompt: 0.05)
    with ThreadPoolExecutor(8) as pool:
        runs = [
            (name, pool.submit(ask.run, "x", backend=b, mode="interpreted"))
            for _ in range(8)
            for name, b in ((" one", one), (" two", two))
        ]
        assert all(run.result().value == name for name, run in runs)
    assert len(one.calls) == len(two.calls) == 8


def test_events_of_a_stream(backend):
    backend.reply = lambda prompt, params: " a b c"

    @sgc.function
    def program(s):
        s += "x" + sgc.gen("v")
        (f,) = s.fork(1)
        f += "y" + sgc.select("w", ["p", "q"])
        return f["w"]

    with program.stream(mode="interpreted") as events:
        seen = list(events)
        state = events.state
    assert isinstance(seen[0], sgc.Event)
    assert "".join(e.text for e in seen if e.node == "g0") == " a b c"
    assert [e.done for e in seen if e.node == "g0"][-1] is True
    assert {(e.node, e.stream, e.name) for e in seen} == {
        ("g0", "", "v"),
        ("f0[0]/g0", "f0[0]", "w"),
    }
    assert state.value in ("p", "q")


def test_a_stream_raises_the_error_at_its_end():
    @sgc.function
    def program(s):
        s += "a" + sgc.gen("v")
        s += "FAIL" + sgc.gen("w")

    seen = []
    with pytest.raises(sgc.GenerationError):  # noqa: PT012
        for event in program.stream(mode="interpreted"):
            seen.append(event)
    assert [e.name for e in seen if e.text] == ["v"]


def test_closing_a_stream_stops_the_run(backend):
    backend.delay = lambda prompt: 30.0
    events = ask.stream("x", mode="interpreted")
    events.close()
    assert list(events) == []
    with pytest.raises(sgc.SgcError, match="stopped"):
        _ = events.state


def test_context_variables_reach_the_body():
    @sgc.function
    def inner(s):
        return tag.get()

    @sgc.function
    def program(s):
        return tag.get(), inner().value

    token = tag.set("mine")
    try:
        assert program.run(mode="interpreted").value == ("mine", "mine")
    finally:
        tag.reset(token)


def test_equal_seeds_repeat_and_others_do_not():
    by_seed = ScriptedBackend(lambda prompt, params: " x")
    seeds = []

    class Spy:
        name = "spy"
        chat_template = by_seed.chat_template

        def open(self):
            stream = by_seed.open()
            generate = stream.generate

            async def spying(call):
                seeds.append(call.seeds)
                return await generate(call)

            stream.generate = spying
            return stream

        stats, close = by_seed.stats, by_seed.close

    for seed in (1, 1, 2):
        ask.run("x", backend=Spy(), seed=seed, mode="interpreted")
    assert seeds[0] == seeds[1] != seeds[2]


def test_auto_mode_says_once_why_it_is_not_compiled(caplog):
    @sgc.function
    def program(s, flag):
        if isinstance(flag, int) and flag:
            s += "yes"
        return s.text()

    with caplog.at_level(logging.WARNING, logger="sgc"):
        states = [program.run(True), program.run(False)]
    assert [state.mode for state in states] == ["mixed", "mixed"]
    assert [state.value for state in states] == ["yes", ""]
    (record,) = caplog.records
    assert "program is compiled in part" in record.getMessage()
    assert shown_file(__file__) in record.getMessage()
    with pytest.raises(sgc.CompileError):
        program.run(True, mode="compiled")


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_hints_are_told_unless_they_are_switched_off(mode):
    @sgc.function
    def program(s, x):
        s += "Say it: " + x
        with s.copy() as c:
            c += sgc.gen("a", max_tokens=4)
        s += " " + sgc.gen("b", max_tokens=4)

    told = []

    class Telling(ScriptedBackend):
        takes_hints = True

        def open(self):
            stream = super().open()
            fork, generate = stream.fork, stream.generate

            async def spied(call):
                told.append(bool(call.beginnings))
                return await generate(call)

            def forked():
                other = fork()
                other.generate = stream.generate
                return other

            stream.generate, stream.fork = spied, forked
            return stream

    backend = Telling(lambda prompt, params: "word")
    program.run("this", backend=backend, mode=mode)
    program.run("this", backend=backend, mode=mode, hints=False)
    assert any(told[:2])
    assert not any(told[2:])
    with pytest.raises(sgc.InputError, match="hints=1"):
        program.run("this", backend=backend, mode=mode, hints=1)
