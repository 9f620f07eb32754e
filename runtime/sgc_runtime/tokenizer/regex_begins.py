"""Where matches of a pattern begin, or still may, in growing text, in time linear in its length.

The automaton of "the pattern, then anything" runs from every character on. Runs that are in one
state have the same future, so that only the one that began first is kept: as in the simulation of
a nondeterministic automaton (Thompson 1968), with states that are made as they are reached.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.limits import Limits
from sgc_ir.automata.regex import piece_expression
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import read
from sgc_ir.automata.regex_tree import Chars, Concat, Times
from sgc_ir.automata.utf8 import ALL_CHARS
from sgc_ir.errors import ConstraintError

# Small: whoever needs more is better served by a search that backtracks.
_LIMITS = Limits(seconds=0.05, nodes=20_000, states=1000, explored=2000)
_MOST_RUNS = 32


class NoAutomaton(Exception):
    """The pattern, or this text, is none that an automaton of bounded size follows."""


class RegexBegins:
    """The runs over one text that begin at `first` or later.

    Raises NoAutomaton, here and while it takes text: look for the pattern in another way.
    """

    def __init__(self, pattern: str, first: int) -> None:
        states = states_of(pattern)
        if states is None:
            raise NoAutomaton
        self._states = states
        self._num_taken = first
        self._runs: dict[int, int] = {}  # state -> where its first run began

    def mark(self) -> tuple[int, dict[int, int]]:
        """Where it is, for `return_to`."""
        return self._num_taken, dict(self._runs)

    def return_to(self, mark: tuple[int, dict[int, int]]) -> None:
        """Be where it was."""
        self._num_taken, self._runs = mark[0], dict(mark[1])

    def take(self, text: str) -> None:
        """Follow `text`, which is what was taken before and more."""
        start, rows, runs = self._states.start, self._states.rows, self._runs
        for place in range(self._num_taken, len(text)):
            runs.setdefault(start, place)
            for byte in _bytes(text[place]):
                following: dict[int, int] = {}
                for state, begin in runs.items():
                    row = rows.get(state) or self._states.row(state)
                    after = row[byte]
                    if after != DEAD and following.get(after, begin) >= begin:
                        following[after] = begin
                runs = following
            if len(runs) > _MOST_RUNS:
                raise NoAutomaton
        self._runs, self._num_taken = runs, max(self._num_taken, len(text))

    def matched(self) -> int | None:
        """Where the leftmost match in the text so far begins."""
        accepting = self._states.accepting
        begins = [begin for state, begin in self._runs.items() if state in accepting]
        if self._states.start in accepting:
            begins.append(self._num_taken)
        return min(begins, default=None)

    def earliest(self) -> int:
        """The earliest place at which a match may begin, given more text."""
        return min(self._runs.values(), default=self._num_taken)


def _bytes(char: str) -> bytes:
    try:
        return char.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise NoAutomaton from error


class _States:
    """The automaton of a pattern and what follows it; for all threads.

    Attributes:
        rows: what follows each byte, of the states that were asked for.
        accepting: those of them in which a match is complete.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._lock = threading.Lock()
        self._too_large = False
        self.start = automaton.start
        self.rows: dict[int, list[int]] = {}
        self.accepting: set[int] = set()
        self._note(automaton.start)

    def row(self, state: int) -> list[int]:
        with self._lock:
            if self._too_large:
                raise NoAutomaton
            try:
                row: list[int] = self._automaton.row(state).tolist()
            except ConstraintError as error:
                self._too_large = True
                raise NoAutomaton from error
            for following in set(row) - {DEAD}:
                self._note(following)
            self.rows[state] = row
            return row

    def _note(self, state: int) -> None:
        if self._automaton.is_accepting(state):
            self.accepting.add(state)


@lru_cache(maxsize=256)
def states_of(pattern: str) -> _States | None:
    """The states of a pattern; None: it has no automaton, or begins by looking back."""
    try:
        tree, flags = parse(pattern, _LIMITS)
        piece = read(tree, flags)
        if piece.looks_left:  # then not every beginning is alike
            return None
        anything = Times(Chars(ALL_CHARS), 0, None)
        whole = Concat((piece, anything))
        return _States(Automaton(lambda pool: piece_expression(pool, whole, pattern), b"", _LIMITS))
    except (ConstraintError, RecursionError):
        return None
