"""The engine in a process of its own gives what it gives in this one."""

from __future__ import annotations

import asyncio
import enum
import gc
import os
import resource
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.local import gen, run, select
from support.processes import gone

import sgc
from sgc.testing import RecordingBackend, ReplayBackend
from sgc_ir.errors import BackendError, ConstraintError, ModelError
from sgc_ir.params import CHOICE_METHODS, CallResult, SamplingParams, Timing
from sgc_runtime.backends import process_child
from sgc_runtime.backends.engine_backend import engine_backend
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.backends.process import ProcessBackend
from sgc_runtime.executor.backend import Call, Media, Text

OPTIONS: dict[str, Any] = {"dtype": "float32", "kv_tokens": 4000}
LONG = {"max_tokens": 900, "ignore_eos": True}


class Word(enum.StrEnum):
    FAX = "fax"


@contextmanager
def own_process(folder: Path | str, **options: Any) -> Iterator[ProcessBackend]:
    made = ProcessBackend(folder, **{**OPTIONS, **options})
    try:
        yield made
    finally:
        made.close()
        assert made.pid is None or gone(made.pid)


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[ProcessBackend]:
    with own_process(folder) as made:
        yield made


def stream(owner: Any, text: str = "") -> Any:
    opened = owner.open()
    if text:
        opened.append([Text(text)])
    return opened


def untimed(result: CallResult) -> CallResult:
    return replace(result, timing=None if result.timing is None else Timing())


# -- the same results


async def story(owner: Any) -> list[Any]:
    """Calls of every kind; each stands on what those before it have left."""
    found: list[Any] = []
    pieces: list[str] = []
    turn = owner.chat_template.render([{"role": "user", "content": "What is it?"}], True)
    root = stream(owner, "the quick brown")
    found.append(await gen(root, on_text=pieces.append, max_tokens=12))
    assert "".join(pieces) == found[-1].text
    root.append([Text(" fox ", False), Text(turn, True), Text("<|im_end|> is text")])
    found.append(await gen(root, temperature=0.9, seeds=(2**63 - 1,), stop=("e", "o"), heal=True))
    left, right = root.fork(), root.fork()
    root.close()
    found.append(await gen(left, logprobs=True, top_logprobs=2, logit_bias={"7": 3.0}))
    found.append(await gen(left, end_of_turn=True, stop_regex=("[a-z]{3}",), stop_token_ids=(5,)))
    found.append(await gen(left, regex="(yes|no|perhaps) [0-9]{1,3}", max_tokens=20))
    schema = {"type": "object", "properties": {"a": {"enum": [10**20, "x"]}}, "required": ["a"]}
    found.append(await gen(left, json_schema=schema, json_style="compact", max_tokens=60))
    found.append(await gen(left, grammar='start: "a" | "b" start', max_tokens=5))
    found.append(await gen(left, dtype="int", max_tokens=6))
    found.append(await gen(left, regex="yes|no", distribution="exact"))
    for method in CHOICE_METHODS:
        found.append(await select(right, ["Paris", " dog", "fox"], method))
    params = SamplingParams(n=3, temperature=1.0, max_tokens=6)
    found += await right.generate(Call("g0", "", 0, params, (1, 2, 3)))
    found.append(await gen(right, max_tokens=0))
    again = stream(owner, "the lazy dog")
    for i, text in enumerate(["", " and"]):
        call = Call("g1", "", 0, SamplingParams(max_tokens=8), (0,))
        again.append([Text(text)])
        await again.restore(call, [found[i]])
    found.append(await gen(again))
    return [untimed(result) for result in found]


