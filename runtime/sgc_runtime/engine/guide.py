"""A sample's constraint on the engine's side: which ids stand behind a token that was sampled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sgc_runtime.constraints.canonical import MAX_WINDOW_IDS
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


class Guide:
    """Follows one sample.

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
    def is_paused(self) -> bool:
        """Whether the sample stops here, though more is to follow."""
        if self._pauses is None or self.waiting or self.is_final:
            return False
        return self._pauses(self.matcher)

    @property
    def num_settled(self) -> int:
        """Ids that will hardly be taken back."""
        return max(0, len(self.matcher.ids) - len(self.waiting) - MAX_WINDOW_IDS)

    def begin(self) -> Change:
        """Ids with which every legal text begins."""
        with self.matcher.bounded():
            for token in self._given:
                self.matcher.accept(token)
            change = Change(0, self._given, -1) if self._ends else self._follow(0, -1)
        return self._part(change, len(self._given))

    def take(self, token: int) -> Change:
        """What follows when `token` has been sampled, which no id waits for."""
        assert not self.waiting, "ids that are forced were to come first"
        before = len(self.matcher.ids)
        with self.matcher.bounded():
            self.matcher.accept(token)
            change = self._follow(before, before)
        return self._part(change, change.rollback + 1)

    def _follow(self, before: int, sampled: int) -> Change:
        """Jump as long as something is forced; `before` ids were there, `sampled` is the place
        of one that came since."""
        matcher, kept = self.matcher, before
        for _ in range(_MOST_JUMPS):
            jump = matcher.jump() if len(matcher.ids) < self._max_ids else None
            if jump is None:
                break
            cut = len(matcher.ids) - jump.rollback
            kept = min(kept, cut)
            if cut <= sampled:
                sampled = -1
            matcher.apply(jump)
        return Change(before - kept, tuple(matcher.ids[kept:]), max(sampled - kept, -1))

    def _part(self, change: Change, at_once: int) -> Change:
        """Without jumps only as many ids as have been computed or sampled; the rest waits."""
        if self._jumps:
            return change
        self.waiting.extend(change.ids[at_once:])
        return change._replace(ids=change.ids[:at_once])
