"""What calls say of later calls decides what stays in the cache, and nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.engine.request import Prefix, Request

Text = list[int]
Regions = list[tuple[int, int | None, int | None]]


def hold_of(request: Request) -> Prefix | None:
    return Prefix(request.anchor, request.anchor.end) if request.anchor is not None else None


def text_of(request: Request) -> Text:
    found: Text = request.tokens[: request.num_tokens].tolist()
    return found


def cached(run: Simulation, text: Text) -> int:
    """Of a text that was generated the last token has no KV."""
    return run.cache.find(np.array(text, np.int32))[1]


def serve(run: Simulation, text: Text, max_new: int = 2, **said: object) -> Request:
    """A call alone."""
    request = run.add(text, max_new, **said)  # type: ignore[arg-type]
    run.run()
    check_laws(run)
    assert request.output.tolist() == plain_output(text, max_new)
    return request


def own(number: int, length: int = 20) -> Text:
    rng = random.Random(number)
    return [rng.randrange(2, 50) for _ in range(length)]


def computed(run: Simulation) -> int:
    return sum(run.computed)


# -- released at once -----------------------------------------------------------------------------


def head_between_one_offs(hints: bool) -> Simulation:
    """Every fifth call goes on from a text of which it is known that it does; the others are read
    once."""
    run = Simulation(70, hints=hints)
    head = own(1, 30)
    for i in range(40):
        text = [*head, 2 + i] if i % 5 == 0 else own(100 + i)
        regions: Regions = [(0, 0, None)]
        if i % 5 == 0:
            regions = [(0, None, None), (len(head), 0, None)]
        serve(run, text, instance=i, regions=regions)
    return run


def test_what_nobody_reads_again_makes_room_first() -> None:
    without, with_them = head_between_one_offs(False), head_between_one_offs(True)
    assert computed(without) - computed(with_them) >= 7 * 30, "the head is computed once"
    best = with_them.trie.optimal_hit_rate()
    assert best == pytest.approx(with_them.cached_tokens / with_them.prompt_tokens, abs=0.01)


def test_a_beginning_that_others_have_used_is_not_released() -> None:
    run = Simulation(60)
    head = own(2, 20)
    serve(run, [*head, 3], instance=1, regions=[(0, 0, None)])  # it does not know of the second
    serve(run, [*head, 4], instance=2, regions=[(0, 0, None)])
    for i in range(3):
        serve(run, own(10 + i, 14), instance=10 + i, regions=[(0, 0, None)])
    assert cached(run, [*head, 3]) == len(head)


# -- kept until the next use ----------------------------------------------------------------------


def test_what_is_read_sooner_stays_longer() -> None:
    run = Simulation(80)
    late, soon = own(3, 20), own(4, 20)
    serve(run, late, instance=1, more=50, regions=[(0, 1, 500)])
    serve(run, soon, instance=2, more=50, regions=[(0, 1, 2)])
    serve(run, own(5, 20), instance=3, regions=[(0, None, None)])  # of this nothing is known
    run.scheduler.lifetimes._patience = 1_000
    serve(run, own(6, 50), instance=4)
    assert cached(run, own(5, 20)) == 0
    assert cached(run, late) < 20
    assert cached(run, soon) == 20


def conversations(hints: bool) -> Simulation:
    """Each goes on from its first call after calls of others; those others are read once."""
    run = Simulation(120, hints=hints)
    firsts = []
    for i in range(3):
        text = own(20 + i, 16)
        firsts.append(serve(run, text, instance=i, more=3, regions=[(0, 1, 0)]))
    for i in range(6):
        serve(run, own(40 + i, 14), instance=10 + i, regions=[(0, 0, None)])
    for i, first in enumerate(firsts):
        text = [*text_of(first), 7, 8]
        serve(run, text, instance=i, prefix=hold_of(first), regions=[(0, 0, None)], more=0)
    return run


def test_a_program_finds_what_it_left() -> None:
    without, with_them = conversations(False), conversations(True)
    assert computed(without) - computed(with_them) >= 3 * 16
    assert with_them.scheduler.lifetimes.num_claims == 0


def branches(hints: bool) -> Simulation:
    """Branches that go on in turn from where they all began, in a pool that holds two of them."""
    run = Simulation(90, hints=hints, max_running=1)
    parent = serve(run, own(7, 30), instance=1, regions=[(0, 4, 0)])
    calls = []
    for i in range(4):
        text = [*text_of(parent), *own(60 + i, 14)]
        regions: Regions = [(0, 3 - i, 0), (parent.num_tokens - 1, 0, None)]
        calls.append(
            run.add(text, 8, instance=1, prefix=hold_of(parent), regions=regions, more=8 * (3 - i))
        )
    run.run()
    check_laws(run)
    for call in calls:
        assert call.output.tolist() == plain_output(call.prompt.tolist(), 8)
    return run


def test_the_parent_stays_until_its_last_branch() -> None:
    run = branches(True)
    assert computed(run) == run.trie._needed + sum(len(r.output) - 1 for r in run.done)
    assert run.cache.held == 0
    assert run.scheduler.lifetimes.num_claims == 0


def test_the_call_that_was_issued_later_knows_better() -> None:
    run = Simulation(200)
    parent = serve(run, own(8, 10), instance=1, more=9, regions=[(0, 2, 0)])
    end = parent.num_tokens - 1
    first, last = (
        run.add([*text_of(parent), n], size, instance=1, prefix=hold_of(parent), regions=regions)
        for n, size, regions in ((3, 9, [(0, 1, 0), (end, 0, None)]), (4, 2, [(0, 0, None)]))
    )
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
    assert run.done == [parent, last, first]
    assert run.cache.held == 0, "the first one says that somebody comes, but the last one has come"


# -- nobody keeps the pool ------------------------------------------------------------------------


def test_calls_that_have_come_are_not_still_to_come() -> None:
    """Three calls that are issued at once each count those behind them."""
    run = Simulation(200)
    calls = [run.add(own(i), 4, instance=1, more=more) for i, more in enumerate((8, 4, 0))]
    alone = run.add(own(9), 4, instance=2, more=8)
    later = run.scheduler.admission.lifetimes.later
    assert [later(call) for call in (*calls, alone)] == [0, 0, 0, 8]
    run.run()
    check_laws(run)


def test_an_idle_program_does_not_keep_the_pool() -> None:
    """All of the pool is claimed, and nobody comes."""
    run = Simulation(200, claim_steps=8)
    for i in range(6):
        serve(run, own(i, 30), instance=i, more=20, regions=[(0, 3, 0)])
    assert run.cache.held > 150
    fresh = [run.add(own(50 + i, 20), 6, instance=100 + i) for i in range(20)]
    steps = 0
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
        steps += 1
    assert all(r.output.tolist() == plain_output(r.prompt.tolist(), 6) for r in fresh)
    alone = Simulation(200, claim_steps=8)
    for i in range(20):
        alone.add(own(50 + i, 20), 6, instance=100 + i)
    alone.run()
    assert steps <= len(alone.computed) + 8 + 6, "held up for longer than claims last"
    assert run.cache.held == 0
    assert run.scheduler.lifetimes.num_claims == 0


def test_claims_of_instances_that_fail_leave_nothing_behind() -> None:
    run = Simulation(200, claim_steps=4)
    for i in range(50):
        first = run.add(own(i, 12), 3, instance=i, more=9, regions=[(0, 2, 0)])
        run.run()
        run.cancel(run.add(text_of(first), 3, instance=i, prefix=hold_of(first)))
    for _ in range(6):
        run.step()
    lifetimes = run.scheduler.lifetimes
    assert (run.cache.held, lifetimes.num_claims) == (0, 0)
    assert not lifetimes._present
    assert not lifetimes._away


def test_without_hints_nothing_is_claimed() -> None:
    run = conversations(False)
    assert run.cache.held == run.scheduler.lifetimes.num_claims == 0


# -- asked by others ------------------------------------------------------------------------------


def test_what_was_asked_outlives_what_was_generated() -> None:
    run = Simulation(60)
    first = serve(run, own(3, 10), 20, instance=0, regions=[(0, 0, None)])
    second = serve(run, own(4, 10), 20, instance=1, regions=[(0, 0, None)])
    serve(run, own(5, 16), 10, instance=2)
    for request in (first, second):
        assert cached(run, text_of(request)) >= 10, "generated tokens alone made room"


def test_a_call_that_waits_holds_what_it_will_find() -> None:
    """It is a new stream: nothing but the tree knows that it begins with what is cached."""
    run = Simulation(80, max_running=1)
    head = own(6, 30)
    for last in (3, 5):
        serve(run, [*head, last])
    run.add(own(7, 20), 20)
    run.step()
    waiting = run.add([*head, 4], 2)
    run.step()
    assert run.cache.held == len(head)
    check_laws(run)
    run.run()
    assert waiting.cached_tokens == len(head)
    assert run.cache.held == 0
