"""Streams, with everything queued at once and calls of random length, against a plain model that
does one thing after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.params import SamplingParams
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.stream import Stream

Step = tuple[Any, ...]


def reply(prompt: str) -> str:
    return f"<{len(prompt)}>"


@dataclass
class Plain:
    """A stream of the model: ChatML is plain concatenation."""

    path: str
    text: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    role: bool = False
    own_role: bool = False
    ended: bool = False
    start: int = 0
    inherited: frozenset[str] = frozenset()
    gens: int = 0
    forks: int = 0


class Model:
    """Runs steps at once and notes every call."""

    def __init__(self) -> None:
        self.streams = [Plain("")]
        self.families: list[tuple[int, list[int], bool]] = []
        self.calls: dict[str, str] = {}

    def allows(self, step: Step) -> bool:
        kind, at = step[0], step[1]
        if kind in ("append", "gather"):
            if at >= len(self.families):
                return False
            parent, branches, is_copy = self.families[at]
            return (
                not is_copy
                and not any(self.streams[i].ended or self.streams[i].own_role for i in branches)
                and not self.streams[parent].ended
                and not (kind == "append" and self.nests_roles(parent, branches))
            )
        stream = self.streams[at] if at < len(self.streams) else None
        if stream is None or stream.ended:
            return False
        if kind == "begin":
            return not stream.role
        if kind == "end":
            return stream.own_role
        if kind == "read":
            return step[2] < len(self.streams) and step[3] in self.streams[step[2]].variables
        return True

    def nests_roles(self, parent: int, branches: list[int]) -> bool:
        """Whether a branch of before the parent's open role has opened roles itself."""
        said = [self.streams[i].text[self.streams[i].start :] for i in branches]
        return self.streams[parent].role and any("<|im_start|>" in text for text in said)

    def do(self, step: Step) -> None:
        getattr(self, f"do_{step[0]}")(*step[1:])

    def do_text(self, at: int, text: str) -> None:
        self.streams[at].text += text

    def do_begin(self, at: int) -> None:
        stream = self.streams[at]
        stream.text += "<|im_start|>user\n"
        stream.role = stream.own_role = True

    def do_end(self, at: int) -> None:
        stream = self.streams[at]
        stream.text += "<|im_end|>\n"
        stream.role = stream.own_role = False

    def do_gen(self, at: int, name: str) -> None:
        stream = self.streams[at]
        path = f"{stream.path}/g{stream.gens}" if stream.path else f"g{stream.gens}"
        stream.gens += 1
        self.calls[path] = stream.text
        stream.variables[name] = reply(stream.text)
        stream.text += reply(stream.text)

    def do_set(self, at: int, name: str, value: str) -> None:
        self.streams[at].variables[name] = value

    def do_read(self, at: int, other: int, name: str) -> None:
        value = self.streams[other].variables[name]
        self.streams[at].text += value if isinstance(value, str) else str(value)

    def do_fork(self, at: int, width: int, is_copy: bool) -> None:
        parent = self.streams[at]
        prefix = f"{parent.path}/" if parent.path else ""
        branches = []
        for i in range(width):
            branch = Plain(
                f"{prefix}f{parent.forks}[{i}]",
                parent.text,
                dict(parent.variables),
                parent.role,
                start=len(parent.text),
                inherited=frozenset(parent.variables),
            )
            branches.append(len(self.streams))
            self.streams.append(branch)
        parent.forks += 1
        self.families.append((at, branches, is_copy))

    def do_append(self, at: int) -> None:
        parent, branches, _ = self.families[at]
        for i in branches:
            self.streams[parent].text += self.streams[i].text[self.streams[i].start :]
            self.streams[i].ended = True

    def do_gather(self, at: int) -> None:
        parent, branches, _ = self.families[at]
        streams = [self.streams[i] for i in branches]
        names = [n for s in streams for n in s.variables if n not in s.inherited]
        for name in names:
            if all(name in s.variables for s in streams):
                self.streams[parent].variables[name] = [s.variables[name] for s in streams]
        for stream in streams:
            stream.ended = True

    def gathers_cleanly(self, at: int) -> bool:
        streams = [self.streams[i] for i in self.families[at][1]]
        names = {n for s in streams for n in s.variables if n not in s.inherited}
        return all(name in s.variables for s in streams for name in names)


