"""Further attempts at nodes that failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from support.odd_backend import (
    MODES,
    Odd,
    ask,
    stubborn,
    words,
)

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import BackendError, InputError, ToolError
from sgc_ir.params import CallResult
from sgc_runtime.backends.scripted import ScriptedStream
from sgc_runtime.executor.backend import Call
from sgc_runtime.executor.policy import LONGEST_PAUSE_S, may_pass, pause_s


class Flaky(ScriptedBackend):
    """Fails the first `times` calls whose prompt holds `bad`; streams before it fails."""

    def __init__(self, times: int, bad: str = "", error: Exception | None = None) -> None:
        super().__init__(lambda p, q: " one two three")
        self.left = times
        self.seeds: list[Any] = []
        self.bad = bad
        self.error = error or BackendError("the server is busy")

    def open(self) -> ScriptedStream:
        owner = self

        class FlakyStream(ScriptedStream):
            async def generate(self, call: Call) -> list[CallResult]:
                owner.seeds.append(call.seeds)
                if owner.left and owner.bad in call.prompt:
                    owner.left -= 1
                    if call.on_text is not None:
                        call.on_text(" one two")
                    await asyncio.sleep(0)
                    raise owner.error
                return await super().generate(call)

            def fork(self) -> ScriptedStream:
                return FlakyStream(owner, self._texts)

        return FlakyStream(self)


@MODES
def test_a_call_that_fails_is_tried_again_with_the_same_seeds(mode: str) -> None:
    backend = Flaky(2)
    assert ask.run("q", backend=backend, mode=mode, retries=2).value == " one two three"
    assert len(backend.seeds) == 3
    assert len(set(backend.seeds)) == 1


def test_the_failure_says_how_many_attempts_there_were() -> None:
    with pytest.raises(sgc.GenerationError, match=r"server is busy \(after 3 attempts\)") as info:
        ask.run("q", backend=Flaky(9), retries={"v": 2})
    assert isinstance(info.value.__cause__, BackendError)
    with pytest.raises(sgc.GenerationError, match=r"busy$"):
        ask.run("q", backend=Flaky(9), mode="interpreted", retries={"other": 2})


def test_a_timed_out_attempt_that_goes_on_does_not_touch_the_next_one() -> None:
    odd = Odd(lambda call, results: None, bad="q")
    attempts: list[str] = []

    async def once_stubborn(call: Call, results: list[CallResult]) -> list[CallResult]:
        attempts.append(call.prompt)
        return await stubborn() if len(attempts) == 1 else results

    odd.answer = once_stubborn
    state = ask.run("q", backend=odd, deadline=0.1, retries=1)
    assert (state.value, state.text(), attempts) == (" ok", "q ok", ["q", "q"])


def test_text_that_was_streamed_is_not_repeated() -> None:
    events = list(ask.stream("q", backend=Flaky(2), retries=2))
    assert "".join(event.text for event in events) == " one two three"
    assert events[0].text == " one two"
    assert [event.done for event in events] == [False] * (len(events) - 1) + [True]


def test_other_text_than_was_streamed_is_an_error_where_it_was_shown() -> None:
    class Changing(Flaky):
        def __init__(self) -> None:
            super().__init__(1)
            self.reply = lambda p, q: " something else"

    with pytest.raises(sgc.GenerationError, match="streamed ' one two', then gave"):
        list(ask.stream("q", backend=Changing(), retries=1))
    state = ask.run("q", backend=Changing(), retries=1, mode="interpreted")
    assert state.value == " something else"  # nobody had seen the first attempt


class Late(ScriptedBackend):
    """The first call streams, then hangs; told to end, it may stream on all the same."""

    def __init__(self, stubborn: bool) -> None:
        super().__init__(words)
        self.stubborn = stubborn
        self.begun = 0

    def open(self) -> ScriptedStream:
        return LateStream(self)


class LateStream(ScriptedStream):
    def __init__(self, backend: Late, texts: Sequence[str] = ()) -> None:
        super().__init__(backend, texts)
        self.late = backend

    async def generate(self, call: Call) -> list[CallResult]:
        self.late.begun += 1
        if self.late.begun > 1:
            await asyncio.sleep(0.1)  # meanwhile the first attempt streams on
            return await super().generate(call)
        if call.on_text is not None:
            call.on_text(" wrong")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not self.late.stubborn:
                raise
            await self._go_on(call)
        return await super().generate(call)

    async def _go_on(self, call: Call) -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            if call.on_text is not None:
                call.on_text(" late")

    def fork(self) -> ScriptedStream:
        return LateStream(self.late, self._texts)


@MODES
@pytest.mark.parametrize("stubborn", [False, True])
def test_text_of_an_attempt_beyond_its_deadline_is_forgotten(mode: str, stubborn: bool) -> None:
    backend = Late(stubborn)
    state = ask.run("q", backend=backend, mode=mode, deadline=1.0, retries=1)
    assert (state.value, state.text(), backend.begun) == (" ok", "q ok", 2)


@pytest.mark.parametrize("error", [ValueError("no"), InputError("no"), TypeError("no")])
def test_wrong_input_is_not_tried_again(error: Exception) -> None:
    backend = Flaky(1, error=error)
    with pytest.raises(sgc.GenerationError):
        ask.run("q", backend=backend, retries=3)
    assert len(backend.seeds) == 1


def test_pauses_double_up_to_a_bound() -> None:
    pauses = [pause_s(i) for i in range(1, 40)]
    assert pauses[1] == 2 * pauses[0]
    assert pauses == sorted(pauses)
    assert max(pauses) == LONGEST_PAUSE_S
    assert may_pass(ConnectionResetError())
    assert may_pass(TimeoutError())
    assert not may_pass(KeyError("k"))


@MODES
def test_tools_are_tried_again_where_their_effect_allows(mode: str) -> None:
    counts = {"pure": 0, "repeatable": 0, "irreversible": 0}

    def failing(effect: str) -> Any:
        def work():
            counts[effect] += 1
            if counts[effect] < 3:
                raise ConnectionError("lost")
            return effect

        return sgc.tool(effect=effect, name=f"{effect}_{mode}")(work)  # type: ignore[arg-type]

    pure, repeatable, irreversible = (failing(effect) for effect in counts)

    @sgc.function
    def use(s):
        return [sgc.call(pure), sgc.call(repeatable)]

    @sgc.function
    def send(s):
        return sgc.call(irreversible)

    assert use.run(mode=mode, retries=2).value == ["pure", "repeatable"]
    with pytest.raises(sgc.GenerationError, match="lost"):
        send.run(mode=mode, retries=2)
    assert counts == {"pure": 3, "repeatable": 3, "irreversible": 1}
    named = {f"irreversible_{mode}": 2}
    for start in (partial(send.run, mode=mode), partial(send.run_batch, [{}], mode=mode)):
        with pytest.raises(InputError, match="irreversible and must not run twice"):
            start(retries=named)
    send.run_batch([], mode=mode, retries={f"irreversible_{mode}": 0})
    assert counts["irreversible"] == 1


def test_0_retries_and_no_deadline_by_name_hold_for_a_tool_that_says_otherwise() -> None:
    count = 0

    @sgc.tool(effect="pure", retries=2, deadline=0.3, name="lasting")
    def lasting() -> None:
        nonlocal count
        count += 1
        time.sleep(0.4)
        raise OSError("lost")

    @sgc.function
    def use(s):
        sgc.call(lasting)

    for mode in ("compiled", "interpreted"):
        count = 0
        given = {"retries": {"lasting": 0}, "deadline": {"lasting": None}}
        with pytest.raises(sgc.GenerationError, match=r"lost$"):
            use.run(mode=mode, options=given)
        assert count == 1
    with pytest.raises(InputError, match="retries of TYPO"):
        use.run(mode="compiled", retries={"TYPO": 0})


def test_a_tool_that_only_the_run_finds_is_refused_when_it_comes() -> None:
    runs = []
    sgc.tool(effect="irreversible", name="found_late")(lambda: runs.append(1))

    @sgc.function
    def send(s, name: str):
        return sgc.call(name)

    with pytest.raises(sgc.GenerationError, match="irreversible and must not run twice"):
        send.run("found_late", mode="interpreted", retries={"found_late": 2})
    assert not runs


def test_a_tool_names_its_own_retries() -> None:
    tries = []

    @sgc.tool(effect="pure", retries=1, name="own_retries")
    def twice():
        tries.append(1)
        raise ConnectionError("lost")

    @sgc.function
    def use(s):
        return sgc.call(twice)

    with pytest.raises(sgc.GenerationError, match=r"lost \(after 2 attempts\)") as info:
        use.run()
    assert isinstance(info.value.__cause__, ToolError)
    assert len(tries) == 2
    with pytest.raises(ToolError, match="must not run twice"):
        sgc.tool(effect="irreversible", retries=1)
    with pytest.raises(ToolError, match="deadline=0"):
        sgc.tool(effect="pure", deadline=0)


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": 0},
        {"deadline": True},
        {"row_deadline": -1},
        {"retries": -1},
        {"retries": 1.5},
        {"retries": {"v": "3"}},
        {"deadline": {1: 3}},
        {"deadline": {"": 3}},
    ],
)
def test_settings_without_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        ask.run("q", backend=ScriptedBackend(words), options=options)