def test_every_kind_of_call(
    folder: Path, own: ProcessBackend, caplog: pytest.LogCaptureFixture
) -> None:
    here = LocalBackend(folder, **OPTIONS)
    try:
        wanted, found = run(lambda: story(here)), run(lambda: story(own))
        assert found == wanted
        for a, b in zip(wanted, found):
            assert [type(v) for v in (a.token_ids, a.meta, a.pending)] == [
                type(v) for v in (b.token_ids, b.meta, b.pending)
            ]
        assert own.vocab_size == here.vocab_size
        assert own.name == here.name
        assert dict(own.identity()) == dict(here.identity())
        mine, theirs = dict(own.stats()), dict(here.stats())
        assert mine.pop("load_seconds") > 0 < theirs.pop("load_seconds")
        assert mine == theirs
        here_said, own_said = [m for m in caplog.messages if "of what the model would say" in m]
        assert here_said == own_said
    finally:
        here.close()


@sgc.function
def plan(s, topic: str):
    s += sgc.user(f"Plan {topic}.")
    s += sgc.assistant(sgc.gen("plan", max_tokens=6, n=2, temperature=0.8))
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f" part {i}" + sgc.gen("part", max_tokens=5)
    forks.join()
    s += " is" + sgc.select("good", [" yes", " no"])
    return [s["good"], s["part"]]


def test_programs_records_and_replays(folder: Path, own: ProcessBackend, tmp_path: Path) -> None:
    topics = [{"topic": f"the fox {i}"} for i in range(4)]
    here = LocalBackend(folder, **OPTIONS)
    try:
        wanted = [state.value for state in plan.run_batch(topics, backend=here)]
    finally:
        here.close()
    recorded = RecordingBackend(own, tmp_path / "record")
    assert [state.value for state in plan.run_batch(topics, backend=recorded)] == wanted
    replay = ReplayBackend(tmp_path / "record")
    assert [state.value for state in plan.run_batch(topics, backend=replay)] == wanted


def test_many_at_once_from_several_event_loops(own: ProcessBackend) -> None:
    async def many(word: str) -> list[str]:
        calls = [gen(stream(own, f"{word} {i}"), max_tokens=4) for i in range(24)]
        return [result.text for result in await asyncio.gather(*calls)]

    alone = {word: run(lambda word=word: many(word)) for word in ("fox", "dog", "lazy")}
    found: dict[str, list[str]] = {}

    def work(word: str) -> None:
        found[word] = run(lambda: many(word))

    threads = [threading.Thread(target=work, args=(word,)) for word in alone]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert own.stats()["running"] >= 0  # read by this thread, among the loops
    assert found == alone


# -- calls that end early


async def idle(own: ProcessBackend) -> None:
    for _ in range(300):
        stats = own.stats()
        if stats["running"] == stats["waiting"] == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"still at work: {own.stats()}")


async def begun(own: ProcessBackend, on: Any, **params: Any) -> asyncio.Task[Any]:
    """A long call whose first text has come."""
    first = asyncio.Event()
    task = asyncio.ensure_future(gen(on, **LONG, on_text=lambda piece: first.set(), **params))
    await first.wait()
    return task


def test_cancelled_calls_stop_and_leave_their_prompt(own: ProcessBackend) -> None:
    async def main() -> None:
        fresh, on = stream(own, "the quick brown fox"), stream(own, "the quick brown fox")
        task = await begun(own, on)
        task.cancel()
        again = asyncio.ensure_future(gen(on))  # goes with the same message
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await again).token_ids == (await gen(fresh)).token_ids
        await idle(own)

    run(main)


@pytest.mark.parametrize("kind", ["gen", "select", "gen with a constraint"])
def test_an_answer_that_comes_too_late_changes_nothing(
    folder: Path, own: ProcessBackend, kind: str
) -> None:
    calls: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "gen": lambda on: gen(on, max_tokens=3),
        "select": lambda on: select(on, [" dog", " fox"]),
        "gen with a constraint": lambda on: gen(on, regex="[a-c]{3}"),
    }

    async def main(owner: Any, too_late: bool) -> Any:
        on = stream(owner, "the quick bro")
        task = asyncio.ensure_future(calls[kind](on))
        await asyncio.sleep(0)
        if too_late:
            await asyncio.sleep(0)  # it is sent
            time.sleep(0.5)  # the answer lies there, and the loop has not looked
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        on.append([Text("wn fox")])
        return untimed(await gen(on))

    here = LocalBackend(folder, **OPTIONS)
    try:
        here.load()
        found = run(lambda: main(own, too_late=True))
        wanted = run(lambda: main(here, too_late=False))
        assert found.token_ids == wanted.token_ids
    finally:
        here.close()


