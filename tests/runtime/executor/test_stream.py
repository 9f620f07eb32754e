"""Single streams: errors and their acknowledgement, events, lazy backends, seeds, ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import Any

import pytest

from sgc_ir.errors import BackendError, GenerationError
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import Media, RunDefaults
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.seeds import call_seeds, node_seed
from sgc_runtime.executor.state import FinishedState
from sgc_runtime.executor.stream import Stream


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_sync(main())


def failing_at(prompt: str) -> ScriptedBackend:
    return ScriptedBackend(lambda p, _: "y", fail=lambda p: OSError("x") if p == prompt else None)


def test_later_operations_fail_with_the_same_error_until_it_is_acknowledged() -> None:
    async def main() -> None:
        backend = failing_at("a")
        ctx = RunContext(backend, program="prog", row=4)
        s = Stream(ctx)
        s.append("a")
        bad = s.gen("bad", {}, "f.py:3")
        s.append("lost")
        after = s.gen("after", {}, "f.py:5")
        await ctx.wait_idle()
        error = bad.value.error
        assert isinstance(error, GenerationError)
        assert after.value.error is error
        assert ctx.first_error() is error
        assert str(error) == "prog[4] node g0 at f.py:3: OSError: x"
        assert isinstance(error.__cause__, OSError)
        s.acknowledge(error)
        assert ctx.first_error() is None
        s.append("b")
        good = s.gen("good", {})
        await ctx.wait_idle()
        assert good.value.value == "y"
        assert backend.calls[-1]["prompt"] == "ab"

    run(main)


def test_branches_of_a_failed_stream_recover_with_it() -> None:
    async def main() -> None:
        backend = failing_at("a")
        ctx = RunContext(backend)
        s = Stream(ctx)
        s.append("a")
        bad = s.gen("bad", {})
        branch = s.fork(1)[0]
        v = branch.gen("v", {})
        await ctx.wait_idle()
        assert v.value.error is bad.value.error
        s.acknowledge(bad.value.error)
        branch.append("c")
        w = branch.gen("w", {})
        await ctx.wait_idle()
        assert (w.value.value, backend.calls[-1]["prompt"]) == ("y", "ac")

    run(main)


def test_a_role_in_which_a_call_failed_is_closed() -> None:
    async def main() -> None:
        backend = failing_at("<|im_start|>user\nq")
        ctx = RunContext(backend)
        s = Stream(ctx)
        s.role_begin("user")
        s.append("q")
        bad = s.gen("bad", {})
        s.role_end()
        s.role_begin("assistant")  # both ends are lost with the rest
        s.role_end()
        await ctx.wait_idle()
        s.acknowledge(bad.value.error)
        s.role_begin("assistant")
        s.append("again")
        s.role_end()
        await ctx.wait_idle()
        assert ctx.first_error() is None
        assert FinishedState(s).messages() == [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "again"},
        ]

    run(main)


def test_an_operand_that_fails_stops_the_stream_with_its_own_error() -> None:
    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: "y"))
        s = Stream(ctx)
        cell = Cell()
        s.append(cell)
        v = s.gen("v", {})
        error = ValueError("no number")
        ctx.fail(error, (0,))
        cell.fail(error)
        await ctx.wait_idle()
        assert v.value.error is error
        assert ctx.first_error() is error

    run(main)


def test_values_of_dtype_and_schema_are_converted_and_text_is_raw() -> None:
    async def main() -> None:
        replies = {
            "i": "42 apples",
            "f": "-1.50\n",
            "b": "True.",
            "s": '"a\\n\\u00e9" x',
            "j": '{"k": [1]} x',
        }
        ctx = RunContext(ScriptedBackend(lambda p, _: replies[p[-1]]))
        s = Stream(ctx)
        wanted = {"i": 42, "f": -1.5, "b": True, "s": "a\né", "j": {"k": [1]}}
        kinds: dict[str, Any] = {"i": "int", "f": "float", "b": "bool", "s": "str"}
        for name in wanted:
            s.append(f";{name}")
            params = (
                {"dtype": kinds[name]} if name in kinds else {"json_schema": {"type": "object"}}
            )
            s.gen(name, params)
        await ctx.wait_idle()
        state = FinishedState(s)
        assert state.vars == wanted
        assert type(state["b"]) is bool
        assert state.text() == ';i42;f-1.50;bTrue;s"a\\n\\u00e9";j{"k": [1]}'

    run(main)


@pytest.mark.parametrize(
    ("params", "reply"),
    [
        ({"dtype": "int", "max_tokens": 1}, "42"),
        ({"dtype": "str", "max_tokens": 2}, '"one two three"'),
        ({"json_schema": {}, "max_tokens": 2}, '{"a": [1, 2, 3]}'),
    ],
)
def test_a_value_cut_by_max_tokens_fails_its_node(params: dict[str, Any], reply: str) -> None:
    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: reply))
        v = Stream(ctx).gen("v", params)
        await ctx.wait_idle()
        assert isinstance(v.value.error, GenerationError)
        assert "max_tokens" in str(v.value.error)

    run(main)


def test_events_of_a_variable_concatenate_to_its_text() -> None:
    events: list[Event] = []

    async def main() -> None:
        backend = ScriptedBackend(lambda p, _: "one two three; four")
        ctx = RunContext(backend, on_event=events.append)
        s = Stream(ctx)
        v = s.gen("v", {"stop": ";"})
        seen: list[tuple[str, bool]] = []
        v.watch(lambda piece, done: seen.append((piece, done)))
        branch = s.fork(1)[0]
        branch.gen("c", {"choices": ("yes", "no")})
        await ctx.wait_idle()
        late: list[tuple[str, bool]] = []
        v.watch(lambda piece, done: late.append((piece, done)))
        assert late == seen
        assert "".join(piece for piece, _ in seen) == "one two three"
        assert [done for _, done in seen] == [False] * (len(seen) - 1) + [True]
        given: list[tuple[str, bool]] = []
        s.set("w", 12).watch(lambda piece, done: given.append((piece, done)))
        assert given == [("12", False), ("", True)]

    run(main)
    assert "".join(e.text for e in events if e.name == "v") == "one two three"
    assert [(e.node, e.stream) for e in events if e.name == "c"] == [("f0[0]/g0", "f0[0]")]
    assert [e.done for e in events if e.name == "v"].count(True) == 1
    assert len([e for e in events if e.name == "v"]) >= 3


def test_a_backend_loads_at_the_first_call_off_the_loop_and_once() -> None:
    loads: list[str] = []

    def load() -> ScriptedBackend:
        time.sleep(0.05)
        loads.append(threading.current_thread().name)
        return ScriptedBackend(lambda p, _: "y")

    async def main() -> None:
        source = BackendSource(load)
        quiet = RunContext(source)
        s = Stream(quiet)
        s.append("no call")
        await quiet.wait_idle()
        assert loads == []
        assert FinishedState(s).text() == "no call"
        contexts = [RunContext(source) for _ in range(3)]
        gens = [Stream(ctx).gen("v", {}) for ctx in contexts]
        for ctx in contexts:
            await ctx.wait_idle()
        assert [g.value.value for g in gens] == ["y"] * 3
        assert len(loads) == 1
        assert loads[0] != threading.current_thread().name

    run(main)


def test_a_backend_that_cannot_be_had_fails_the_call() -> None:
    async def main() -> None:
        def load() -> ScriptedBackend:
            raise BackendError("no such model")

        for backend, words in ((BackendSource(load), "no such model"), (None, "backend")):
            ctx = RunContext(backend)
            v = Stream(ctx).gen("v", {})
            await ctx.wait_idle()
            assert isinstance(v.value.error, GenerationError)
            assert isinstance(v.value.error.__cause__, BackendError)
            assert words in str(v.value.error)

    run(main)


def test_roles_without_a_backend_render_as_chatml() -> None:
    async def main() -> None:
        ctx = RunContext(None)
        s = Stream(ctx)
        s.role_begin("user")
        s.append("hi")
        s.role_end()
        text = s.text()
        await ctx.wait_idle()
        assert text.value == "<|im_start|>user\nhi<|im_end|>\n"

    run(main)


def test_the_text_of_a_finished_row_that_the_template_refuses() -> None:
    source = "{{ raise_exception('no user turn') }}"

    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: "y", chat_template=source))
        s = Stream(ctx)
        s.append("raw")
        s.role_begin("system")
        s.role_end()
        await ctx.wait_idle()
        with pytest.raises(GenerationError, match="no user turn"):
            FinishedState(s).text()
        assert FinishedState(s, error=ValueError()).text() == "raw"
        v = s.gen("v", {})
        await ctx.wait_idle()
        assert "no user turn" in str(v.value.error)

    run(main)


def test_nothing_can_be_added_after_a_join() -> None:
    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: "y"))
        s = Stream(ctx)
        branch = s.fork(1)[0]
        v = branch.gen("v", {})
        s.gather([branch])
        late = branch.gen("w", {})
        await ctx.wait_idle()
        assert v.value.value == "y"
        assert branch.text()
        assert isinstance(late.value.error, GenerationError)
        assert late.value.error.node == "f0[0]/g1"

    run(main)


def test_a_branch_that_is_joined_inside_its_own_role_fails_the_join() -> None:
    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: "y"))
        s = Stream(ctx)
        branch = s.fork(1)[0]
        branch.role_begin("user")
        s.append_branches([branch])
        await ctx.wait_idle()
        assert "f0[0]" in str(ctx.first_error())

    run(main)


@pytest.mark.parametrize("width", [0, -2, 1.5, True])
def test_fork_needs_a_width(width: Any) -> None:
    async def main() -> None:
        ctx = RunContext(None)
        with pytest.raises(GenerationError, match="width"):
            Stream(ctx).fork(width)
        assert ctx.first_error() is not None
        assert Stream(ctx).fork(0, items=[]) == []

    run(main)


def test_cancelling_releases_everybody_who_waits() -> None:
    async def main() -> None:
        ctx = RunContext(ScriptedBackend(lambda p, _: "y", delay=lambda _: 10.0))
        s = Stream(ctx)
        first, second = s.gen("a", {}), s.gen("b", {})
        never = Cell()
        other = s.fork(1)[0]
        other.append(never)
        third = other.gen("c", {})
        await asyncio.sleep(0.01)
        ctx.cancel()
        for pending in (first, second, third):
            assert isinstance(pending.value.error, asyncio.CancelledError)
        late = Stream(ctx).gen("d", {})
        assert isinstance(late.value.error, asyncio.CancelledError)
        await ctx.wait_idle()

    run(main)


def test_media_that_the_backend_refuses_fail_the_next_call_also_in_branches() -> None:
    class NoMedia(ScriptedBackend):
        def open(self) -> Any:
            stream = super().open()
            append = stream.append

            def refuse(pieces: Any) -> None:
                if any(isinstance(piece, Media) for piece in pieces):
                    raise BackendError("no images here")
                append(pieces)

            stream.append = refuse  # type: ignore[method-assign]
            return stream

    async def main() -> None:
        ctx = RunContext(NoMedia(lambda p, _: "y"))
        s = Stream(ctx)
        first = s.gen("a", {})
        s.media("image", "x.png")
        branch = s.fork(2)[1]
        inner = branch.gen("b", {})
        own = s.gen("c", {})
        await ctx.wait_idle()
        assert first.value.value == "y"
        for pending in (inner, own):
            assert "no images here" in str(pending.value.error)

    run(main)


def test_backend_streams_are_closed_when_the_row_ends() -> None:
    opened, closed = [], []

    class Watched(ScriptedBackend):
        def open(self) -> Any:
            return watch(super().open())

    def watch(stream: Any) -> Any:
        opened.append(stream)
        fork = stream.fork
        stream.fork = lambda: watch(fork())
        stream.close = lambda: closed.append(stream)
        return stream

    async def main() -> None:
        ctx = RunContext(Watched(lambda p, _: "y"))
        s = Stream(ctx)
        s.append("p")
        branches = s.fork(3)
        for branch in branches:
            branch.gen("v", {})
        inner = branches[0].fork(2)
        inner[0].gen("w", {})
        s.append_branches(branches)
        s.gen("e", {})
        for stream in (s, *inner):
            stream.close()
        await ctx.wait_idle()
        assert len(opened) == len(set(map(id, opened)))
        assert sorted(map(id, closed)) == sorted(map(id, opened))
        ctx.close()
        assert len(closed) == len(opened)

    run(main)


def test_seeds_follow_the_stated_rule() -> None:
    eight = blake2b(b"5\x1f2\x1ff0[1]/g0\x1f3", digest_size=8).digest()
    assert node_seed(5, 2, "f0[1]/g0", 3) == int.from_bytes(eight, "big") >> 1
    params = SamplingParams(n=3, seed=9)
    assert call_seeds(params, 1, 1, "g0") == call_seeds(params, 2, 7, "f0[0]/g9")
    assert len(set(call_seeds(SamplingParams(n=50), 0, 0, "g0"))) == 50
    assert all(0 <= seed < 2**63 for seed in call_seeds(SamplingParams(n=50), 0, 0, "g0"))


def test_defaults_fill_what_a_gen_does_not_set() -> None:
    async def main() -> None:
        backend = ScriptedBackend(lambda p, _: "a b c d")
        defaults = RunDefaults(SamplingParams(max_tokens=3, temperature=0.2), seed=1)
        ctx = RunContext(backend, defaults)
        v = Stream(ctx).gen("v", {"temperature": 0.9, "stop": None})
        await ctx.wait_idle()
        assert v.value.value == "a b c"
        assert v.meta.value["finish_reason"] == "length"
        params = backend.calls[0]["params"]
        assert (params["max_tokens"], params["temperature"], params["stop"]) == (3, 0.9, [])

    run(main)
