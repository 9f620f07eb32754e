"""Random programs with forks, pauses, aborts and retractions, under pools that hold one request or
many: laws after every step, results at the end."""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.scheduling import Simulation, check_laws, make_request, plain_output

from sgc_runtime.engine.request import Prefix, Request, State

CONFIGS = {
    "order": ["dfs", "lpm", "fcfs", "random"],
    "priorities": [True, True, False],
    "claims": [0.0, 0.5, 1.0],
    "claim_steps": [1, 16],
    "cohort": [1, 3, 16],
    "turn_tokens": [1, 40, 16_384],
    "prefill_tokens": [1, 7, 512],
    "max_running": [1, 4, 64],
    "reserve": [0.0, 0.5, 1.0],
    "hints": [True, True, False],
    "share_min_tokens": [1, 4, 16],
    "max_prefill_streak": [0, 1, 4],
    "scan_limit": [2, 512],
    "cache": [True, True, True, False],
    "cache_tree": [True, True, False],
    "match_share": [1.0, 1.0, 0.5, 0.0],
}
SLOTS = [44, 50, 70, 120, 600]  # of the pool; the longest request needs 44
LONGEST = 34  # tokens of a text that goes on
IN_ENGINE = (State.WAITING, State.PREFILLING, State.RUNNING)


@dataclass
class Paused:
    """A stream between two calls: nothing in the engine, a soft hold on its KV, and what the
    engine knows of its instance."""

    text: list[int]
    hold: Prefix | None
    instance: int
    left: int


class Programs:
    """Random instances over one simulation. A stream is a text with a soft hold.

    Attributes:
        aborted: states in which requests were cancelled.
    """

    def __init__(self, seed: int, num_slots: int, **config: object) -> None:
        self.rng = random.Random(seed)
        self.falls_out = self.rng.choice([0.0, 0.05, 0.3])
        self.run = Simulation(num_slots, **config)
        self.roots = [[self.rng.randrange(2, 50) for _ in range(20)] for _ in range(3)]
        self.open: dict[Request, tuple[int, int]] = {}  # instance, calls left of its stream
        self.paused: list[Paused] = []
        self.aborted: set[State] = set()
        self.instances = self.finished = self.refused = 0

    def begin(self) -> None:
        """A new instance with one or several streams."""
        root = self.rng.choice(self.roots)[: self.rng.randrange(1, 20)]
        self.instances += 1
        self._fork(root, None, self.instances, self.rng.randrange(1, 4))

    def step(self) -> None:
        before = {r: r.num_tokens for r in self._aside()}
        ended = self.run.step()
        assert {r: r.num_tokens for r in before} == before
        assert all(r.state is State.RUNNING for r in before)
        for request in ended:
            instance, left = self.open.pop(request)
            self._check(request)
            self.finished += 1
            text = request.tokens[: request.num_tokens].tolist()
            if left and len(text) < LONGEST:
                hold = Prefix(request.anchor, request.anchor.end) if request.anchor else None
                stream = Paused(text, hold, instance, left)
                if self.rng.random() < 0.3:
                    self.paused.append(stream)
                else:
                    self._resume(stream)

    def _aside(self) -> list[Request]:
        """Some running requests stand aside, most of them not for long."""
        running = self.run.scheduler.running
        for request in running:
            request.aside = self.rng.random() < (0.6 if request.aside else self.falls_out)
        return [r for r in running if r.aside]

    def resume(self) -> None:
        """A paused stream goes on, or is given up."""
        if not self.paused:
            return
        stream = self.paused.pop(self.rng.randrange(len(self.paused)))
        if self.rng.random() < 0.7:
            self._resume(stream)

    def abort(self, state: State | None = None) -> None:
        """All that an instance has in the engine is cancelled; one with a request in `state`."""
        found = [r for r in self.open if state in (None, r.state)]
        if not found:
            return
        instance, _ = self.open[self.rng.choice(sorted(found, key=lambda r: r.arrival))]
        for request in [r for r, (i, _) in self.open.items() if i == instance]:
            self.aborted.add(request.state)
            self.run.cancel(request)
            self.run.cache.check()
            del self.open[request]

    def ask_too_much(self) -> None:
        """A request that can never fit is refused with its numbers; nobody else notices."""
        slots = self.run.cache.num_slots
        length = self.rng.randrange(1, slots + 2)
        max_new = slots + 2 - length + self.rng.randrange(9)
        refused = make_request([2] * length, max_new, instance=1)
        before = (self.run.cache.free, self.run.cache.referenced, len(self.run.scheduler.waiting))
        reason = self.run.scheduler.too_large(refused)
        assert reason is not None
        for number in (length, max_new, length + max_new - 1, slots):
            assert str(number) in reason
        after = (self.run.cache.free, self.run.cache.referenced, len(self.run.scheduler.waiting))
        assert after == before
        self.refused += 1

    def _resume(self, stream: Paused) -> None:
        self._fork(stream.text, stream.hold, stream.instance, stream.left)

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
                most=rng.choice([None, None, 4]),
                regions=self._regions(len(text) + len(own)),
            )
            self.open[request] = (instance, left - 1)

    def _regions(self, length: int) -> list[tuple[int, int | None, int | None]]:
        """What is said of later reads; it need not be true."""
        rng = self.rng
        starts = sorted({0, *(rng.randrange(length + 3) for _ in range(rng.randrange(3)))})
        said = [(start, rng.choice([None, 0, 1, 3]), rng.choice([None, 0, 5])) for start in starts]
        return rng.choice([[], said])

    def _check(self, request: Request) -> None:
        expected = plain_output(request.prompt.tolist(), request.max_new)
        assert request.output.tolist() == expected

    def check(self) -> None:
        check_laws(self.run)
        waiting = [r for r in self.open if r.state is State.WAITING]
        assert set(waiting) == set(self.run.scheduler.waiting)

    def drain(self) -> None:
        while self.paused or not self.run.scheduler.idle:
            self.resume()
            self.step()
            self.check()
        assert not self.open
        assert self.run.cache.referenced == 0


