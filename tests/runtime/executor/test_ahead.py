"""What streams tell of their prompts while they wait, against the prompts that then come."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from support.executor import GraphBuilder, program_of, run_graph
from support.random_control import TOOLS, random_program

from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.params import CallResult
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import Call, Piece, Text


class Stream:
    """A stream of the scripted backend that notes what it was told ahead, until its next call."""

    def __init__(self, backend: Backend, inner: Any) -> None:
        self._backend, self._inner = backend, inner
        self.sent, self.told = "", ""

    def append(self, pieces: Sequence[Piece]) -> None:
        self.sent += "".join(p.text for p in pieces if isinstance(p, Text))
        self._inner.append(pieces)

    def hint(self, ahead: list[list[Any]]) -> None:
        assert all(type(text) is str and type(control) is bool for text, control in ahead)
        self.told = self.sent + "".join(text for text, _ in ahead)
        self._backend.hints += 1

    def _check(self, call: Call) -> None:
        assert self.sent == call.prompt
        if self.told:
            assert call.prompt.startswith(self.told)
            self._backend.told[call.node] = self.told

    async def generate(self, call: Call) -> list[CallResult]:
        self._check(call)
        found: list[CallResult] = await self._inner.generate(call)
        self.sent, self.told = self.sent + found[0].text, ""
        return found

    async def select(self, call: Call) -> CallResult:
        self._check(call)
        found: CallResult = await self._inner.select(call)
        self.sent, self.told = self.sent + found.text, ""
        return found

    def fork(self) -> Stream:
        other = Stream(self._backend, self._inner.fork())
        other.sent = self.sent
        return other

    def close(self) -> None:
        self._inner.close()


class Backend(ScriptedBackend):
    takes_hints = True

    def __init__(self, delay: Any = None) -> None:
        super().__init__(lambda prompt, params: f"{len(prompt)};", delay=delay)
        self.hints = 0
        self.told: dict[str, str] = {}  # node -> what was known of its prompt ahead

    def open(self) -> Any:
        return Stream(self, super().open())


def judged() -> Program:
    b = GraphBuilder(essay="")
    b.add(Op.ROLE_BEGIN, role="user")
    b.put(b.expr("+", "Essay: ", b.arg("essay")))
    b.add(Op.ROLE_END, role="user")
    _, branches = b.static_fork(2)
    b.add(Op.ROLE_BEGIN, role="user")
    ends = [b.gen("a", branch) for branch in branches]
    b.put(b.expr("+", b.expr("+", "They say: ", ends[0]), ends[1]))
    b.add(Op.ROLE_END, role="user")
    b.gen("b")
    return program_of(b.done())


def test_the_known_part_of_a_prompt_is_told_while_others_decode() -> None:
    backend = Backend()
    run_graph(judged(), backend, {"essay": "Once."})
    turn = "<|im_start|>user\n"
    assert backend.told == {"g0": f"{turn}Essay: Once.<|im_end|>\n{turn}They say: "}


def test_values_that_are_there_are_known() -> None:
    b = GraphBuilder()
    b.text("first ")
    first = b.gen("a")
    _, (branch,) = b.static_fork(1)
    second = b.gen("b", branch)
    b.put(b.expr("+", b.expr("+", "x", first), second))
    b.gen("c")
    backend = Backend()
    run_graph(program_of(b.done()), backend)
    assert backend.told == {"g1": "first 6;x6;"}


def test_nothing_is_told_where_no_call_comes_or_nobody_listens() -> None:
    b = GraphBuilder()
    b.text("first ")
    _, (branch,) = b.static_fork(1)
    b.put(b.gen("a", branch))
    silent = program_of(b.done())
    for program, listens in ((silent, True), (judged(), False)):
        backend = Backend()
        backend.takes_hints = listens
        run_graph(program, backend)
        assert backend.hints == 0


def test_a_template_that_raises_is_no_matter_ahead() -> None:
    class Strict:
        control_tokens: Sequence[str] = ()

        def render(
            self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = False
        ) -> str:
            if len(messages) > 1 and not messages[-1]["content"].endswith(";\ufdd1"):
                raise ValueError("too short")
            return "".join(m["content"] for m in messages)

    backend = Backend()
    backend.chat_template = Strict()  # type: ignore[misc]
    state = run_graph(judged(), backend, {"essay": "Once."})
    assert backend.hints == 0
    assert state.error() is None or "too short" in str(state.error())


class Tool:
    deadline = None
    retries = None

    def __init__(self, name: str, effect: str) -> None:
        self.name, self.effect = name, effect

    def fn(self, *args: Any) -> str:
        return f"{self.name}:{args!r}"


def _delay(chosen: random.Random, prompt: str) -> float:
    return chosen.choice([0.0, 0.001])


def test_random_graphs() -> None:
    """Whatever is told comes (`Stream` asserts it), and the calls are those without hints."""
    hints = 0
    for seed in range(80):
        delay = partial(_delay, random.Random(seed))
        found = []
        for listens in (True, False):
            backend = Backend(delay=delay)
            backend.takes_hints = listens
            tools = {name: Tool(name, effect) for name, effect in TOOLS.items()}
            run_graph(random_program(seed), backend, {"p": "abca", "q": "b"}, tools)
            found.append(sorted((c["node"], c["prompt"]) for c in backend.calls))
            hints += backend.hints
        assert found[0] == found[1]
    assert hints > 10