def test_deadlines_end_calls(own: ProcessBackend) -> None:
    @sgc.function
    def slow(s):
        s += "the fox" + sgc.gen("v", **LONG)

    own.load()
    with pytest.raises(sgc.GenerationError, match=r"node g0 .* deadline of 0.3 s"):
        slow.run(backend=own, deadline={"v": 0.3})
    run(lambda: idle(own))


# -- errors


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"regex": "(a"}, "^regex: .*position 0"),
        ({"logit_bias": {"99999": 1.0}}, "logit_bias.*99999"),
        ({"max_tokens": 5000}, "prompt tokens and 5000 more exceed .* 1024"),
    ],
    ids=str,
)
def test_errors_keep_type_message_and_kind(
    own: ProcessBackend, params: dict[str, Any], name: str
) -> None:
    with pytest.raises(BackendError, match=name) as raised:
        run(lambda: gen(stream(own, "The quick brown"), **params))
    assert type(raised.value) is BackendError
    if "regex" in params:
        cause = raised.value.__cause__
        assert isinstance(cause, ConstraintError)
        assert (cause.kind, cause.where) == ("malformed", "position 0")


def test_a_call_that_cannot_be_sent_is_not_made(own: ProcessBackend) -> None:
    async def main() -> None:
        on = stream(own, "the fox")
        with pytest.raises(TypeError, match="a object is no plain data"):
            await gen(on, json_schema={"const": object()})
        other = on.fork()
        found = [(await gen(one)).text for one in (on, other, stream(own, "the fox"))]
        assert found == [found[0]] * 3
        lost = stream(own, "the fox")
        with pytest.raises(TypeError):
            await gen(lost, json_schema={"const": object()})
        lost.close()
        assert (await gen(stream(own, "the fox"), stop=(Word.FAX,))).text == found[0]

    run(main)


def test_media_are_refused_where_they_are_appended(own: ProcessBackend) -> None:
    with pytest.raises(BackendError, match="does not take images yet"):
        stream(own).append([Media("image", b"x")])


def test_a_missing_model_is_told_at_each_call() -> None:
    with own_process("./nowhere") as owner:
        assert owner.stats() == {}
        for ask in (owner.load, owner.identity, lambda: run(lambda: gen(stream(owner, "x")))):
            with pytest.raises(ModelError, match="nowhere"):
                ask()
        assert owner.stats() == {}


def test_options_without_meaning_are_refused_before_there_is_a_process() -> None:
    with pytest.raises(BackendError, match="order='other'"):
        ProcessBackend("nowhere", order="other")


@pytest.mark.parametrize("process", ["on", "off"])
def test_numbers_and_texts_of_other_kinds(folder: Path, process: str) -> None:
    owner = engine_backend(folder, **OPTIONS, process=process)

    async def main() -> None:
        plain = await gen(stream(owner, "the fox"), max_tokens=5, temperature=0.5, top_k=3)
        numbers = {"max_tokens": np.int64(5), "temperature": np.float32(0.5), "top_k": np.int8(3)}
        assert (await gen(stream(owner, "the fox"), **numbers)).text == plain.text
        chosen = await select(stream(owner, "the fox"), list(Word))
        assert type(chosen.text) is str
        assert chosen.text == "fax"

    try:
        run(main)
    finally:
        owner.close()


@pytest.mark.parametrize("process", ["on", "off"])
def test_a_program_selects_among_an_enum(folder: Path, process: str) -> None:
    @sgc.function
    def pick(s: Any) -> str:
        s += "a " + sgc.select("word", choices=list(Word))
        text: str = s["word"]
        return text

    owner = engine_backend(folder, **OPTIONS, process=process)
    try:
        assert pick.run(backend=owner).value == "fax"
    finally:
        owner.close()


