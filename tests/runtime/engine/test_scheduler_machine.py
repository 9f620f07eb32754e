"""Random programs with forks, aborts and retractions: laws after every step, results at the end."""

from __future__ import annotations

import gc
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.engine.request import Prefix, Request, State

CONFIGS = {
    "order": ["dfs", "lpm", "fcfs"],
    "priorities": [True, True, False],
    "cohort": [1, 3, 16],
    "turn_tokens": [1, 40, 16_384],
    "prefill_tokens": [1, 7, 512],
    "max_running": [1, 4, 64],
    "reserve": [0.0, 0.5, 1.0],
    "share_min_tokens": [1, 4, 16],
    "max_prefill_streak": [0, 1, 4],
    "scan_limit": [2, 512],
    "cache": [True, True, True, False],
}


class Programs:
    """Random instances over one simulation. A stream is a text with a soft hold."""

    def __init__(self, seed: int, num_slots: int, **config: object) -> None:
        self.rng = random.Random(seed)
        self.run = Simulation(num_slots, **config)
        self.roots = [[self.rng.randrange(2, 50) for _ in range(20)] for _ in range(3)]
        self.open: dict[Request, tuple[int, int]] = {}  # instance, calls left of its stream
        self.instances = self.finished = 0

    def begin(self) -> None:
        """A new instance with one or several streams."""
        root = self.rng.choice(self.roots)[: self.rng.randrange(1, 20)]
        self.instances += 1
        self._fork(root, None, self.instances, self.rng.randrange(1, 4))

    def step(self) -> None:
        for request in self.run.step():
            instance, left = self.open.pop(request)
            self._check(request)
            self.finished += 1
            text = request.tokens[: request.num_tokens].tolist()
            if left and len(text) < 34:
                hold = Prefix(request.anchor, request.anchor.end) if request.anchor else None
                self._fork(text, hold, instance, left)

    def abort(self) -> None:
        """All that an instance has in the engine is cancelled."""
        if not self.open:
            return
        instance, _ = self.open[self.rng.choice(sorted(self.open, key=lambda r: r.arrival))]
        for request in [r for r, (i, _) in self.open.items() if i == instance]:
            self.run.cancel(request)
            del self.open[request]

    def _fork(self, text: list[int], hold: Prefix | None, instance: int, left: int) -> None:
        rng = self.rng
        if hold is not None and hold.length and rng.random() < 0.3:  # a seam goes back
            kept = rng.randrange(max(1, hold.length - 3), hold.length + 1)
            text, hold = text[:kept], Prefix(hold.node, kept)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            own = [rng.randrange(2, 50) for _ in range(rng.randrange(1, 5))]
            more = rng.choice([None, 0, 9 * left])
            request = self.run.add(
                [*text, *own],
                rng.randrange(1, 9),
                instance=instance if rng.random() < 0.9 else None,
                more=more,
                prefix=hold,
            )
            self.open[request] = (instance, left - 1)

    def _check(self, request: Request) -> None:
        expected = plain_output(request.prompt.tolist(), request.max_new)
        assert request.output.tolist() == expected

    def check(self) -> None:
        check_laws(self.run)
        waiting = [r for r in self.open if r.state is State.WAITING]
        assert set(waiting) == set(self.run.scheduler.waiting)

    def drain(self) -> None:
        while not self.run.scheduler.idle:
            self.step()
            self.check()
        assert not self.open
        assert self.run.cache.referenced == 0


class SchedulerMachine(RuleBasedStateMachine):
    """Hypothesis chooses the settings and the events."""

    @initialize(
        seed=st.integers(0, 1_000),
        num_slots=st.sampled_from([50, 70, 120, 600]),
        config=st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CONFIGS.items()}),
    )
    def start(self, seed: int, num_slots: int, config: dict[str, object]) -> None:
        self.programs = Programs(seed, num_slots, **config)

    @rule()
    def begin(self) -> None:
        self.programs.begin()

    @rule()
    def abort(self) -> None:
        self.programs.abort()

    @rule(steps=st.integers(1, 6))
    def steps(self, steps: int) -> None:
        for _ in range(steps):
            self.programs.step()
            self.programs.check()

    @invariant()
    def laws(self) -> None:
        if hasattr(self, "programs"):
            self.programs.check()

    def teardown(self) -> None:
        if hasattr(self, "programs"):
            self.programs.drain()


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def random_steps(seed: int, num_steps: int) -> Programs:
    """So many random steps under random settings, laws checked after each."""
    rng = random.Random(seed)
    config = {name: rng.choice(values) for name, values in CONFIGS.items()}
    programs = Programs(seed, rng.choice([50, 70, 120, 600]), **config)
    programs.run.keep_lists = False
    for _ in range(num_steps):
        if len(programs.open) < 40 and rng.random() < 0.4:
            programs.begin()
        if rng.random() < 0.03:
            programs.abort()
        programs.step()
        programs.check()
    programs.drain()
    return programs


@pytest.mark.parametrize("seed", range(6))
def test_random_steps(seed: int) -> None:
    assert random_steps(seed, 300).finished > 20


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(40))
def test_two_hundred_thousand_random_steps(seed: int) -> None:
    random_steps(100 + seed, 5_000)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_million_steps_leave_nothing_behind() -> None:
    """The number of live objects, once all is drained, does not grow."""
    programs = Programs(5, 120, prefill_tokens=64, max_running=8)
    programs.run.keep_lists = False
    programs.run.trie.add_prompt = lambda ids: False  # type: ignore[method-assign]
    programs.run.trie.add_made = lambda ids, start: None  # type: ignore[method-assign]
    counts = []
    for _ in range(10):
        for _ in range(100_000):
            if len(programs.open) < 12:
                programs.begin()
            if programs.rng.random() < 0.01:
                programs.abort()
            programs.step()
        while not programs.run.scheduler.idle:
            programs.step()
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert max(counts[2:]) < counts[1] + 2_000
