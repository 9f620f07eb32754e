"""A sample's constraint on the engine's side: which ids stand behind a token that was sampled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from sgc_runtime.constraints.canonical import MAX_WINDOW_IDS
from sgc_runtime.constraints.jump import UNKNOWN
from sgc_runtime.constraints.matcher import Matcher

_MOST_JUMPS = 64  # in a row; each but the last has thousands of bytes


class Change(NamedTuple):
    """What becomes of the ids of a sample.

    Attributes:
        rollback: ids at the end that are taken back, the sampled one not among them.
        ids: what follows then.
        sampled: place in `ids` of the id that was sampled, -1 if it is not there: all others are
            forced.
    """

    rollback: int
    ids: tuple[int, ...]
    sampled: int


@dataclass(slots=True)
class _Work:
    """What is being found out, and how far it is.

    Attributes:
        tokens: ids that are still to be taken.
        num_before: ids that stood there at the beginning; `kept`: how many of them are left.
        sampled: see `Change`, among all ids.
        jumps: how many may still be made.
        num_at_once: ids that come at once without jumps, besides as many as are taken back.
    """

    tokens: deque[int]
    num_before: int
    kept: int
    sampled: int
    jumps: int
    num_at_once: int

    def note(self, cut: int) -> None:
        """A jump was made, in front of which `cut` ids were left."""
        self.jumps -= 1
        self.kept = min(self.kept, cut)
        if cut <= self.sampled:
            self.sampled = -1


class Guide:
    """Follows one sample. What takes time is done in slices: it ends with `SliceEnded` after the
    seconds that it is given, and goes on when it is asked for anew.

    Args:
        matcher: its place in the constraint.
        jumps: forced ids are computed together with what stands before them. Otherwise the same
            ids come one a step, as if each had been sampled.
        max_ids: ids that the sample can have at most.

    Attributes:
        waiting: forced ids that are still to come, without jumps.
    """

    def __init__(self, matcher: Matcher, jumps: bool, max_ids: int) -> None:
        self.matcher, self._jumps, self._max_ids = matcher, jumps, max_ids
        self.waiting: deque[int] = deque()
        self._given: tuple[int, ...] = ()
        self._ends = False
        self._pauses: Callable[[Matcher], bool] | None = None
        self._work: _Work | None = None

    def resume(self, ids: tuple[int, ...], ends: bool, pauses: Callable[[Matcher], bool]) -> None:
        """Begin with `ids`, which have been chosen before.

        Args:
            ends: nothing is to follow them.
            pauses: whether the sample stops where a matcher is, to be resumed later.
        """
        self._given, self._ends, self._pauses = ids, ends, pauses

    @property
    def is_final(self) -> bool:
        """Whether nothing may follow the ids and those that wait."""
        return self._ends or self.matcher.is_final

    @property
    def num_settled(self) -> int:
        """Ids that will hardly be taken back."""
        return max(0, len(self.matcher.ids) - len(self.waiting) - MAX_WINDOW_IDS)

    @property
    def may_pause(self) -> bool:
        """Whether it is to be resumed later, see `resume`."""
        return self._pauses is not None

    def is_paused(self, seconds: float = inf) -> bool:
        """Whether the sample stops here, though more is to follow."""
        if self._pauses is None or self.waiting:
            return False
        with self.matcher.bounded(seconds):
            return not self.is_final and self._pauses(self.matcher)

    def begin(self) -> None:
        """Take the ids with which every legal text begins; `follow` says which."""
        jumps = 0 if self._ends else _MOST_JUMPS
        self._work = _Work(deque(self._given), 0, 0, -1, jumps, len(self._given))

    def take(self, token: int) -> None:
        """Take `token`, which has been sampled and which no id waits for; `follow` says what it
        leads to."""
        assert not self.waiting, "ids that are forced were to come first"
        before = len(self.matcher.ids)
        self._work = _Work(deque([token]), before, before, before, _MOST_JUMPS, 1)

    def advance(self, token: int) -> Change | None:
        """`take`, and `follow` where what comes of the token is known; None: that is yet to say
        it."""
        assert not self.waiting, "ids that are forced were to come first"
        is_open = self.matcher.advance(token) if self._pauses is None else None
        if is_open:
            return Change(0, (token,), 0)
        if is_open is None:
            self.take(token)
            return None
        before = len(self.matcher.ids) - 1
        self._work = work = _Work(deque(), before, before, before, _MOST_JUMPS, 1)
        return self._changed(work) if self._leaps(work) else None

    def _leaps(self, work: _Work) -> bool:
        """Jump, where it is known what to; whether that is all."""
        matcher = self.matcher
        jump = matcher.known_jump()
        if jump is None:
            return True
        room = self._max_ids - len(matcher.ids)
        if jump is UNKNOWN or room <= 0 or len(jump.ids) > room + jump.rollback:
            return False
        if not matcher.leap(jump):
            return False
        work.note(len(matcher.ids) - len(jump.ids))
        return matcher.is_settled

    def follow(self, seconds: float = inf) -> Change:
        """What becomes of the ids with what was taken last."""
        work, matcher = self._work, self.matcher
        assert work is not None
        with matcher.bounded(seconds):
            while work.tokens:
                matcher.accept(work.tokens[0])
                work.tokens.popleft()
            self._jump(work)
            _ = matcher.is_final  # asked for soon, and known then
        return self._changed(work)

    def _changed(self, work: _Work) -> Change:
        self._work = None
        ids, sampled = tuple(self.matcher.ids[work.kept :]), max(work.sampled - work.kept, -1)
        change = Change(work.num_before - work.kept, ids, sampled)
        return self._part(change, change.rollback + work.num_at_once)

    def _jump(self, work: _Work) -> None:
        """Jump as long as something is forced."""
        matcher = self.matcher
        while work.jumps:
            room = self._max_ids - len(matcher.ids)
            jump = matcher.jump() if room > 0 else None
            if jump is None or matcher.loses_text(jump, room + jump.rollback):
                break
            matcher.apply(jump)
            work.note(len(matcher.ids) - len(jump.ids))

    def _part(self, change: Change, at_once: int) -> Change:
        """Without jumps only as many ids as have been computed or sampled; the rest waits."""
        if self._jumps:
            return change
        self.waiting.extend(change.ids[at_once:])
        return change._replace(ids=change.ids[:at_once])
