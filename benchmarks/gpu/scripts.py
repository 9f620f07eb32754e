"""LM programs as calls: what each prompt is made of, how many ids each call makes, what waits for
what. The lengths are given, so that every engine does the same work.

A prompt holds what the engine itself has generated in the calls before, as in a real run; so it is
replayed with equal token counts everywhere, while caches of generated text can help. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.gpu.prompts import Ids, Prompts


@dataclass(frozen=True, slots=True)
class Output:
    """Stands for the ids that a call has made."""

    call: int


Part = tuple[int, ...] | Output


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A gen of exactly `new_tokens` ids.

    Attributes:
        parent: the call whose prompt and output begin this prompt, or None.
        parts: what follows them.
        instance: which run of the program it belongs to.
        wave: calls of a wave wait for calls of earlier waves only.
    """

    parent: int | None
    parts: tuple[Part, ...]
    new_tokens: int
    instance: int
    wave: int

    def waits_for(self) -> set[int]:
        """The calls whose outputs its prompt holds, but for those of its parents' prompts."""
        before = {part.call for part in self.parts if isinstance(part, Output)}
        return before if self.parent is None else before | {self.parent}


class Script:
    """The calls of all instances of a program, parents before their children."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[ScriptCall] = []

    def call(
        self, instance: int, parent: int | None, parts: Sequence[Part | Ids], new_tokens: int
    ) -> int:
        """Add a call; its number."""
        made = tuple(p if isinstance(p, Output) else tuple(p) for p in parts)
        call = ScriptCall(parent, made, new_tokens, instance, 0)
        wave = max((self.calls[i].wave + 1 for i in call.waits_for()), default=0)
        self.calls.append(ScriptCall(parent, made, new_tokens, instance, wave))
        return len(self.calls) - 1

    def tail(self, number: int, outputs: Sequence[Ids | None]) -> Ids:
        """The ids of a call's prompt behind its parent's output."""
        ids: Ids = []
        for part in self.calls[number].parts:
            ids += _made(outputs, part.call) if isinstance(part, Output) else part
        return ids

    def prompt(self, number: int, outputs: Sequence[Ids | None]) -> Ids:
        """The whole prompt of a call behind what the calls before it have made."""
        parent = self.calls[number].parent
        tail = self.tail(number, outputs)
        if parent is None:
            return tail
        return [*self.prompt(parent, outputs), *_made(outputs, parent), *tail]

    def waves(self) -> list[list[int]]:
        """Numbers of the calls that can run at the same time."""
        last = max(call.wave for call in self.calls)
        return [
            [i for i, call in enumerate(self.calls) if call.wave == wave]
            for wave in range(last + 1)
        ]

    @property
    def new_tokens(self) -> int:
        return sum(call.new_tokens for call in self.calls)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts together."""
        outputs: list[Ids | None] = [[0] * call.new_tokens for call in self.calls]
        return sum(len(self.prompt(i, outputs)) for i in range(len(self.calls)))

    def check(self, outputs: Sequence[Ids]) -> None:
        """Raise ValueError unless every call made as many ids as it should."""
        for i, (call, ids) in enumerate(zip(self.calls, outputs, strict=True)):
            if len(ids) != call.new_tokens:
                raise ValueError(
                    f"{self.name}: call {i} made {len(ids)} ids instead of {call.new_tokens}"
                )


def replay_by_waves(
    script: Script, answer: Callable[[list[Ids], list[int]], list[Ids]]
) -> list[Ids]:
    """The outputs of all calls, each wave answered as one batch.

    Args:
        answer: takes the prompts of a wave, and how many ids each gets.
    """
    outputs: list[Ids | None] = [None] * len(script.calls)
    for wave in script.waves():
        prompts = [script.prompt(i, outputs) for i in wave]
        lengths = [script.calls[i].new_tokens for i in wave]
        for i, ids in zip(wave, answer(prompts, lengths), strict=True):
            outputs[i] = ids
    return [ids for ids in outputs if ids is not None]


def _made(outputs: Sequence[Ids | None], call: int) -> Ids:
    ids = outputs[call]
    assert ids is not None, "a call runs once those it waits for are done"
    return ids


# -- programs ---------------------------------------------------------------------------------


def few_shot(prompts: Prompts, scale: float) -> Script:
    """Questions behind the same solved ones, a short answer each."""
    script = Script("few-shot batch")
    examples = prompts.ids(_some(1200, scale))
    for i in range(_some(256, scale)):
        question = prompts.ids(prompts.between(_some(45, scale), _some(110, scale)))
        script.call(i, None, [examples, question], _some(16, scale))
    return script


def tree_of_thought(prompts: Prompts, scale: float) -> Script:
    """30 gens a question: two plans, each carried out twice, each result looked at twice, and two
    answers behind each."""
    script = Script("tree of thought")
    system, levels = prompts.ids(_some(60, scale)), (96, 128, 96, 32)
    turns = [prompts.ids(_some(24, scale)) for _ in levels]
    for i in range(_some(16, scale)):
        begin = [*system, *prompts.ids(_some(110, scale)), *turns[0]]
        leaves = [script.call(i, None, [begin], _some(levels[0], scale)) for _ in range(2)]
        for turn, length in zip(turns[1:], levels[1:], strict=True):
            leaves = [
                script.call(i, leaf, [turn], _some(length, scale))
                for leaf in leaves
                for _ in range(2)
            ]
    return script


def judge(prompts: Prompts, scale: float) -> Script:
    """An essay judged in six branches, and a verdict over all six judgements."""
    script = Script("judge with six branches")
    system, end = prompts.ids(_some(80, scale)), prompts.ids(_some(30, scale))
    sides = [prompts.ids(_some(32, scale)) for _ in range(6)]
    heads = [prompts.ids(_some(8, scale)) for _ in range(6)]
    for i in range(_some(32, scale)):
        essay = [*system, *prompts.ids(_some(900, scale))]
        judged = [script.call(i, None, [essay, side], _some(96, scale)) for side in sides]
        parts: list[Part | Ids] = [essay]
        for head, call in zip(heads, judged, strict=True):
            parts += [head, Output(call)]
        script.call(i, None, [*parts, end], _some(48, scale))
    return script


def chat(prompts: Prompts, scale: float) -> Script:
    """Conversations of four turns behind one system prompt."""
    script = Script("multi-turn chat")
    system = prompts.ids(_some(150, scale))
    for i in range(_some(64, scale)):
        parent = None
        for _ in range(4):
            said = prompts.ids(prompts.between(_some(40, scale), _some(120, scale)))
            parts = [system, said] if parent is None else [said]
            parent = script.call(i, parent, parts, _some(96, scale))
    return script


PROGRAMS: dict[str, Callable[[Prompts, float], Script]] = {
    "few-shot batch": few_shot,
    "tree of thought": tree_of_thought,
    "judge with six branches": judge,
    "multi-turn chat": chat,
}


def _some(number: int, scale: float) -> int:
    return max(1, round(number * scale))
