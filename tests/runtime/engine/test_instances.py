"""Priorities of program instances, what they claim, and idle ones that must not block."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.engine.instances import Instances
from sgc_runtime.engine.request import Prefix, Request


class Chains:
    """Instances that make `calls` calls one after another: each on the last one's text, or with
    `templates` each behind a text that the same call of all instances begins with."""

    def __init__(
        self, run: Simulation, instances: int, calls: int, templates: bool = False
    ) -> None:
        self.run, self.calls, self.templates = run, calls, templates
        self.texts = {i: [2 + i % 40, 3 + i % 30, 5, 7] * 3 for i in range(instances)}
        self.left = dict.fromkeys(self.texts, calls)
        self.ends: dict[int, int] = {}  # tokens computed when the instance was done
        self.outputs: dict[int, list[int]] = {i: [] for i in self.texts}
        self.of: dict[Request, int] = {}
        self.recomputed = 0
        for instance in self.texts:
            self._call(instance, None)

    def _call(self, instance: int, prefix: Prefix | None) -> None:
        self.left[instance] -= 1
        more = self.left[instance] * 6
        text = self.texts[instance]
        if self.templates:
            text, prefix = [45 - self.left[instance]] * 20 + text[-12:], None
        request = self.run.add(text, 6, instance=instance, more=more, prefix=prefix)
        self.of[request] = instance

    def step(self) -> None:
        for request in self.run.step():
            if request not in self.of:
                continue
            instance = self.of.pop(request)
            self.outputs[instance] += request.output.tolist()
            # The soft hold of a stream between two calls.
            hold = Prefix(request.anchor, request.anchor.end) if request.anchor else None
            self.recomputed += max(0, request.num_prompt - 1 - (request.cached_tokens or 0))
            if not self.left[instance]:
                self.ends[instance] = len(self.run.computed)
                continue
            self.texts[instance] = [*request.tokens[: request.num_tokens].tolist(), 4, 9]
            self._call(instance, hold)

    def finish(self) -> Chains:
        while len(self.ends) < len(self.texts):
            self.step()
        return self


def chains(
    instances: int = 40, slots: int = 2000, templates: bool = False, **config: object
) -> Chains:
    run = Simulation(slots, **{"max_running": 8, "cohort": 4, **config})  # type: ignore[arg-type]
    return Chains(run, instances, calls=5, templates=templates).finish()


@pytest.mark.parametrize("order", ["dfs", "lpm"])
def test_instances_finish_one_after_another(order: str) -> None:
    without = chains(order=order, templates=True, priorities=False)
    with_them = chains(order=order, templates=True)
    assert mean(with_them.ends.values()) < 0.75 * mean(without.ends.values())
    assert max(with_them.ends.values()) <= 1.1 * max(without.ends.values())
    assert with_them.outputs == without.outputs


def test_what_started_ones_will_need_is_left_to_them() -> None:
    """With a pool of a few instances, starting more of them means computing prompts again."""
    without = chains(slots=160, priorities=False, reserve=1.0, hints=False)
    order = chains(slots=160, reserve=1.0, claims=0.0, hints=False)
    with_them = chains(slots=160, reserve=1.0, hints=False)
    assert with_them.recomputed < 0.8 * order.recomputed
    assert with_them.recomputed < 0.7 * without.recomputed
    assert with_them.outputs == without.outputs


def test_instances_that_do_not_come_back_hold_new_ones_up_for_a_few_steps() -> None:
    """Each could still generate as much as the pool holds."""
    run = Simulation(600, max_running=16, claim_steps=8)
    gone = [run.add([2 + i, 3, 4 + i, 5], 2, instance=i, more=600) for i in range(5)]
    run.run()
    assert run.scheduler.admission.instances.growth == 5 * 600
    fresh = [run.add([20 + i, 12, 13], 6, instance=100 + i, more=0) for i in range(16)]
    steps = 0
    while not run.scheduler.idle:
        run.step()
        steps += 1
    assert run.done[:5] == gone
    assert len(run.done) == 5 + len(fresh)
    assert steps <= 8 + 2 * 6 + 2, "one after another"
    assert len(run.scheduler.admission.instances) == 5, "their place in the order stays"


def test_one_that_comes_back_late_claims_again() -> None:
    instances = Instances(4, 100, 8)
    first, second = (
        Simulation(50).add([2, 3], 1, instance=1, more=more, prefix=None) for more in (30, 10)
    )
    instances.admit(first, 0)
    instances.leave(first, 1, 7, done=True)
    assert (instances.growth, instances.claimed(50)) == (30, 7)
    for _ in range(9):
        instances.lapse(1)
    assert (instances.growth, instances.claimed(50)) == (0, 0)
    assert instances.cohort_of(second) == 0
    assert instances.admit(second, 1) is None, "it has begun before"
    assert (instances.growth, instances.claimed(50)) == (10, 0)
    instances.leave(second, 1, 2, done=True)
    assert (instances.growth, instances.claimed(50)) == (10, 9)


def test_results_are_those_of_a_plain_loop() -> None:
    done = chains(instances=12, slots=90, reserve=0.0)
    for instance, text in done.texts.items():
        assert plain_output(text, 6) == done.outputs[instance][-6:]


def test_idle_streams_with_claims_do_not_block_a_full_pool() -> None:
    run = Simulation(600, max_running=16)
    idle = Chains(run, 200, calls=2)
    while idle.of and len(idle.run.done) < 200:  # their second calls never come
        for request in run.step():
            del idle.of[request]
    assert run.cache.free < 0.1 * 600
    fresh = [run.add([11 + i % 7, 12, 13 + i, 14] * 10, 8, instance=1_000 + i) for i in range(60)]
    steps = 0
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
        steps += 1
    assert all(len(r.output) == 8 for r in fresh)
    assert steps < 300, "one after another"


def test_claims_lapse_and_end() -> None:
    run = Simulation(500)
    chain = Chains(run, 3, calls=2)
    instances = run.scheduler.admission.instances
    chain.finish()
    assert len(instances) == 0
    assert instances.growth == instances.claimed(500) == 0
    run.add([49, 5, 6] * 5, 2, instance=77, more=50)
    run.run()
    assert instances.claimed(500) == 16
    assert instances.growth == 50
    for i in range(100):  # others are served, and it does not come back
        run.add([random.Random(i).randrange(2, 50) for _ in range(20)], 1)
        run.run()
    assert len(instances) == instances.growth == instances.claimed(500) == 0


def test_the_bound_of_an_instance_never_rises() -> None:
    run = Simulation(500)
    instances = Instances(4, 100, 8)
    early, late = (
        Simulation(50).add([2, 3], 1, instance=1, more=30),
        Simulation(50).add([2, 3], 1, instance=1, more=10),
    )
    instances.admit(late, 0)
    instances.admit(early, 0)
    assert instances.growth == 10
    assert run.scheduler.idle


def test_cancelling_gives_all_slots_back_at_once() -> None:
    run = Simulation(400, prefill_tokens=16)
    before = run.cache.available
    requests = [run.add([2 + i, *range(3, 40)], 9, instance=i, more=5) for i in range(8)]
    for _ in range(7):
        run.step()
    assert run.cache.available < before
    for request in requests:
        run.cancel(request)
        check_laws(run)
    assert run.cache.available == before
    assert run.cache.referenced == 0
    assert run.scheduler.idle
