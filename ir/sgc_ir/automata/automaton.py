"""A lazily determinised byte automaton: numbers for states, one table of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.alike import Alike, alike, beyond
from sgc_ir.automata.char_runs import (
    CharRun,
    behind_characters,
    parted,
    plain_characters,
    run_before,
)
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.automata.near import near
from sgc_ir.automata.nodes import Literal, Node, Repeat
from sgc_ir.automata.one_byte import along, behind, branches, first_bytes
from sgc_ir.automata.one_step import OneStep
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.recorded import Doubtful, Recall, after, doubtful, memories, shape_of
from sgc_ir.automata.rules import build
from sgc_ir.automata.signature import Signatures
from sgc_ir.automata.through import Through, through
from sgc_ir.automata.utf8 import CharSet
from sgc_ir.automata.walks import Walks
from sgc_ir.errors import ConstraintError

DEAD = -1  # no text goes on from here
UNKNOWN = -2  # not derived yet

_FIRST = 1024  # states, and rows, whose memory is taken when they are written
_MANY_STATES, _MANY_NODES = 16_384, 65_536  # from which on some may be dropped
_AHEAD = 8  # states inside a literal whose rows are made at once
_STATE_BYTES, _NODE_BYTES = 256, 400  # with their tables and rows
_RECENT = 4096  # states that somebody may just have been told of

_Number = TypeVar("_Number", bound=np.generic)


class Automaton:
    """The states of one constraint, made as they are reached.

    States are small integers; every state can reach an accepting one. Not safe for threads: one
    lock guards each automaton where several use it.

    Args:
        make: builds the start expression in the pool it is given.
        digest: names the language: equal digests mean equal automata.
        limits: bounds of time and memory.

    Raises:
        ConstraintError: no text is legal (kind "unsatisfiable"), or a limit is passed.

    Attributes:
        rows: int32 [rows, 256]: next state, `DEAD` or `UNKNOWN`; replaced when it grows. Row 0 is
            that of all states that are not expanded, most as a rule: they take no memory here.
        row_of: int32 [capacity]: the row of each state.
        accepting: bool [capacity].
        start: the first state.
        walks: steps that are known, among those made so far.
    """

    def __init__(
        self, make: Callable[[Pool], Node], digest: bytes, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.digest = digest
        self._limits = limits
        self._pool, start = build(make, limits)
        if not self._pool.is_alive(start):
            raise ConstraintError(
                "no text is legal, since what it asks for contradicts itself; mend it",
                kind="unsatisfiable",
            )
        self._pool.restart_clock()
        self._in_step: set[int] = set()  # threads
        self._nodes: dict[int, Node] = {}
        self._count = 0
        self._most_states = min(_MANY_STATES, limits.states // 2)
        self._most_nodes = max(_MANY_NODES, 2 * self._pool.num_nodes)
        self._states: dict[int, int] = {}
        self._likes: dict[int, tuple[int, list[int]]] = {}
        self.walks = Walks()
        self._signatures = Signatures(digest, self._pool.named)
        self.rows = _first_rows()
        self._num_rows = 1
        self.row_of: npt.NDArray[np.int32] = np.zeros(_FIRST, np.int32)
        self.accepting: npt.NDArray[np.bool_] = np.zeros(_FIRST, np.bool_)
        self.start = self._state(start)

    @property
    def num_states(self) -> int:
        """How many numbers were given to states."""
        return self._count

    @property
    def num_found(self) -> int:
        """Grows with what is found out."""
        return self._pool.num_made + self._num_rows

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to `keep` no more than is needed."""
        return len(self._nodes) > self._most_states or self._pool.num_nodes > self._most_nodes

    def keep(self, states: Iterable[int]) -> None:
        """Drop all states but `states`, the start, and the last few that were made; and all rows.

        A number that was given is never given again: a text that leads to a dropped state leads
        to another number from now on. Nothing may be asked about dropped states.
        """
        recent = range(self._count - _RECENT, self._count)
        kept = {self.start, *states, *recent} & self._nodes.keys()
        self._nodes = {state: self._nodes[state] for state in sorted(kept)}
        self._most_states = max(_MANY_STATES, 2 * len(kept))
        self._states = {node.id: state for state, node in self._nodes.items()}
        self._signatures.keep(self._pool.keep(self._nodes.values()))
        self._most_nodes = max(_MANY_NODES, 2 * self._pool.num_nodes)
        self.rows = _first_rows()
        self._num_rows = 1
        self._likes = {}
        self.walks.clear()
        self.row_of = np.zeros(len(self.row_of), np.int32)

    def dissolve(self) -> None:
        """Free all memory at once, see `Pool.dissolve`; nothing may be asked any more."""
        self._pool.dissolve()
        self._nodes.clear()

    @property
    def num_bytes(self) -> int:
        """Memory of transitions, states and expressions, about."""
        rows = self._num_rows * 256 * self.rows.itemsize
        walks = self.walks.num_bytes
        return rows + walks + _STATE_BYTES * len(self._nodes) + _NODE_BYTES * self._pool.num_nodes

    def _state(self, node: Node) -> int:
        state = self._states.get(node.id)
        if state is not None:
            return state
        state = self._count
        if len(self._nodes) >= self._limits.states:
            raise ConstraintError(
                f"the constraint needs more than {self._limits.states} states; make it smaller"
            )
        if state == len(self.row_of):
            self.row_of = _grown(self.row_of)
            self.accepting = _grown(self.accepting)
        self._nodes[state] = node
        self._count += 1
        self._states[node.id] = state
        if node.nullable:
            self.accepting[state] = True
        return state

    def one_step(self) -> OneStep:
        """All that this thread finds out inside may take as long as finding what leaves one state;
        not to be nested."""
        return OneStep(self._pool, self._in_step)

    def tick(self, pieces: int = 1) -> None:
        """Count work of one's own in a step (`one_step`), as `Watch.tick` does."""
        if get_ident() in self._in_step:
            self._pool.tick(pieces)

    def expand(self, state: int) -> None:
        """Make the row of `state`."""
        if self.row_of[state]:
            return
        if get_ident() not in self._in_step:
            self._pool.restart_clock()
        node = self._nodes[state]
        if type(node) is Literal:
            self._expand_literal(state, node)
            return
        like = alike(self._pool, node)
        if like is not None:
            self._expand_alike(state, like)
            return
        after = self._after
        found = [(low, high, after(part)) for low, high, part in node.row(self._pool)]
        row = self._new_rows([state])[0]
        row.fill(DEAD)
        for low, high, following in found:
            if low == high:
                row[low] = following
            else:
                row[low : high + 1] = following

    def _expand_alike(self, state: int, like: Alike) -> None:
        """Make a row that is another one's but for some bytes."""
        other = self._state(like.other)
        changes = {byte: self._after(node) for byte, node in like.changes.items()}
        self.expand(other)
        row = self._new_rows([state])[0]
        row[:] = self.rows[self.row_of[other]]
        for byte, following in changes.items():
            row[byte] = following
        self._likes[state] = (other, list(changes))

    def _expand_literal(self, state: int, node: Node) -> None:
        """Make the rows of the next few states inside a literal: where a token goes to one of
        them, it goes on to others, as a rule."""
        data, states = bytearray(), [state]
        while type(node) is Literal and not self.row_of[state] and len(data) < _AHEAD:
            data.append(node.data[node.offset])
            node = self._pool.literal(node.data, node.tail, node.offset + 1)
            state = self._after(node)
            states.append(state)
        rows = self._new_rows(states[:-1])
        rows.fill(DEAD)
        for i, byte in enumerate(data):
            rows[i, byte] = states[i + 1]

    def _after(self, node: Node) -> int:
        state = self._states.get(node.id)
        if state is None:
            state = self._state(node) if self._pool.is_alive(node) else DEAD
        return state

    def _new_rows(self, states: list[int]) -> npt.NDArray[np.int32]:
        first, self._num_rows = self._num_rows, self._num_rows + len(states)
        if self._num_rows > len(self.rows):
            self.rows = _grown(self.rows)
        for number, state in enumerate(states, first):
            self.row_of[state] = number
        return self.rows[first : self._num_rows]

    def like(self, state: int) -> tuple[int, list[int]] | None:
        """A state that goes on as `state` does but behind some bytes, and these; None: unknown."""
        self.expand(state)
        return self._likes.get(state)

    def beyond(
        self, state: int, present: Callable[[bytes], bool]
    ) -> tuple[int, list[tuple[bytes, int]]] | None:
        """A state that goes on as `state` does but behind some words, and what follows those of
        them that are `present`: a state, or `DEAD`; None where there is no such state."""
        found = beyond(self._pool, self._nodes[state], present)
        if found is None:
            return None
        return self._state(found.other), [(word, self._after(node)) for word, node in found.words]

    def row(self, state: int) -> npt.NDArray[np.int32]:
        """int32 [256]: the states behind each byte, or `DEAD`."""
        self.expand(state)
        row: npt.NDArray[np.int32] = self.rows[self.row_of[state]]
        return row

    def step(self, state: int, byte: int) -> int:
        """The state behind one byte, or `DEAD`."""
        if not self.row_of[state]:
            following = self._behind(self._nodes[state], byte)
            if following is not None:
                return self._after(following)
        self.expand(state)
        return int(self.rows[self.row_of[state], byte])

    def _behind(self, node: Node, byte: int) -> Node | None:
        """The derivative by one byte, where it can be told without a row."""
        if get_ident() not in self._in_step:
            self._pool.restart_clock()
        following = behind(self._pool, node, byte)
        if following is None and any(memories(node)):
            return after(self._pool, node, byte)
        return following

    def walk(self, state: int, data: bytes) -> int:
        """The state behind `data`, or `DEAD`."""
        at, end, walks = 0, len(data), self.walks
        while at < end and state != DEAD:
            known = walks.step(state, data[at])
            if known is not None:
                state, at = known, at + 1
            elif isinstance(node := self._nodes[state], Literal):
                following, at = along(self._pool, node, data, at)
                state = self._after(following)
            else:
                before, state = state, self.step(state, data[at])
                walks.add(before, node, data[at], state)
                at += 1
        return state

    def recalls(self, state: int) -> Recall | None:
        """What `state` remembers of the text; None for most states, which remember nothing."""
        found = list(memories(self._nodes[state]))
        if not found:
            return None
        return Recall(
            self._state(shape_of(self._pool, self._nodes[state])),
            doubtful(self._nodes[state]),
            any(memory.ends for memory in found),
            frozenset(memory.separator for memory in found),
        )

    def doubtful(self, state: int) -> Doubtful:
        """The bytes behind which what is remembered may exclude a text before the next separator;
        None, any byte, also where it was remembered in a state that led here."""
        return doubtful(self._nodes[state])

    def is_accepting(self, state: int) -> bool:
        return bool(self.accepting[state])

    def ways(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """(low byte, high byte, next state), sorted: the edges out of `state`."""
        self.expand(state)
        return tuple(
            (low, high, self._state(node))
            for low, high, node in self._nodes[state].row(self._pool)
            if self._pool.is_alive(node)
        )

    def first_bytes(self, state: int) -> list[tuple[int, int]]:
        """(low byte, high byte), sorted: what may come first in `state`."""
        known = None if self.row_of[state] else first_bytes(self._nodes[state])
        return [(low, high) for low, high, _ in self.ways(state)] if known is None else known

    def is_final(self, state: int) -> bool:
        """Whether the text is complete: `state` accepts and nothing leaves it."""
        return self.is_accepting(state) and not self.ways(state)

    def forced(self, state: int, limit: int = 4096) -> tuple[bytes, int]:
        """The bytes that every legal text has next, and the state behind them.

        They end where the text may end, or where two bytes are possible (a compressed edge of
        the automaton, or what is left of one).
        """
        data = bytearray()
        while len(data) < limit and not self.is_accepting(state):
            node = self._nodes[state]
            if isinstance(node, Literal):
                data += (piece := node.data[node.offset :][: limit - len(data)])
                state = self._after(along(self._pool, node, piece, 0)[0])
                continue
            ways = () if branches(node) or self._is_open(state) else self.ways(state)
            if len(ways) != 1 or ways[0][0] != ways[0][1]:
                break
            data.append(ways[0][0])
            state = ways[0][2]
        return bytes(data), state

    def _is_open(self, state: int) -> bool:
        """Whether `state` remembers texts and two bytes are possible whatever they are."""
        recall = self.recalls(state)
        if recall is None or recall.doubtful is None:
            return False
        ways = self.ways(recall.shape)
        return sum(high - low + 1 for low, high, _ in ways) > len(recall.doubtful) + 1

    def signature(self, state: int) -> bytes:
        """16 bytes that are equal only for states with equal texts, in every process."""
        return self._signatures.of(self._nodes[state])

    def near(self, state: int, num_bytes: int) -> int:
        """A state whose texts begin, for so many bytes, as those of `state` do; see `near.near`."""
        node = self._nodes[state]
        like = near(self._pool, node, num_bytes)
        return state if like is node else self._state(like)

    def run(self, state: int) -> CharRun | None:
        """How `state` stands before a run of characters, or None."""
        return run_before(self._pool, self._nodes[state], self._state)

    def through(self, state: int, longest: Callable[[CharSet], int]) -> Through | None:
        """What follows so many characters of the set with which `state` begins: `through`."""
        return through(self._pool, self._nodes[state], longest, self._state)

    def parts(self, state: int) -> list[int]:
        """States whose texts together are those of `state`: one for each run of characters that
        may begin there, one for everything else; `state` alone where there is nothing to part."""
        return [self._state(part) for part in parted(self._pool, self._nodes[state])]

    def run_sets(self) -> list[CharSet]:
        """The characters of all runs in the expression as it is known now, each once."""
        bodies = (node.body for node in self._pool.nodes if isinstance(node, Repeat))
        return list(dict.fromkeys(c for body in bodies if (c := plain_characters(body))))

    def behind(self, state: int, characters: Sequence[int]) -> list[int]:
        """The states behind so many characters of the run before which `state` stands, where
        these are at most its highest count and nothing else begins as they do (`apart`)."""
        found = behind_characters(self._pool, self._nodes[state], characters)
        return [self._state(node) for node in found]


def _first_rows() -> npt.NDArray[np.int32]:
    rows = np.empty((_FIRST, 256), np.int32)
    rows[0] = UNKNOWN
    return rows


def _grown(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Four times as many rows; the new ones are 0, and take no memory until they are written."""
    grown = np.zeros((4 * len(table), *table.shape[1:]), table.dtype)
    grown[: len(table)] = table
    return grown
