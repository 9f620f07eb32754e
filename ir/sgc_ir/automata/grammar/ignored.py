"""What may be ignored between terminals: as much as each ignored terminal can take, as in lark.

Lark matches an ignored terminal at a place of the text, skips what it matched, and tries again
from there; it skips no less. So behind a skipped text nothing may stand that would have made the
match longer: behind a comment up to the end of the line comes a newline. What may not follow is
the same for all texts that lead to one state of the ignored terminal: a class. The skipped texts
are those of a small automaton over classes, written as one expression for each class.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.errors import ConstraintError

_MAX_STATES = 2_000  # of one ignored terminal, and of one comparison with what follows
_MAX_CLASSES = 12
_Parts = list[tuple[Node, Node | None]]  # skipped texts, and the state that all of them lead to


class Ignored:
    """The ignored terminals of one grammar.

    Args:
        ignored: their expressions.

    Attributes:
        skipped: everything that may be ignored at the end, or where nothing depends on it.
    """

    def __init__(self, pool: Pool, ignored: Sequence[Node]) -> None:
        self._pool = pool
        parts = [part for node in ignored for part in _by_class(pool, node)]
        self._classes = list(dict.fromkeys(state for _, state in parts))
        if len(self._classes) > _MAX_CLASSES:
            raise ConstraintError("what the grammar ignores has too many forms; make it simpler")
        self._skips = self._paths(parts)
        self.skipped = pool.union([pool.epsilon, *self._skips])

    def before(self, terminal: Node) -> Node:
        """What may be ignored, then `terminal`."""
        pool = self._pool
        kept = [_without(pool, terminal, state) for state in self._classes]
        if all(node is terminal for node in kept):
            return pool.sequence(self.skipped, terminal)
        ways = [pool.sequence(skip, node) for skip, node in zip(self._skips, kept, strict=True)]
        return pool.union([terminal, *ways])

    def _paths(self, parts: _Parts) -> list[Node]:
        """The texts that lead to each class (Kleene's elimination of states)."""
        pool, size = self._pool, len(self._classes)
        start = [self._step(parts, None, last) for last in self._classes]
        steps = [
            [self._step(parts, state, last) for last in self._classes] for state in self._classes
        ]
        for via in range(size):
            loop = pool.repeat(steps[via][via], 0, None)
            column = [row[via] for row in steps]
            row = list(steps[via])
            for i in range(size):
                for j in range(size):
                    around = pool.chain(column[i], loop, row[j])
                    steps[i][j] = pool.union([steps[i][j], around])
            first = start[via]
            start = [pool.union([start[j], pool.chain(first, loop, row[j])]) for j in range(size)]
        return start

    def _step(self, parts: _Parts, state: Node | None, last: Node | None) -> Node:
        """The skipped texts that lead from one class to another."""
        pool = self._pool
        return pool.union([_without(pool, node, state) for node, end in parts if end is last])


def _by_class(pool: Pool, node: Node) -> _Parts:
    """The texts of `node`, by the state that they lead to; None where nothing goes on."""
    states = _states(pool, node)
    ends: dict[Node | None, list[Node]] = {}
    for state in states:
        if state.nullable:
            goes_on = any(pool.is_alive(following) for _, _, following in state.row(pool))
            ends.setdefault(state if goes_on else None, []).append(state)
    if len(ends) == 1:
        return [(node, next(iter(ends)))]
    return [(_ending(pool, node, states, finals), state) for state, finals in ends.items()]


def _states(pool: Pool, node: Node) -> list[Node]:
    found = {node.id: node}
    todo = [node]
    for state in todo:
        for _, _, following in state.row(pool):
            if pool.is_alive(following) and following.id not in found:
                found[following.id] = following
                todo.append(following)
        if len(found) > _MAX_STATES:
            raise ConstraintError(
                f"an ignored terminal needs more than {_MAX_STATES} states; make it smaller"
            )
    return todo


def _ending(pool: Pool, node: Node, states: list[Node], finals: list[Node]) -> Node:
    """The texts of `node` that lead to one of `finals`: their beginnings, cut by what is left.

    A text of `node` leads to a final state where what may follow it is what may follow there.
    """
    numbers = {state.id: i for i, state in enumerate(states)}
    useful = _leading(pool, states, finals)
    ends = {state.id for state in finals}
    name = f"ignored {len(states)}"

    def at(state: Node) -> Node:
        return pool.lazy(
            f"{name} {node.id} {finals[0].id} {numbers[state.id]}",
            lambda: tuple(
                (low, high, at(following))
                for low, high, following in state.row(pool)
                if following.id in useful
            ),
            state.id in ends,
        )

    return at(node)


def _leading(pool: Pool, states: list[Node], finals: list[Node]) -> set[int]:
    """The states from which a text leads to one of `finals`."""
    before: dict[int, list[int]] = {}
    for state in states:
        for _, _, following in state.row(pool):
            before.setdefault(following.id, []).append(state.id)
    found = {state.id for state in finals}
    todo = list(found)
    while todo:
        for earlier in before.get(todo.pop(), ()):
            if earlier not in found:
                found.add(earlier)
                todo.append(earlier)
    return found


def _without(pool: Pool, node: Node, state: Node | None) -> Node:
    """The texts of `node`, none empty, that do not make a match longer which is in `state`."""
    if state is None or not _begins_alike(pool, node, state):
        return node
    longer = pool.difference(state, pool.epsilon)
    return pool.difference(node, pool.sequence(longer, pool.text))


def _begins_alike(pool: Pool, node: Node, state: Node) -> bool:
    """Whether a text of `node` begins with one (not empty) of `state`.

    Raises:
        ConstraintError: a text of `node` is the beginning of one of `state`, so that what follows
            the terminal decides ("unsupported").
    """
    found = False
    seen = {(node.id, state.id)}
    todo = [(node, state)]
    while todo:
        first, second = todo.pop()
        for left, right in _common(pool, first, second):
            if right.nullable:
                found = True
                continue
            if left.nullable:
                raise ConstraintError(
                    "what is ignored may go on into a terminal behind it and end there or not, "
                    "which is not supported; let it end before",
                    kind="unsupported",
                )
            if (left.id, right.id) not in seen:
                seen.add((left.id, right.id))
                todo.append((left, right))
        if len(seen) > _MAX_STATES:
            raise ConstraintError(
                f"what is ignored meets a terminal in more than {_MAX_STATES} states; simplify it"
            )
    return found


def _common(pool: Pool, first: Node, second: Node) -> list[tuple[Node, Node]]:
    """What follows in both behind one byte."""
    return [
        (left, right)
        for low, high, left in first.row(pool)
        for begin, last, right in second.row(pool)
        if low <= last and begin <= high and pool.is_alive(left) and pool.is_alive(right)
    ]
