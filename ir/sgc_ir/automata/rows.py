"""Merging of derivatives by byte ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.utf8 import CharSet

Combine = Callable[[Sequence[Node]], Node]


def merged(pairs: Sequence[tuple[int, int, Node]]) -> Row:
    """The row without empty derivatives, neighbours with one derivative as one range."""
    out: list[tuple[int, int, Node]] = []
    last, end = None, -2
    for pair in pairs:
        low, high, node = pair
        if node.alive is False:
            continue
        if node is last and end == low - 1:
            out[-1] = (out[-1][0], high, node)
        else:
            out.append(pair)
        last, end = node, high
    return tuple(out)


def changed(row: Row, changes: Mapping[int, Node]) -> Row:
    """The row with other derivatives for some bytes."""
    out: list[tuple[int, int, Node]] = []
    for low, high, node in row:
        begin = low
        for byte in sorted(byte for byte in changes if low <= byte <= high):
            if begin < byte:
                out.append((begin, byte - 1, node))
            begin = byte + 1
        if begin <= high:
            out.append((begin, high, node))
    out += [(byte, byte, node) for byte, node in changes.items()]
    out.sort(key=lambda entry: entry[0])
    return merged(out)


def union_of_rows(rows: Sequence[Row], union: Combine) -> Row:
    """For each byte the union of the derivatives that the rows have for it."""
    full = [row for row in rows if row]
    if len(full) <= 1:
        return full[0] if full else ()
    if len(full) == 2:
        return merged(_of_two(full[0], full[1], union))
    entries = [entry for row in full for entry in row]
    entries.sort(key=lambda entry: entry[0])
    if all(entries[i][1] < entries[i + 1][0] for i in range(len(entries) - 1)):
        return merged(entries)
    borders = sorted({entry[0] for entry in entries} | {entry[1] + 1 for entry in entries})
    cells: list[list[Node]] = [[] for _ in borders]
    for low, high, node in entries:
        for cell in cells[bisect_left(borders, low) : bisect_left(borders, high + 1)]:
            cell.append(node)
    return merged(
        [
            (borders[i], borders[i + 1] - 1, cell[0] if len(cell) == 1 else union(cell))
            for i, cell in enumerate(cells)
            if cell
        ]
    )


def _of_two(first: Row, second: Row, union: Combine) -> list[tuple[int, int, Node]]:
    """The union of two rows, in one pass."""
    out: list[tuple[int, int, Node]] = []
    others = iter(second)
    other = next(others, None)
    for low, high, node in first:
        while other is not None and other[0] <= high:
            begin, end, rival = other
            if end < low:
                out.append(other)
            else:
                if begin < low:
                    out.append((begin, low - 1, rival))
                elif low < begin:
                    out.append((low, begin - 1, node))
                last = min(end, high)
                out.append((max(begin, low), last, union((node, rival))))
                low = last + 1
                if end > high:
                    other = (low, end, rival)
                    break
            other = next(others, None)
        if low <= high:
            out.append((low, high, node))
    if other is not None:
        out += [other, *others]
    return out


def intersection_of_rows(rows: Sequence[Row], intersection: Combine) -> Row:
    """For each byte that all rows have, the intersection of the derivatives."""
    current: list[tuple[int, int, list[Node]]] = [
        (low, high, [node]) for low, high, node in rows[0]
    ]
    for row in rows[1:]:
        following, i = [], 0
        for low, high, node in row:
            while i < len(current) and current[i][1] < low:
                i += 1
            j = i
            while j < len(current) and current[j][0] <= high:
                begin, end = max(low, current[j][0]), min(high, current[j][1])
                following.append((begin, end, [*current[j][2], node]))
                j += 1
        current = following
    return merged([(low, high, intersection(nodes)) for low, high, nodes in current])


def complement_of_row(
    row: Row,
    edges: Sequence[tuple[int, int, CharSet | None]],
    empty: Node,
    complement: Callable[[Node, CharSet | None], Node],
) -> Row:
    """For each byte that a character may go on with (`edges`), the complement of the row's
    derivative."""
    out: list[tuple[int, int, Node]] = []
    for low, high, following in edges:
        begin = low
        for first, last, node in row:
            if last < begin or first > high:
                continue
            if first > begin:
                out.append((begin, first - 1, complement(empty, following)))
            end = min(last, high)
            out.append((max(first, begin), end, complement(node, following)))
            begin = end + 1
        if begin <= high:
            out.append((begin, high, complement(empty, following)))
    return merged(out)
