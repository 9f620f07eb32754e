"""Plans jumps: text that a constraint forces, as the tokens that the tokenizer gives for it.

The ids since the last border are encoded anew together with the forced text; where they come out
otherwise they are rolled back. What may still merge with a continuation is held back (`held`).
Where nothing is forced but the last ids are not what their text encodes to (no other token was
legal, or a character was completed), a jump puts the right ones in their place.

Source of the method: L. Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language
Model Programs" (jump-forward decoding); the rules that keep it exact are this project's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import NamedTuple, Protocol
from weakref import WeakSet, finalize

from sgc_ir.automata.automaton import DEAD
from sgc_ir.automata.closed import ClosedSet, closed_sets
from sgc_runtime.constraints.canonical import Canonical, Window
from sgc_runtime.constraints.held import SafeEnds
from sgc_runtime.constraints.memo import Memo
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.sampling.healing import TokenPrefixes
from sgc_runtime.tokenizer.borders import whole_characters

_PLANS = 2048  # of each constraint, hundreds of which may be kept
_CLOSED = 1000
_OPEN = 16_384
_SHORT = 192  # bytes that are forced and looked at without a slice of time
_PLAN = 64  # pieces of work (`Watch.tick`) that encoding a forced text is counted as
_STEPS = 4096


class Jump(NamedTuple):
    """What stands at the end of the ids from now on.

    Attributes:
        rollback: ids at the end that are taken back; each was generated under the constraint.
        ids: forced ids that follow, at least one.
        final: the text is complete with them, and nothing may follow.
    """

    rollback: int
    ids: tuple[int, ...]
    final: bool


class Run(NamedTuple):
    """The bytes that follow a state in every legal text, and whether the text ends with them."""

    data: bytes
    state: int
    final: bool


UNKNOWN = Jump(-1, (), False)  # it takes more to find out, see `Planner.known_plan`

_NO_BORDER = Window()  # the ids before are left as they are


class Holder(Protocol):
    """A sample that stands in states of the constraint.

    Attributes:
        is_held_up: it is in the middle of finding something out, and what it has found so far is
            to stay.
    """

    is_held_up: bool

    def held(self) -> Sequence[int]:
        """Those that it may still ask about."""


class _Place(NamedTuple):
    window: Window
    rest: bytes  # of a prefix that stands before the constraint's own text
    state: int


class Planner:
    """Plans for one constraint over one tokenizer; a plan is a function of window and state.

    States of long texts are dropped (`tidy`) by the thread that steps the samples, before a token
    is taken; until then whatever names a state may be used there. Other threads are `inside`.

    Args:
        masks: the constraint, its masks and its lock; of no use any more when the planner is gone.
        canonical: the tokenizer's rule.
        prefixes: its tokens by their beginning.

    Attributes:
        num_drops: how often states were dropped.
    """

    def __init__(self, masks: TokenMasks, canonical: Canonical, prefixes: TokenPrefixes) -> None:
        self.masks = masks
        self.canonical = canonical
        self.prefixes = prefixes
        self.num_drops = 0
        self._automaton = masks.automaton
        self._safe_ends = SafeEnds(masks.automaton, canonical, prefixes)
        self._runs: Memo[int, Run] = Memo(_PLANS)
        self._plans: Memo[_Place, Jump | None] = Memo(_PLANS)
        self._steps: Memo[tuple[int, bytes], int] = Memo(_STEPS)
        self._closed: Memo[int, list[ClosedSet]] = Memo(_CLOSED)
        self._open: set[int] = set()  # states known to force nothing, and not to end the text
        self._states: Memo[tuple[int, tuple[int, ...]], tuple[int, ...]] = Memo(_PLANS)
        self._samples: WeakSet[Holder] = WeakSet()
        self._inside = 0
        self._gate = threading.Lock()
        finalize(self, self._automaton.dissolve).atexit = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """No state is dropped meanwhile, so that one may be asked about that no sample holds."""
        with self._gate:
            self._inside += 1
        try:
            yield
        finally:
            with self._gate:
                self._inside -= 1

    def tidy(self) -> None:
        """Where it is time to, drop the states of long texts that no sample can come back to,
        unless somebody is inside or held up."""
        if not self._automaton.is_crowded:
            return
        with self.masks.lock, self._gate:
            if not self._inside and not any(sample.is_held_up for sample in self._samples):
                self._drop()

    def follow(self, sample: Holder) -> None:
        """Keep the states that `sample` holds, as long as there is somebody who holds it."""
        with self.masks.lock:
            self._samples.add(sample)

    def run(self, state: int) -> Run:
        """The forced run behind `state`."""
        return self._runs.find(state, self._run)

    def walk(self, state: int, data: bytes) -> int:
        """The state behind `data`, or `DEAD`."""
        return self._steps.find((state, data), self._walk)

    def states_behind(self, state: int, ids: tuple[int, ...]) -> tuple[int, ...]:
        """The state behind each of `ids`, which are legal."""
        return self._states.find((state, ids), self._states_behind)

    def plan(self, window: Window, rest: bytes, state: int) -> Jump | None:
        """What is to be done before a token is sampled; None: nothing.

        Args:
            window: the last ids.
            rest: bytes that must come before the constraint's own text.
            state: behind `rest`.
        """
        return self._plans.find(_Place(window, rest, state), self._plan)

    def closed_sets(self, state: int) -> list[ClosedSet]:
        """See `sgc_ir.automata.closed`."""
        return self._closed.find(state, self._closed_sets)

    def settled(self, data: bytes, ids: tuple[int, ...], state: int) -> tuple[int, ...]:
        """Those of `ids`, the tokens of `data`, that stay whatever follows from `state` on."""
        with self.masks.lock:
            return self._safe_ends.tokens(data, ids, state)

    # -- what is known: takes microseconds in any case, and no lock -----------------------------

    def known_walk(self, state: int, data: bytes) -> int:
        """`walk`, where it and `run` of the state are known; else `DEAD`, as where it is time to
        `tidy`."""
        if self._automaton.is_crowded:
            return DEAD
        behind = self._automaton.walks.known(state, data)
        if behind < 0:
            behind = self._steps.known((state, data), DEAD)
        return behind if behind in self._open or self.known_run(behind) is not None else DEAD

    def is_open(self, state: int) -> bool:
        """Whether it is known that `state` forces nothing and is not final."""
        return state in self._open

    def known_run(self, state: int) -> Run | None:
        """`run`, where it is known."""
        return self._runs.known(state, None)

    def known_plan(self, window: Window, state: int) -> Jump | None:
        """`plan` without a rest, where it is known or can be made of what is; else `UNKNOWN`.

        Args:
            window: its own ids are right.
        """
        run = self.known_run(state)
        if run is None or not run.data:
            return UNKNOWN if run is None else None
        place = _Place(window, b"", state)
        found = self._plans.known(place, UNKNOWN)
        if found is UNKNOWN and window.ids and len(run.data) <= _SHORT:
            found = self._known_force(window, run)
            if found is not UNKNOWN:
                self._plans.note(place, found)
        return found

    def is_settled(self, window: Window, state: int) -> bool:
        """Whether `plan` gives None, without a rest; False also where that is not known."""
        place = _Place(window, b"", state)
        found = self._plans.known(place, UNKNOWN)
        if found is UNKNOWN:
            run = self.known_run(state)
            if run is not None and not run.data and self.canonical.right_ids(window) is None:
                self._plans.note(place, None)
                return True
        return found is None

    def known_states(self, state: int, ids: tuple[int, ...]) -> tuple[int, ...] | None:
        """`states_behind`, where it is known."""
        return self._states.known((state, ids), None)

    # -- below ---------------------------------------------------------------------------------

    def _closed_sets(self, state: int) -> list[ClosedSet]:
        with self.masks.lock:
            return closed_sets(self.masks.automaton, state)

    def _run(self, state: int) -> Run:
        with self.masks.lock:
            data, behind = self._automaton.forced(state)
            final = self._automaton.is_final(behind)
        if not data and not final:
            if len(self._open) >= _OPEN:
                self._open.clear()
            self._open.add(state)
        return Run(data, behind, final)

    def _states_behind(self, key: tuple[int, tuple[int, ...]]) -> tuple[int, ...]:
        state, ids = key
        found = []
        for token in ids:
            state = self.walk(state, self.canonical.token_bytes(token))
            assert state != DEAD, "a token that the constraint does not allow"
            found.append(state)
        return tuple(found)

    def _walk(self, key: tuple[int, bytes]) -> int:
        with self.masks.lock:
            return self._automaton.walk(*key)

    def _drop(self) -> None:
        self.num_drops += 1
        self.masks.keep(held for sample in self._samples for held in sample.held())
        self._runs.clear()
        self._steps.clear()
        self._open.clear()
        self._states.clear()
        self._closed.clear()  # its sets name states

    def _plan(self, place: _Place) -> Jump | None:
        self._automaton.tick(_PLAN)
        run = self.run(place.state)
        forced = place.rest + run.data
        jump = self._force(place, run) if forced else None
        return jump or self._correct(place.window, run.final and not forced)

    def _force(self, place: _Place, run: Run) -> Jump | None:
        window, rest, state = place
        old = self.canonical.bytes_of(window.ids)
        data = old + rest + run.data
        if not old and 0x80 <= data[0] < 0xC0:
            return self._complete_character(data, run)
        end = whole_characters(data)
        own = data[len(old) + len(rest) : end]
        if end <= len(old) or end < len(old) + len(rest):
            return None
        ids = self.canonical.encode_behind(window, data[len(old) : end])
        if ids is None:
            return None if window.exact else self._force(_Place(_NO_BORDER, rest, state), run)
        final = run.final and end == len(data)
        if not final:
            with self.masks.lock:
                behind = self._automaton.walk(state, own)
                ids = self._safe_ends.tokens(data[:end], ids, behind)
        if len(self.canonical.bytes_of(ids)) < len(old):
            return None
        return _exchange(window.ids, ids, final)

    def _known_force(self, window: Window, run: Run) -> Jump | None:
        """`_force`, where it is simple."""
        data = self.canonical.bytes_of(window.ids) + run.data
        ids = self.canonical.encode_behind(window, run.data)
        if ids is None or whole_characters(data) < len(data):
            return UNKNOWN
        kept = ids if run.final else self._safe_ends.known_tokens(data, ids, run.state)
        if kept is None or len(self.canonical.bytes_of(kept)) < len(data) - len(run.data):
            return UNKNOWN
        return _exchange(window.ids, kept, run.final)

    def _correct(self, window: Window, final: bool) -> Jump | None:
        """The window's own text in the ids that it encodes to, if they are others."""
        ids = self.canonical.right_ids(window)
        if ids is None or (not window.exact and len(ids) > len(window.ids)):
            return None  # more ids would move the window, and could be put right without end
        return _exchange(window.ids, ids, final)

    def _complete_character(self, data: bytes, run: Run) -> Jump | None:
        """The bytes that complete a character which began out of reach, as byte tokens."""
        head = len(data) - len(data.lstrip(bytes(range(0x80, 0xC0))))
        if head == len(data) and not run.final:
            return None  # a token may hold more than them
        ids = tuple(self._single_byte(byte) for byte in data[:head])
        return Jump(0, ids, run.final and head == len(data)) if min(ids) >= 0 else None

    def _single_byte(self, byte: int) -> int:
        """The token that is one byte, -1 if there is none."""
        found = self.prefixes.starting_with(bytes([byte])).tolist()
        return next((i for i in found if len(self.canonical.token_bytes(i)) == 1), -1)


def _exchange(old: tuple[int, ...], new: tuple[int, ...], final: bool) -> Jump | None:
    same = len(old)
    if new[:same] != old:
        same = next(i for i, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])
    return Jump(len(old) - same, new[same:], final) if new[same:] else None
