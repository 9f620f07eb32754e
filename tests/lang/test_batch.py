"""run_batch: order, bounded concurrency, laziness, failures."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import sgc
from sgc.testing import ScriptedBackend


@sgc.function
def ask(s, q: str, wait: float = 0.0):
    s += f"{q}|{wait}|" + sgc.gen("v")
    return s["v"]


class Counting:
    """A backend whose calls wait and count how many run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.backend = ScriptedBackend(lambda prompt, params: " " + prompt.split("|")[0])
        original = self.backend.open

        def opened():
            stream = original()
            generate = stream.generate

            async def counted(call):
                self.now += 1
                self.most = max(self.most, self.now)
                await asyncio.sleep(float(call.prompt.split("|")[1]))
                self.now -= 1
                return await generate(call)

            stream.generate = counted
            return stream

        self.backend.open = opened  # type: ignore[method-assign]


def batch(rows, backend, **options):
    return ask.run_batch(rows, backend=backend, mode="interpreted", **options)


def test_order_is_kept_and_concurrency_bounded():
    counting = Counting()
    rows = [{"q": f"q{i}", "wait": 0.05 if i % 3 else 0.1} for i in range(24)]
    states = batch(rows, counting.backend, parallel=6)
    assert [state.value for state in states] == [f" q{i}" for i in range(24)]
    assert 2 <= counting.most <= 6
    assert len(states) == 24


def test_bodies_that_run_at_the_same_time_are_at_most_parallel():
    lock, running, most = threading.Lock(), 0, 0

    @sgc.function
    def program(s, i):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    program.run_batch([{"i": i} for i in range(12)], mode="interpreted", parallel=3)
    assert most == 3


def test_rows_may_be_tuples_and_bad_rows_fail_alone(backend):
    broken = sgc.InputError("line 7 is no JSON object")
    rows = [("a",), {"q": "b", "nope": 1}, {}, {"q": 5}, "text", broken, {"q": "FAIL", "wait": 1.5}]
    states = batch([*rows, ("last", 0.5)], backend)
    kinds = [type(state.error()) for state in states]
    assert kinds == [type(None)] + [sgc.InputError] * 5 + [type(None)] * 2
    assert states[5].error() is broken
    assert states[2].value is None
    assert states[2].vars == {}
    assert states[2].text() == ""


def test_a_failing_row_leaves_the_others(backend):
    @sgc.function
    def program(s, end):
        s += "a" + sgc.gen("first") + end + sgc.gen("v")

    states = program.run_batch(
        [{"end": "ok"}, {"end": "FAIL"}, {"end": "ok"}], backend=backend, mode="interpreted"
    )
    assert [state.error() is None for state in states] == [True, False, True]
    error = states[1].error()
    assert isinstance(error, sgc.GenerationError)
    assert (error.instance, error.node) == (1, "g1")
    assert states[1].vars == {"first": " 1"}


def test_the_iterator_takes_rows_as_they_are_needed(backend):
    taken: list[int] = []

    def rows():
        for i in range(1000):
            taken.append(i)
            yield {"q": f"{i}"}

    states = batch(rows(), backend, parallel=2, iterate=True)
    assert taken == []
    assert next(states).text().startswith("0|")
    assert next(states).text().startswith("1|")
    assert len(taken) <= 2 + 2 * 4
    states.close()
    assert len(taken) <= 2 + 2 * 4


def test_a_batch_takes_a_generator(backend):
    states = batch(({"q": f"{i}"} for i in range(5)), backend, parallel=2)
    assert [state.text().split("|")[0] for state in states] == list("01234")
    assert batch([], backend) == []


def test_an_error_of_the_row_source_passes(backend):
    def rows():
        yield {"q": "a"}
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        batch(rows(), backend)


def test_seeds_depend_on_the_row(backend):
    seeds = {}
    original = backend.open

    def opened():
        stream = original()
        generate = stream.generate

        async def spying(call):
            seeds[call.row] = call.seeds
            return await generate(call)

        stream.generate = spying
        return stream

    backend.open = opened
    batch([{"q": "same"}] * 3, backend)
    assert len({*seeds.values()}) == 3


def test_progress_shows_a_bar_on_standard_error(backend, capsys):
    states = batch([{"q": "a"}] * 3, backend, progress=True)
    captured = capsys.readouterr()
    assert len(states) == 3
    assert captured.out == ""
    assert "3/3" in captured.err
    assert "tokens/s" in captured.err


@pytest.mark.parametrize("options", [{"parallel": 0}, {"parallel": 1.5}, {"nope": 1}])
def test_bad_options_are_refused(backend, options):
    with pytest.raises(sgc.InputError):
        batch([{"q": "a"}], backend, **options)


def test_a_thousand_rows(backend):
    states = batch(({"q": f"{i}"} for i in range(1000)), backend)
    assert [s.text().split("|")[0] for s in states] == [f"{i}" for i in range(1000)]


@pytest.mark.parametrize("name", ["merge", "parallel", "plan"])
def test_options_of_a_batch_are_named_as_such_where_one_row_is_run(name):
    with pytest.raises(sgc.InputError, match=f"^{name} is an option of run_batch"):
        ask.run(q="a", backend=ScriptedBackend(lambda *_: "b"), **{name: True})