_TEXTS = st.sampled_from(["a", " b", "", "c\n"])
_NAMES = st.sampled_from("uvw")


@st.composite
def scripts(draw: Any) -> tuple[list[Step], Model]:
    model, steps = Model(), []
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(
            st.sampled_from(
                [
                    "gen",
                    "gen",
                    "text",
                    "text",
                    "fork",
                    "set",
                    "read",
                    "begin",
                    "end",
                    "append",
                    "gather",
                ]
            )
        )
        known = len(model.families if kind in ("append", "gather") else model.streams)
        at = draw(st.integers(0, max(known - 1, 0)))
        step: Step = (kind, at)
        if kind == "text":
            step += (draw(_TEXTS),)
        elif kind == "gen":
            step += (draw(_NAMES),)
        elif kind == "set":
            step += (draw(_NAMES), "!")
        elif kind == "read":
            step += (draw(st.integers(0, known - 1)), draw(_NAMES))
        elif kind == "fork":
            step += (draw(st.integers(1, 3)), draw(st.booleans()))
        clean = kind != "gather" or (at < known and model.gathers_cleanly(at))
        if model.allows(step) and clean:
            model.do(step)
            steps.append(step)
    return steps, model


def play(steps: list[Step], ctx: RunContext) -> list[Stream]:
    """Give all steps to real streams without waiting for anything."""
    streams, families = [Stream(ctx)], []
    for kind, at, *rest in steps:
        if kind == "append":
            families[at][0].append_branches(families[at][1])
        elif kind == "gather":
            families[at][0].gather(families[at][1])
        elif kind == "text":
            streams[at].append(rest[0])
        elif kind == "begin":
            streams[at].role_begin("user")
        elif kind == "end":
            streams[at].role_end()
        elif kind == "gen":
            streams[at].gen(rest[0], {})
        elif kind == "set":
            streams[at].set(*rest)
        elif kind == "read":
            found = streams[rest[0]].get(rest[1])
            assert found is not None
            streams[at].append(found.value)
        else:
            branches = streams[at].fork(rest[0], copy=rest[1])
            families.append((streams[at], branches))
            streams += branches
    return streams


@settings(max_examples=150, deadline=None)
@given(scripts(), st.lists(st.sampled_from([0.0, 0.0, 0.002, 0.005]), min_size=7, max_size=7))
def test_streams_do_what_the_plain_model_does(
    script: tuple[list[Step], Model], delays: list[float]
) -> None:
    steps, model = script

    async def main() -> None:
        backend = ScriptedBackend(
            lambda prompt, _: reply(prompt), delay=lambda prompt: delays[len(prompt) % 7]
        )
        ctx = RunContext(backend)
        streams = play(steps, ctx)
        texts = [stream.text() for stream in streams]
        await ctx.wait_idle()
        assert ctx.first_error() is None
        assert {c["node"]: c["prompt"] for c in backend.calls} == model.calls
        for stream, text, plain in zip(streams, texts, model.streams, strict=True):
            assert stream.path == plain.path
            assert text.value == plain.text
            values = {name: pending.value.value for name, pending in stream.variables.items()}
            assert values == plain.variables
        ctx.close()

    run_sync(main())


def test_calls_of_one_stream_never_overlap_and_keep_their_order() -> None:
    running: list[str] = []

    async def main() -> None:
        backend = ScriptedBackend(lambda p, _: "x", delay=lambda p: 0.003)
        begin = backend.begin

        async def watched(*args: Any) -> Any:
            assert running == []
            running.append(args[1])
            try:
                return await begin(*args)
            finally:
                running.clear()

        backend.begin = watched  # type: ignore[method-assign]
        ctx = RunContext(backend)
        stream = Stream(ctx)
        for i in range(5):
            stream.append(str(i))
            stream.gen(None, SamplingParams())
        await ctx.wait_idle()
        assert [c["prompt"] for c in backend.calls] == ["0", "0x1", "0x1x2", "0x1x2x3", "0x1x2x3x4"]
        assert list(stream.variables) == ["_1", "_2", "_3", "_4", "_5"]

    run_sync(main())
