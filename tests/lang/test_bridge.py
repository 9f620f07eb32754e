"""A body's operations: in order, none lost, and what they raise reaches the row."""

from __future__ import annotations

import threading
import time

import pytest

import sgc
from sgc.lang.bridge import Bridge
from sgc.testing import ScriptedBackend
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.loop import call


def test_a_known_cell_is_read_only_when_nothing_is_outstanding() -> None:
    bridge, cell = Bridge(RunContext()), Cell()
    gate = threading.Event()
    assert bridge.known(lambda: cell) is None
    cell.set(5)
    assert bridge.known(lambda: cell) is cell
    assert bridge.known(lambda: None) is None
    bridge.post(gate.wait)
    assert bridge.known(lambda: cell) is None  # the operation might write the variable anew
    gate.set()
    call(lambda: None)
    assert bridge.known(lambda: cell) is cell
    assert bridge.known(lambda: Cell.failed(KeyError("x"))) is None


def test_what_the_last_operation_raised_is_left_for_the_end() -> None:
    bridge = Bridge(RunContext())

    def fail() -> None:
        raise ValueError("bad")

    bridge.post(fail)
    call(lambda: None)
    assert isinstance(bridge.left_failure(), ValueError)
    assert bridge.left_failure() is None
    bridge.post(fail)
    with pytest.raises(ValueError, match="bad"):
        bridge.ask(lambda: 1)
    assert bridge.ask(lambda: 1) == 1


def test_a_read_sees_the_last_write_before_it() -> None:
    @sgc.function
    def program(s: sgc.State) -> list[str]:
        seen = []
        for i in range(50):
            s.set("x", str(i))
            seen.append(s["x"])
            s += sgc.gen("x")
            seen.append(s["x"])
            seen.append(s["x"])
        return seen

    backend = ScriptedBackend(lambda prompt, params: f"g{len(prompt)}")
    value = program.run(backend=backend, mode="interpreted").value
    texts = [f"g{sum(len(t) for t in value[1 : 3 * i : 3])}" for i in range(50)]
    assert value == [x for i in range(50) for x in (str(i), texts[i], texts[i])]


def test_a_call_begins_while_the_body_computes() -> None:
    began = threading.Event()

    def reply(prompt: str, params: object) -> str:
        began.set()
        return "fine"

    @sgc.function
    def program(s: sgc.State) -> bool:
        s += "a"
        s += sgc.gen("x")
        end = time.monotonic() + 5.0
        while not began.is_set() and time.monotonic() < end:
            time.sleep(0.001)  # reads nothing: only the post itself can have woken the loop
        return began.is_set()

    assert program.run(backend=ScriptedBackend(reply), mode="interpreted").value is True
