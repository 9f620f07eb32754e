"""Token sequences that share their beginnings, laid out so that each shared token is computed once.

The tokens of a prompt come first, then the tokens of the sequences behind it, in depth-first order:

    prompt  [the, sky, is]              tokens  the sky is  deep blue | light
    deep blue sea, deep blue, light up  parents  -1   0  1   2    3   |  2

A token that nothing follows (`sea`, `up`) is never computed: its log-probability stands in its
parent's logits. So every token has its parent before it, each token whose parent is not the one
directly before it begins a new *run*, and the order may be cut anywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sgc_runtime.cache.radix_tree import Ids, Slots

_Numbers = npt.NDArray[np.int64]
_NOTHING = -1  # index of what stands before a text without context
_NONE: _Numbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Run:
    """Tokens from `begin` on, each the parent of the next; before them on their path stand the
    first `num_prompt` tokens and those at `above`."""

    begin: int
    num_prompt: int
    above: _Numbers


@dataclass(slots=True, eq=False)
class _Node:
    token: int
    children: dict[int, _Node] = field(default_factory=dict)
    index: int = _NOTHING  # in `TokenTrie.tokens`, where it is computed
    edge: int = -1  # in the log-probabilities; -1 where nothing stands before it


@dataclass(frozen=True, slots=True)
class _Path:
    free: int  # 1 if nothing stands before the first token, else 0
    edges: tuple[int, ...]
    computed: tuple[int, ...]


class TokenTrie:
    """The tokens to compute, and whose log-probabilities come out of them.

    Log-probabilities are numbered in the order of `edges`. The first token of a text without
    context has none to be likely in: it counts 0.

    Args:
        prompt: ids in front of `behind`, possibly none.
        behind: sequences that follow the prompt, each at least one id.
        alone: sequences without any context, each at least one id.

    Attributes:
        tokens: `[num_tokens]` ids to compute; the prompt's first.
        positions: `[num_tokens]` place of each in its text.
        num_prompt: length of the prompt.
        num_edges: log-probabilities that there are in all.
    """

    def __init__(self, prompt: Ids, behind: Sequence[Ids], alone: Sequence[Ids] = ()) -> None:
        self.num_prompt = len(prompt)
        nothing = _Node(0)
        root = _Node(0, index=len(prompt) - 1) if len(prompt) else nothing
        nodes = [_insert(root, ids) for ids in behind]
        nodes_alone = [_insert(nothing, ids) for ids in alone]
        computed, parents = _lay_out(root, len(prompt))
        if root is not nothing:
            more, more_parents = _lay_out(nothing, len(prompt) + len(computed))
            computed, parents = computed + more, parents + more_parents
        self.tokens: Ids = np.concatenate([prompt, [n.token for n in computed]]).astype(np.int32)
        self._set_edges(([root] if len(prompt) else []) + computed)
        self._set_runs(parents)
        self._behind = [_path(path) for path in nodes]
        self._alone = [_path(path) for path in nodes_alone]

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def first_row(self) -> int:
        """The first token whose logits are wanted; those of all behind it are."""
        return max(0, self.num_prompt - 1)

    # -- for a step ---------------------------------------------------------------------------

    def sequences(self, start: int, end: int, slots: Slots) -> list[tuple[int, Slots]]:
        """The tokens `[start, end)` as sequences for attention: for each, in order, its number of
        new tokens and the slots of its whole context, new tokens included.

        Args:
            slots: where the keys and values of `tokens` lie.
        """
        found = []
        at = bisect_right(self._begins, start) - 1
        while start < end:
            run = self._runs[at]
            last = min(end, self._begins[at + 1]) if at + 1 < len(self._begins) else end
            parts = [slots[: run.num_prompt], slots[run.above], slots[run.begin : last]]
            found.append((last - start, np.concatenate(parts)))
            start, at = last, at + 1
        return found

    def edges(self, start: int, end: int) -> tuple[_Numbers, _Numbers]:
        """Log-probabilities that the logits of the tokens `[start, end)` give: rows, counted from
        `start`, and the ids that follow there."""
        first, last = self._edge_begins[start], self._edge_begins[end]
        return self._edge_rows[first:last] - start, self._edge_ids[first:last]

    # -- for results --------------------------------------------------------------------------

    def logprobs_behind(self, sequence: int, values: Sequence[float]) -> tuple[float, ...]:
        """Of each id of `behind[sequence]`, out of all log-probabilities."""
        return _collect(self._behind[sequence], values)

    def logprobs_alone(self, sequence: int, values: Sequence[float]) -> tuple[float, ...]:
        """Of each id of `alone[sequence]`, out of all log-probabilities."""
        return _collect(self._alone[sequence], values)

    def computed(self, sequence: int) -> list[int]:
        """Places in `tokens` of the ids of `behind[sequence]` that were computed: all of them,
        or all but the last."""
        return list(self._behind[sequence].computed)

    # -- below --------------------------------------------------------------------------------

    def _set_edges(self, parents: Sequence[_Node]) -> None:
        """Number the children of `parents`, which come in the order of their index."""
        rows: list[int] = []
        ids: list[int] = []
        for node in parents:
            for child in node.children.values():
                child.edge = len(ids)
                rows.append(node.index)
                ids.append(child.token)
        self.num_edges = len(ids)
        self._edge_rows: _Numbers = np.array(rows, np.int64)
        self._edge_ids: _Numbers = np.array(ids, np.int64)
        counted = np.arange(self.num_tokens + 1)
        self._edge_begins: list[int] = np.searchsorted(self._edge_rows, counted).tolist()

    def _set_runs(self, parents: Sequence[int]) -> None:
        """`parents` of the tokens behind the prompt."""
        positions = list(range(self.num_prompt))
        self._runs = [_Run(0, 0, _NONE)]
        self._begins = [0]
        for index, parent in enumerate(parents, self.num_prompt):
            positions.append(positions[parent] + 1 if parent >= 0 else 0)
            if parent != index - 1:
                self._runs.append(self._run_below(parent, index))
                self._begins.append(index)
        self.positions: _Numbers = np.array(positions, np.int64)

    def _run_below(self, parent: int, begin: int) -> _Run:
        if parent == _NOTHING:
            return _Run(begin, 0, _NONE)
        at = bisect_right(self._begins, parent) - 1
        run = self._runs[at]
        if at == 0:  # the prompt, and the first run behind it
            return _Run(begin, self.num_prompt, np.arange(self.num_prompt, parent + 1))
        above = np.concatenate([run.above, np.arange(run.begin, parent + 1)])
        return _Run(begin, run.num_prompt, above)


def _insert(root: _Node, ids: Ids) -> list[_Node]:
    """The nodes of `ids` below `root`, the root first."""
    path = [root]
    for token in ids.tolist():
        path.append(path[-1].children.setdefault(token, _Node(token)))
    return path


def _lay_out(root: _Node, begin: int) -> tuple[list[_Node], list[int]]:
    """Nodes below `root` that have children, depth first, numbered from `begin` on; and the
    index of each one's parent."""
    nodes: list[_Node] = []
    parents: list[int] = []
    stack = [(node, root) for node in reversed(root.children.values())]
    while stack:
        node, parent = stack.pop()
        if not node.children:
            continue
        node.index = begin + len(nodes)
        nodes.append(node)
        parents.append(parent.index)
        stack += [(child, node) for child in reversed(node.children.values())]
    return nodes, parents


def _path(nodes: Sequence[_Node]) -> _Path:
    free = int(nodes[1].edge < 0)
    edges = tuple(node.edge for node in nodes[1 + free :])
    return _Path(free, edges, tuple(n.index for n in nodes[1:] if n.index != _NOTHING))


def _collect(path: _Path, values: Sequence[float]) -> tuple[float, ...]:
    return (0.0,) * path.free + tuple(values[edge] for edge in path.edges)