class SchedulerMachine(RuleBasedStateMachine):
    """Hypothesis chooses the settings and the events."""

    @initialize(
        seed=st.integers(0, 1_000),
        num_slots=st.sampled_from(SLOTS),
        config=st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CONFIGS.items()}),
    )
    def start(self, seed: int, num_slots: int, config: dict[str, object]) -> None:
        self.programs = Programs(seed, num_slots, **config)

    @rule()
    def begin(self) -> None:
        self.programs.begin()

    @rule(state=st.sampled_from(IN_ENGINE))
    def abort(self, state: State) -> None:
        self.programs.abort(state)

    @rule()
    def resume(self) -> None:
        self.programs.resume()

    @rule()
    def ask_too_much(self) -> None:
        self.programs.ask_too_much()

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
    programs = Programs(seed, rng.choice(SLOTS), **config)
    programs.run.keep_lists = False
    for _ in range(num_steps):
        if len(programs.open) < 40 and rng.random() < 0.4:
            programs.begin()
        if rng.random() < 0.03:
            programs.abort(rng.choice(IN_ENGINE))
        if rng.random() < 0.2:
            programs.resume()
        if rng.random() < 0.02:
            programs.ask_too_much()
        programs.step()
        programs.check()
    programs.drain()
    return programs


@pytest.mark.parametrize("seed", range(6))
def test_random_steps(seed: int) -> None:
    programs = random_steps(seed, 300)
    assert programs.finished > 20
    assert programs.refused


def test_random_steps_abort_in_every_state() -> None:
    assert set(IN_ENGINE) == set().union(
        *(random_steps(seed, 60).aborted for seed in range(20, 36))
    )


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
            if programs.rng.random() < 0.2:
                programs.resume()
            programs.step()
        while programs.paused or not programs.run.scheduler.idle:
            programs.resume()
            programs.step()
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert max(counts[2:]) < counts[1] + 2_000
