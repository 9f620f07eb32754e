"""Follows one sample under a constraint: what may come next, and what must."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from sgc_ir.automata.automaton import DEAD
from sgc_ir.errors import ConstraintError
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.bounded import Bounded
from sgc_runtime.constraints.canonical import Window, grown, window_start
from sgc_runtime.constraints.healed import prefix_mask
from sgc_runtime.constraints.jump import Jump, Planner
from sgc_runtime.tokenizer.borders import is_border

_UNKNOWN = -1
_HELD = 256  # tokens that may be rolled back, other than all of them


class Matcher:
    """One sample's place in a constraint; all of it is a function of the ids taken so far.

    The order of calls: `jump` until it gives None, each followed by `apply`; then, unless
    `is_final`, one token out of `mask` (or EOS, where `end_allowed`), the best that `is_canonical`
    does not deny; `accept`; and so on. A token that it denies may be taken where there is no
    other: a jump then puts canonical ids for the same text in its place. The text of the ids
    begins with `healed`, where ids of the prompt were taken back.

    Args:
        planner: the constraint over the tokenizer; shared by all its samples.
        healed: text of the prompt that is generated anew, before the constraint's own.
        at_start: the tokenizer puts a blank in front of text where the ids begin (see
            `Tokenizer.at_start`); the blank is no part of the constraint's text.
        begun: bytes of the constraint's text that stand before the ids (of a character that an
            earlier gen left unfinished); not together with `healed` or `at_start`.

    Raises:
        ConstraintError: no legal text goes on behind `begun`.

    Attributes:
        ids: the tokens so far.
        is_held_up: what was last asked for did not get done in its slice of time.
        overdue: processor time that it took beyond what it should, in seconds. A sample's own, so
            that a slow one fails no other.
    """

    def __init__(
        self, planner: Planner, healed: bytes = b"", at_start: bool = False, begun: bytes = b""
    ) -> None:
        self.ids: list[int] = []
        self.overdue = 0.0
        self.is_held_up = False
        self._planner = planner
        self._automaton = planner.masks.automaton
        self._canonical = planner.canonical
        self._healed = healed
        self._prefix = healed or (b" " if at_start else b"")
        self._at_start = at_start
        with planner.inside():
            start = self._automaton.start
            first = planner.walk(start, begun) if begun else start
            if first == DEAD:
                raise ConstraintError(
                    "no legal text begins with the character that an earlier gen left unfinished; "
                    "append text before this one",
                    kind="unsatisfiable",
                )
            # Behind each number of ids: the state; below 0: how many bytes of the prefix are
            # missing.
            self._states = [-len(self._prefix) or first]
            self._starts = [0]  # where the window begins, or `_UNKNOWN`
            self._window: Window | None = None  # the last one, where it was asked for
            self._fitting = -1  # the id that `is_canonical` last found to fit behind it
            self._num_drops = planner.num_drops
            planner.follow(self)

    def bounded(self, seconds: float = inf) -> Bounded:
        """For all that is done about one token: the time that it takes is bounded, and so is the
        time that the sample takes beyond `bounded.USUAL_S` a token.

        Args:
            seconds: of processor time, after which the work is cut off. Each method here does its
                work as a whole or not at all, and gets farther each time.

        Raises:
            SliceEnded: `seconds` are over.
            ConstraintError: it took longer than is allowed at all.
        """
        return Bounded(self, self._automaton.one_step(), seconds)

    @property
    def num_found(self) -> int:
        """Grows with what is found out about the constraint."""
        return self._automaton.num_found

    # -- what may come ------------------------------------------------------------------------

    @property
    def state(self) -> int:
        """The automaton's state; its start while a prefix is missing."""
        state = self._states[-1]
        return state if state >= 0 else self._automaton.start

    @property
    def rest(self) -> bytes:
        """Bytes of the prefix that are missing."""
        state = self._states[-1]
        return self._prefix[state:] if state < 0 else b""

    @property
    def end_allowed(self) -> bool:
        """Whether the text is legal as it is, so that EOS may follow."""
        return self._has_begun and self._automaton.is_accepting(self.state)

    @property
    def is_final(self) -> bool:
        """Whether the text is legal and nothing may follow it."""
        if self._planner.is_open(self._states[-1]):
            return False
        run = self._planner.run(self.state)
        return self._has_begun and run.final and not run.data

    def accepts(self, text: str) -> bool:
        """Whether `text` is legal as a whole."""
        with self._planner.masks.lock:
            after = self._automaton.walk(self._automaton.start, text.encode())
        return after != DEAD and self._automaton.is_accepting(after)

    def is_legal(self, num_ids: int, more: bytes) -> bool | None:
        """Whether the text of the first `num_ids` ids and `more`, which the next id begins with, is
        legal as a whole; None where that is not known any more.

        Args:
            num_ids: so many that nothing is missing in front of the constraint's own text.
        """
        state = self._states[num_ids]
        assert state >= 0
        if more:
            with self._planner.inside():
                dropped = self._planner.num_drops != self._num_drops
                if dropped and num_ids <= len(self.ids) - _HELD:
                    return None
                state = self._planner.walk(state, more)
        return state != DEAD and self._automaton.is_accepting(state)

    def mask(self) -> Int32:
        """The tokens that may come next, see `TokenMasks.mask`; EOS is never in it."""
        state = self._states[-1]
        if state >= 0:
            return self._planner.masks.mask(state)
        return prefix_mask(self._planner.masks, self.rest, self._automaton.start)

    def known_mask(self) -> Int32 | None:
        """`mask`, where nothing has to be found out for it."""
        state = self._states[-1]
        return self._planner.masks.known(state) if state >= 0 else None

    def is_canonical(self, token: int) -> bool | None:
        """See `Canonical.is_canonical`, behind the ids so far."""
        found = self._canonical.is_canonical(self.window, token)
        self._fitting = -1 if found is False else token
        return found

    # -- what comes -----------------------------------------------------------------------------

    def accept(self, token: int) -> None:
        """Take a token, one of the mask; one thread does so for all samples.

        Before it, states that no sample holds may be dropped (`Planner.tidy`), and nowhere else.
        """
        self._planner.tidy()
        self._append((token,), 0)

    def advance(self, token: int) -> bool | None:
        """`accept` of the token that `is_canonical` was last asked about, where what it leads to is
        known; else None, and nothing is done.

        Returns:
            Whether `jump` gives None then, and the text is not final.
        """
        state, planner = self._states[-1], self._planner
        if state < 0 or token != self._fitting:
            return None
        after = planner.known_walk(state, self._canonical.token_bytes(token))
        window = None if after < 0 else grown(self.window, token, self._canonical)
        if window is None:
            return None
        self.ids.append(token)
        self._states.append(after)
        self._starts.append(len(self.ids) - len(window.ids))
        self._window, self._fitting = window, -1
        return planner.is_open(after)

    def known_jump(self) -> Jump | None:
        """`jump`, behind `advance`; `UNKNOWN` where it has to be found out."""
        return self._planner.known_plan(self.window, self._states[-1])

    def leap(self, jump: Jump) -> bool:
        """`apply`, behind `advance`, where it is known where that leads to; else False, and nothing
        is done."""
        states = self._planner.known_states(self._states[-1 - jump.rollback], jump.ids)
        if states is not None:
            self._put(jump.ids, states, jump.rollback)
        return states is not None

    @property
    def is_settled(self) -> bool:
        """Whether it is known that `jump` gives None."""
        return self._planner.is_settled(self.window, self._states[-1])

    def jump(self) -> Jump | None:
        """What is forced now, or None."""
        if self._states[-1] < 0 and self.end_allowed:
            return None  # without text there is no blank in front of it
        return self._planner.plan(self.window, self.rest, self.state)

    def loses_text(self, jump: Jump, count: int) -> bool:
        """Whether the ids that a jump takes back hold more text, which may have been given away,
        than the first `count` of those that it brings."""
        if count >= len(jump.ids):
            return False
        bytes_of, first = self._planner.canonical.bytes_of, len(self.ids) - jump.rollback
        return len(bytes_of(jump.ids[:count])) < len(bytes_of(self.ids[first:]))

    def apply(self, jump: Jump) -> None:
        """Roll back and append what `jump` says."""
        self._planner.tidy()
        state = self._states[-1 - jump.rollback]
        if state < 0:
            self._append(jump.ids, jump.rollback)
        else:
            self._put(jump.ids, self._planner.states_behind(state, jump.ids), jump.rollback)

    def rollback(self, count: int) -> None:
        """Forget the last `count` tokens."""
        if count:
            assert count <= len(self.ids), "more tokens than there are"
            self._window, self._fitting = None, -1
            del self.ids[-count:]
            del self._states[-count:]
            del self._starts[-count:]

    def held(self) -> list[int]:
        """The states to which the sample may still be rolled back; below 0: none."""
        return [self._states[0], *self._states[-_HELD:]]

    # -- below ----------------------------------------------------------------------------------

    def _append(self, ids: tuple[int, ...], rollback: int) -> None:
        """Put `ids` in the place of the last `rollback` ones; nothing changes before all is
        known."""
        state = self._states[-1 - rollback]
        states: list[int] = []
        for token in ids:
            after = self._after(state, token)
            assert after is not None, "a token that the constraint does not allow"
            states.append(state := after)
        self._put(ids, states, rollback)

    def _put(self, ids: tuple[int, ...], states: Sequence[int], rollback: int) -> None:
        self.rollback(rollback)
        self._window, self._fitting = None, -1
        self.ids += ids
        self._states += states
        self._starts += [_UNKNOWN] * len(ids)

    def _start(self) -> int:
        """Where the window begins. Most of the other starts are not asked for: what stands before
        a border says nothing about those behind it."""
        ids, starts, canonical = self.ids, self._starts, self._canonical
        token_bytes, end = canonical.token_bytes, len(ids)
        while starts[end] == _UNKNOWN:
            if end > 1 and is_border(token_bytes(ids[end - 2]), token_bytes(ids[end - 1])):
                starts[end] = end - 1
            else:
                end -= 1
        for last in range(end + 1, len(starts)):
            starts[last] = window_start(ids, starts[last - 1], canonical, last)
        return starts[-1]

    @property
    def _has_begun(self) -> bool:
        """Whether nothing is missing in front of the constraint's own text."""
        return self._states[-1] >= 0 or not self._healed

    @property
    def window(self) -> Window:
        """The last ids, which a jump may bring into another form."""
        if self._window is None:
            self._window = self._last_window()
        return self._window

    def _last_window(self) -> Window:
        start, ids = self._start(), self.ids
        exact = start == 0
        if not exact and start < len(ids):
            token_bytes = self._canonical.token_bytes
            exact = is_border(token_bytes(ids[start - 1]), token_bytes(ids[start]))
        return Window(tuple(ids[start:]), exact, self._at_start and start == 0)

    def _after(self, state: int, token: int) -> int | None:
        """The state behind `token`, or None where it is not allowed."""
        data = self._canonical.token_bytes(token)
        if state < 0:
            rest = self._prefix[state:]
            if len(data) < len(rest):
                return state + len(data) if data and rest.startswith(data) else None
            if not data.startswith(rest):
                return None
            data, state = data[len(rest) :], self._automaton.start
        elif not data:
            return None
        after = self._planner.walk(state, data)
        return after if after != DEAD else None