# -- how it begins and ends


def test_the_option_decides(folder: Path) -> None:
    kinds = {"off": LocalBackend, "on": ProcessBackend, "auto": LocalBackend}
    for process, kind in kinds.items():
        assert type(engine_backend(folder, process=process)) is kind
    assert type(engine_backend(folder, device="cuda")) is ProcessBackend
    assert type(engine_backend(folder, device="cuda:1", process="off")) is LocalBackend


def test_from_before_the_first_call_to_behind_the_last(folder: Path) -> None:
    with own_process(folder) as owner:
        stream(owner, "the fox").fork().close()
        assert owner.pid is None
        assert owner.stats() == {}

        async def main() -> None:
            await owner.ready()
            assert owner.vocab_size is not None
            task = await begun(owner, stream(owner, "the fox"))
            await asyncio.to_thread(owner.close)
            assert gone(owner.pid)
            with pytest.raises(BackendError, match="closed"):
                await task
            with pytest.raises(BackendError, match="closed; make a new one"):
                await gen(stream(owner, "the fox"))

        run(main)
        assert owner.stats()["prefill_steps"] > 0  # as they were in the end


def test_closing_while_the_model_loads(folder: Path) -> None:
    async def main() -> None:
        with own_process(folder) as owner:
            task = asyncio.ensure_future(gen(stream(owner, "the fox")))
            while owner.pid is None:
                await asyncio.sleep(0.01)
            owner.close()  # in the loop itself
            with pytest.raises(BackendError, match="closed"):
                await task

    run(main)


def test_a_backend_that_is_dropped_takes_its_process_along(folder: Path) -> None:
    owner = ProcessBackend(folder, **OPTIONS)
    owner.load()
    pid = owner.pid
    on = stream(owner, "the fox")
    del owner
    gc.collect()
    assert run(partial(gen, on)).token_ids  # a stream keeps it
    del on
    gc.collect()
    assert gone(pid)


def test_closing_one_that_does_not_listen_is_said_and_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert process_child._CLOSE_S <= 10
    monkeypatch.setattr(process_child, "_CLOSE_S", 1.5)
    monkeypatch.setattr(process_child, "_SAY_S", 0.5)
    with own_process(folder) as owner:
        owner.load()
        assert owner.pid is not None
        os.kill(owner.pid, signal.SIGSTOP)
        begin = time.monotonic()
        owner.close()
        assert 1.4 < time.monotonic() - begin < 10
        assert gone(owner.pid)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == f"the engine's process (pid {owner.pid}) does not end; it is killed in 1 s"


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_file_descriptors_it_is_told_and_closed(folder: Path) -> None:
    with own_process(folder) as owner:
        owner.load()
        with no_descriptors_left(), pytest.raises(BackendError, match="ulimit -n") as caught:
            owner.load()
        assert "\n" not in str(caught.value)

        async def main() -> None:
            with no_descriptors_left(), pytest.raises(BackendError, match="ulimit -n"):
                await gen(stream(owner, "the fox"))
            assert (await gen(stream(owner, "the fox"))).token_ids

        run(main)
        owner.load()
        with no_descriptors_left():
            owner.close()
        assert gone(owner.pid)
    with own_process(folder) as owner, no_descriptors_left():
        with pytest.raises(BackendError, match=r"cannot be started: .*ulimit -n"):
            owner.load()


def test_a_process_that_does_not_listen_holds_nobody_up(own: ProcessBackend) -> None:
    own.load()
    text = " fox" * 2_000_000  # more than a socket takes

    async def main() -> Any:
        assert own.pid is not None
        os.kill(own.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            unused, on = stream(own, text), stream(own, "the fox")
            call = asyncio.ensure_future(gen(on))
            await asyncio.sleep(0.2)
            assert time.monotonic() - begin < 5
            assert not call.done()
        finally:
            os.kill(own.pid, signal.SIGCONT)
        unused.close()
        return await call

    assert run(main).token_ids
