"""What calls say of their readers, against the calls that then come."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from support.executor import GraphBuilder, program_of, run_graph
from support.random_control import TOOLS, random_program

from sgc_ir.graph import MISSING, Program
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_ir.text import parse_program
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import Beginning, Call, RunDefaults
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync

DEFAULTS = RunDefaults(SamplingParams(max_tokens=100))


class Seen(NamedTuple):
    """A call, its prompt, and its prompt and end with one character for what each call gave: a
    text that says the same again is another one."""

    call: Call
    prompt: str
    trail: str
    end: str


class Tool:
    deadline = None
    retries = None

    def __init__(self, name: str, effect: str) -> None:
        self.name, self.effect = name, effect

    def fn(self, *args: Any) -> str:
        return f"{self.name}:{args!r}"


def run(
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    args: Mapping[str, Any],
    defaults: RunDefaults = DEFAULTS,
    takes_hints: bool = True,
) -> list[Seen]:
    """The calls in the order of their issue. No two answers are equal."""
    numbers = itertools.count()
    backend = ScriptedBackend(lambda prompt, params: f"a{next(numbers)};")
    backend.takes_hints = takes_hints
    stream, seen = type(backend.open()), []
    with monkeypatch.context() as patch:

        def spy(name: str) -> None:
            real = getattr(stream, name)

            async def called(self: Any, call: Call) -> Any:
                trail = getattr(self, "trail", "")
                self.trail = trail + chr(0xF0000 + len(seen))
                seen.append(Seen(call, call.prompt, trail, self.trail))
                return await real(self, call)

            patch.setattr(stream, name, called)

        def append(self: Any, pieces: Any) -> None:
            self.trail = getattr(self, "trail", "") + "".join(piece.text for piece in pieces)
            real_append(self, pieces)

        def fork(self: Any) -> Any:
            other = real_fork(self)
            other.trail = getattr(self, "trail", "")
            return other

        real_append, real_fork = stream.append, stream.fork
        patch.setattr(stream, "append", append)
        patch.setattr(stream, "fork", fork)
        spy("generate")
        spy("select")
        tools = {name: Tool(name, effect) for name, effect in TOOLS.items()}
        run_graph(program, backend, args, tools, defaults=defaults)
    return seen


def check(seen: list[Seen]) -> int:
    """Every number is at least that of the calls that came; gives how many calls knew theirs."""
    known = 0
    for place, (call, prompt, _, end) in enumerate(seen):
        root = _root(call.stream)
        later = [o for o in seen[place + 1 :] if _root(o.call.stream) == root]
        if call.readers is not None:
            known += 1
            assert call.readers >= sum(other.trail.startswith(end) for other in later)
        lengths = [beginning.chars for beginning in call.beginnings]
        assert lengths == sorted(set(lengths))
        for chars, readers, _ in call.beginnings:
            assert 0 < chars <= len(prompt)
            if readers is not None:
                inside = [o for o in later if _common_fork(call.stream, o.call.stream)]
                assert readers >= sum(o.prompt.startswith(prompt[:chars]) for o in inside)
    return known


def _root(stream: str) -> str:
    """The stream that it forked from in the end; one that begins empty may begin alike."""
    while stream.rpartition("/")[2].startswith("f"):
        stream = stream.rpartition("/")[0]
    return stream


def _common_fork(stream: str, other: str) -> bool:
    """Whether `other` is the stream that `stream` forked from, or below it."""
    parent = stream.rpartition("/")[0]
    return other == parent or other.startswith(f"{parent}/") or not parent


def test_random_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = total = 0
    for seed in range(60):
        seen = run(random_program(seed), monkeypatch, {"p": "abca", "q": "b"})
        known += check(seen)
        total += len(seen)
    assert known > total / 3


@pytest.mark.long
def test_many_random_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60, 3000):
        check(run(random_program(seed), monkeypatch, {"p": "abca", "q": "b"}))


def test_without_hints_calls_are_the_same_and_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    off = RunDefaults(DEFAULTS.params, hints=False)
    for seed in range(30):
        program, args = random_program(seed), {"p": "abca", "q": "b"}
        on, plain = (run(program, monkeypatch, args, defaults=d) for d in (DEFAULTS, off))
        assert [s.prompt for s in on] == [s.prompt for s in plain]
        assert [s.call.params for s in on] == [s.call.params for s in plain]
        for call, *_ in plain:
            told = (call.readers, call.next_use, call.beginnings, call.more_tokens, call.most)
            assert told == (None, None, (), None, None)


def test_backends_that_take_none_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run(two_branches(), monkeypatch, {}, takes_hints=False)
    assert {s.call.readers for s in seen} == {None}


def two_branches() -> Program:
    """`intro`, a gen, two branches with two gens each, and a gen that reads one of them."""
    b = GraphBuilder(x="?")
    b.text("intro ")
    b.put(b.arg("x"))
    b.gen("a", max_tokens=7)
    _, branches = b.static_fork(2)
    for i, branch in enumerate(branches):
        b.text(f" branch {i} ", branch)
        b.gen("b", branch, max_tokens=3 + i)
        last = b.gen("c", branch, max_tokens=5)
    b.put(last)
    b.gen("d")
    return program_of(b.done())


def test_branches_say_what_is_left_of_their_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run(two_branches(), monkeypatch, {})
    assert check(seen) == 6
    calls = {s.call.node: s.call for s in seen}
    static, at_fork = len("intro "), len("intro ?a0;")
    assert {node: (c.readers, c.next_use) for node, c in calls.items()} == {
        "g0": (5, 0),
        "f0[0]/g0": (1, 0),
        "f0[1]/g0": (1, 0),
        "f0[0]/g1": (0, None),
        "f0[1]/g1": (0, None),
        "g1": (0, None),
    }
    for node, call in calls.items():
        assert call.beginnings[0] == Beginning(static)
        assert [b.chars for b in call.beginnings[1:]] == [at_fork] * node.startswith("f")
    # Behind the last call of branch 0 branch 1 has two tokens to go until the root reads it.
    assert {node: calls[node].beginnings[1][1:] for node in calls if node[0] == "f"} == {
        "f0[0]/g0": (4, 0),
        "f0[1]/g0": (3, 0),
        "f0[0]/g1": (2, 1),
        "f0[1]/g1": (1, 0),
    }


def test_the_first_branch_of_an_appended_join_is_gone_on_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = GraphBuilder()
    b.text("intro ")
    fork, branches = b.static_fork(2)
    for branch in branches:
        b.text("say ", branch)
        b.gen("a", branch, max_tokens=4)
    b.add(Op.JOIN, fork=fork, mode="append")
    b.gen("b")
    seen = run(program_of(b.done()), monkeypatch, {})
    check(seen)
    assert [s.call.readers for s in seen] == [1, 0, 0]
    assert seen[2].prompt.startswith(seen[0].prompt)


def test_an_arm_that_is_not_taken_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse_program("""
program main
graph main() {
  %0 = ConstantText text="Say: "
  %1 = Gen name="a" ordinal=0 max_tokens=4
  %2 = Expr fn="==" args=(%1, "no")
  %3 = Branch cond=%2
  %4 = Gen if %3 name="b" ordinal=1
  %5 = Gen if %3 name="c" ordinal=2
  %6 = Gen if not %3 name="d" ordinal=1
  %7 = Return value=None vars={}
}
""")
    seen = run(program, monkeypatch, {})
    assert [(s.call.node, s.call.readers) for s in seen] == [("g0", 3), ("g1", 0)]


def test_bounds_of_constraints_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder()
    b.text("Say: ")
    b.gen("a", regex="a[0-9]{1,3};", max_tokens=50)
    b.gen("b", min_tokens=2, max_tokens=5)
    b.select("c", choices=("x", "y"))
    backend_says = run(program_of(b.done()), monkeypatch, {})
    assert [s.call.most for s in backend_says] == [6, 5, 0]


def test_roles_count_as_they_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder(x="0123456789")
    for role, text in (("system", "Be short."), ("user", "Hello ")):
        b.add(Op.ROLE_BEGIN, role=role)
        b.text(text)
        if role == "user":
            b.put(b.arg("x"))
        b.add(Op.ROLE_END, role=role)
    _, branches = b.static_fork(2)
    for branch in branches:
        b.text("!", branch)
        b.gen("a", branch)
    seen = run(program_of(b.done()), monkeypatch, {})
    static = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHello "
    for _, prompt, *_ in seen[1:]:  # of the first, the backend may not be loaded at the fork
        assert prompt.startswith(static)
    for call, prompt, *_ in seen:
        assert call.beginnings[0].chars == len(static)
        at = call.beginnings[1].chars
        assert prompt[:at] == (static + "0123456789<|im_end|>\n")[:at]


def test_nothing_is_left_at_the_end() -> None:
    """Calls on paths that were not taken, and passes that did not come, are no longer counted."""
    ended = 0
    for seed in range(80):
        ctx, error = _run_in_context(random_program(seed))
        if error is not None:
            continue
        root: Any = ctx.streams[0]
        assert (root.life.calls, root.life.open) == (0, 0), seed
        ended += 1
        assert ctx.to_come is not None
        assert (ctx.to_come.tokens, ctx.to_come.open) == (0, 0), seed
    assert ended > 30


def _run_in_context(program: Program) -> tuple[RunContext, BaseException | None]:
    words = ["a", "b", "c", "ab", "bca", "stop"]
    backend = ScriptedBackend(lambda prompt, params: words[zlib.crc32(prompt.encode()) % 6])
    backend.takes_hints = True
    tools: Any = {name: Tool(name, effect) for name, effect in TOOLS.items()}

    async def run_row() -> tuple[RunContext, BaseException | None]:
        ctx = RunContext(backend, DEFAULTS)
        state = await execute(program, {"p": "abca", "q": "b"}, ctx, tools)
        return ctx, state.error()

    return run_sync(run_row())


def test_loops_over_what_the_row_gives_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder(xs=MISSING)
    b.text("intro ")
    items = b.arg("xs")
    fork = b.fork(items=items)

    def body(inner: GraphBuilder, _: Any, *, i: Any, fork: Any, xs: Any) -> None:
        branch = inner.item(fork, i)
        inner.put(inner.expr("getitem", xs, i), branch)
        inner.gen("a", branch, max_tokens=6)

    b.loop([fork], body, captures={"fork": fork, "xs": items}, index="i")
    seen = run(program_of(b.done()), monkeypatch, {"xs": ["one", "two"]})
    assert [s.call.more_tokens for s in seen] == [6, 0]
    assert [s.call.more_chars for s in seen] == [3, 0]
