"""Programs of several calls for the engine in virtual time; prompts are random ids.

Where `full` is False a gen ends by itself after 20 to 100 % of what it may generate.
"""

from __future__ import annotations

import random

from benchmarks.common.virtual_engine import Ask, Instance, Reply


def chat(rng: random.Random, full: bool, turns: int = 4, most: int = 30) -> Instance:
    """Gens behind each other in one stream."""
    text, prefix = _ids(rng, rng.randrange(100, 300)), None
    for left in reversed(range(turns)):
        [reply] = yield [Ask(text, most, _length(rng, full, most), most * left, prefix)]
        text, prefix = reply.ids + _ids(rng, 4), reply.prefix


def agent(rng: random.Random, full: bool, calls: int = 5, most: int = 24) -> Instance:
    """Each call behind a text of its own kind, which the same call of all instances begins with,
    and behind what the last ones gave."""
    heads = random.Random(1)
    notes = _ids(rng, 60)
    for left in reversed(range(calls)):
        length = _length(rng, full, most)
        [reply] = yield [Ask(_ids(heads, 300) + notes, most, length, most * left)]
        notes = [*notes[-60:], *reply.ids[-length:]]


def tree(rng: random.Random, full: bool, width: int = 4, most: int = 48) -> Instance:
    """A plan, branches of two gens each behind it, and an answer from all of them."""
    more = most * (2 * width + 1)
    [plan] = yield [Ask(_ids(rng, rng.randrange(80, 200)), most, _length(rng, full, most), more)]
    ends = [plan] * width
    for _ in range(2):
        asks = []
        for end in ends:
            more -= most
            text = end.ids + _ids(rng, 10)
            asks.append(Ask(text, most, _length(rng, full, most), more, end.prefix))
        ends = yield asks
    yield [Ask(_gathered(plan, ends), most, _length(rng, full, most), 0, plan.prefix)]


def failing(rng: random.Random, full: bool) -> Instance:
    """A conversation half of whose turns are the last, which nobody knows before."""
    talk = chat(rng, full)
    asks = next(talk)
    while True:
        replies = yield asks
        if rng.random() < 0.5:
            return
        try:
            asks = talk.send(replies)
        except StopIteration:
            return


PROGRAMS = {"chat": chat, "agent": agent, "tree": tree, "failing": failing}


def _gathered(plan: Reply, ends: list[Reply]) -> list[int]:
    return plan.ids + [token for end in ends for token in end.ids[-20:]]


def _ids(rng: random.Random, num: int) -> list[int]:
    return [rng.randrange(1_000, 50_000) for _ in range(num)]


def _length(rng: random.Random, full: bool, most: int) -> int:
    return most if full else max(1, int(most * rng.uniform(0.2, 1.0)))
