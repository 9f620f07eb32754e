"""Steps of walks that were made, and those that are like them: behind each of the characters of a
run comes the same."""

from __future__ import annotations

from functools import lru_cache

from sgc_ir.automata.nodes import Node, Repeat, Sequence
from sgc_ir.automata.one_byte import first_bytes
from sgc_ir.automata.utf8 import CharSet

_MOST = 16_384
_BYTES = 120  # of a step, about


class Walks:
    """What follows a state and a byte, as far as it is known; may be asked from any thread."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}  # by state * 256 + byte
        self._runs: dict[int, tuple[bytes, int]] = {}  # by state: behind which bytes comes which

    def step(self, state: int, byte: int) -> int | None:
        """The state behind one byte, or the automaton's `DEAD`; None: unknown."""
        run = self._runs.get(state)
        if run is not None and run[0][byte]:
            return run[1]
        return self._steps.get(state << 8 | byte)

    def known(self, state: int, data: bytes) -> int:
        """The state behind `data`; below 0 where it is not known, or there is none."""
        runs, steps = self._runs.get, self._steps.get
        for byte in data:
            run = runs(state)
            if run is not None and run[0][byte]:
                state = run[1]
                continue
            state = steps(state << 8 | byte, -1)
            if state < 0:
                break
        return state

    def add(self, state: int, node: Node, byte: int, following: int) -> None:
        """Note that `following` comes behind `byte`.

        Args:
            node: the expression of `state`.
        """
        if len(self._steps) >= _MOST or len(self._runs) >= _MOST:
            self.clear()
        alike = bytes_alike(node, byte)
        if alike is None:
            self._steps[state << 8 | byte] = following
        else:
            self._runs[state] = alike, following

    def clear(self) -> None:
        """Forget everything."""
        self._steps.clear()
        self._runs.clear()

    @property
    def num_bytes(self) -> int:
        """Memory that is taken, about."""
        return _BYTES * (len(self._steps) + 2 * len(self._runs))


def bytes_alike(node: Node, byte: int) -> bytes | None:
    """256 flags: the bytes behind which surely the same follows as behind `byte`, since each is a
    character of the run that `node` begins with; None where it is not one."""
    head, tail = (node.head, node.tail) if isinstance(node, Sequence) else (node, None)
    chars = head.plain() if isinstance(head, Repeat) else None
    if chars is None:
        return None
    others: list[tuple[int, int]] | None = []
    if head.nullable and tail is not None:
        others = first_bytes(tail)  # where the run may have ended
    if others is None:
        return None
    alike = _whole_characters(chars, tuple(others))
    return alike if alike[byte] else None


@lru_cache(maxsize=1024)
def _whole_characters(chars: CharSet, others: tuple[tuple[int, int], ...]) -> bytes:
    """The bytes that are characters of `chars` by themselves, but for those of `others`."""
    flags = bytearray(256)
    for low, high, rest in chars.edges:
        if rest is None:
            flags[low : high + 1] = b"\1" * (high + 1 - low)
    for low, high in others:
        flags[low : high + 1] = bytes(high + 1 - low)
    return bytes(flags)
