"""Strongly connected components of the rules of a grammar (Tarjan 1972), without recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The components of a graph, each behind all those that it leads to."""
    search = _Search(edges)
    for node in edges:
        if node not in search.number:
            search.run(node)
    return search.found


class _Search:
    def __init__(self, edges: Mapping[str, Sequence[str]]) -> None:
        self.edges = edges
        self.number: dict[str, int] = {}
        self.found: list[list[str]] = []
        self._low: dict[str, int] = {}
        self._open: list[str] = []
        self._inside: set[str] = set()

    def run(self, start: str) -> None:
        """Visit everything that `start` leads to."""
        path = [(start, iter(self.edges[start]))]
        self._enter(start)
        while path:
            node, following = path[-1]
            child = next(following, None)
            if child is None:
                path.pop()
                if path:
                    parent = path[-1][0]
                    self._low[parent] = min(self._low[parent], self._low[node])
                self._leave(node)
            elif child not in self.number:
                self._enter(child)
                path.append((child, iter(self.edges[child])))
            elif child in self._inside:
                self._low[node] = min(self._low[node], self.number[child])

    def _enter(self, node: str) -> None:
        self.number[node] = self._low[node] = len(self.number)
        self._open.append(node)
        self._inside.add(node)

    def _leave(self, node: str) -> None:
        if self._low[node] != self.number[node]:
            return
        group: list[str] = []
        while not group or group[-1] != node:
            group.append(self._open.pop())
            self._inside.discard(group[-1])
        self.found.append(group)
