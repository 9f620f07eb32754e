"""Under which arms the nodes of a stored graph run, as numbers, where that is one arm or always.

An arm of Branch `b` is `2 * b + arm + 1`, and 0 always arrives. This is `sgc_ir.tokens` for the
common case; what it cannot tell raises `Unproven`, and the law itself has to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, le

from sgc_ir.codec_shapes import REF_HOLE
from sgc_ir.codec_stored import Constant, Fills, Operand, Parts, Refs, Shape
from sgc_ir.graph import Ref, iter_refs
from sgc_ir.ops import Op


class Unproven(Exception):
    """Nothing is wrong for certain, and nothing is proven."""


def ensure(is_proven: bool) -> None:
    if not is_proven:
        raise Unproven


def fixed_refs(operand: Operand) -> Iterator[int]:
    """Nodes that an operand refers to in all nodes of its shape."""
    if isinstance(operand, Constant):
        yield from map(attrgetter("node"), iter_refs(operand.value))
    elif isinstance(operand, Refs):
        yield from operand.numbers
    elif isinstance(operand, Parts):
        for item in operand.items:
            yield from fixed_refs(item)


def ref_columns(operand: Operand) -> Iterator[Sequence[int]]:
    """Columns of the nodes that an operand refers to, one number a node of its shape."""
    if isinstance(operand, Fills) and operand.tag == REF_HOLE:
        yield operand.numbers
    elif isinstance(operand, Parts):
        for item in operand.items:
            yield from ref_columns(item)


def the_column(operand: Operand, count: int) -> Sequence[int]:
    """The one reference that an operand is, node by node."""
    if isinstance(operand, Fills) and operand.tag == REF_HOLE:
        return operand.numbers
    if not isinstance(operand, Constant) or not isinstance(operand.value, Ref):
        raise Unproven
    return (operand.value.node,) * count


def items_of(operand: Operand) -> list[Operand]:
    """The items of a list or tuple."""
    if isinstance(operand, Parts):
        return list(operand.items)
    if isinstance(operand, Refs):
        return [Constant(Ref(number)) for number in operand.numbers]
    if not isinstance(operand, Constant) or not isinstance(operand.value, list | tuple):
        raise Unproven
    return [Constant(item) for item in operand.value]


class Merges:
    """The merges of one shape.

    Attributes:
        tokens: columns of codes of the tokens that they join. values: their operands.
    """

    def __init__(self, shape: Shape) -> None:
        self.ids = shape.ids
        self.values = items_of(shape.attrs["values"])
        self.tokens: list[list[int]] = []
        for pair in items_of(shape.attrs["tokens"]):
            branch, arm = items_of(pair)
            ensure(isinstance(arm, Constant))
            more = 1 + (arm[0] is True)
            self.tokens.append([2 * at + more for at in the_column(branch, len(shape.ids))])


class Places:
    """Under which arm each node of a stored graph stands.

    Attributes:
        of: for each node the arm under which its value is there.
    """

    def __init__(self, shapes: Iterable[Shape], count: int) -> None:
        shapes = list(shapes)
        self._branches = {i for shape in shapes if shape.op is Op.BRANCH for i in shape.ids}
        self.merges = [Merges(shape) for shape in shapes if shape.op is Op.MERGE]
        self._merged = {i for merges in self.merges for i in merges.ids}
        self.of = [0] * count
        self._under_merges: list[int] = []
        for shape in shapes:
            if shape.controls != 0:
                self._set_controls(shape)
        joined = sorted(
            (i, codes)
            for merges in self.merges
            for i, *codes in zip(merges.ids, *merges.tokens, strict=True)
        )
        self._settle(joined)

    def _set_controls(self, shape: Shape) -> None:
        ensure(shape.op is not Op.MERGE)
        codes = shape.controls
        if isinstance(codes, int):
            codes = (codes,) * len(shape.ids)
        ensure(all(map(le, codes, [2 * node for node in shape.ids])))  # of an earlier node
        for node, code in zip(shape.ids, codes, strict=True):
            self.of[node] = code
        if self._check_tokens(set(codes)):
            self._under_merges += shape.ids

    def _check_tokens(self, codes: set[int]) -> bool:
        """Whether there are merges among the tokens."""
        nodes = {(code - 1) >> 1 for code in codes if code}
        merges = nodes - self._branches
        ensure(merges <= self._merged)
        ensure(not any(2 * node + 1 in codes for node in merges))  # a Merge has one arm
        return bool(merges)

    def _settle(self, joined: list[tuple[int, list[int]]]) -> None:
        """Merges, each after those that it joins; then nodes that run under a merge."""
        for merges in self.merges:
            for codes in merges.tokens:
                self._check_tokens(set(codes))
        above, of = self.above, self.of
        for node, codes in joined:
            if len(codes) == 2 and codes[0] - 1 == (codes[1] - 1) ^ 1:  # both arms of a Branch
                of[node] = above(codes[0])
            else:
                of[node] = self._join({self.settled(code) for code in codes})
        for node in self._under_merges:
            of[node] = self.settled(of[node])

    def settled(self, code: int) -> int:
        """The arm that a token, of a Branch or a Merge, stands for."""
        at = (code - 1) >> 1
        return self.of[at] if at in self._merged else code

    def above(self, code: int) -> int:
        """The arm under which the Branch of an arm runs."""
        return self.settled(self.of[(code - 1) >> 1])

    def _join(self, arms: set[int]) -> int:
        while 0 not in arms and len(arms) > 1:
            last = max(arms)
            other = ((last - 1) ^ 1) + 1
            ensure(other in arms)
            arms -= {last, other}
            arms.add(self.above(last))
        return 0 if 0 in arms else arms.pop()

    def covers(self, have: int, need: int) -> bool:
        """Whether an arm has arrived for certain when another one arrives."""
        while need and need != have:
            need = self.above(need)
        return need == have

    def exclusive(self, one: int, other: int) -> bool:
        """Whether at most one of two arms arrives, for certain."""
        taken = {}
        while one:
            taken[(one - 1) >> 1] = one
            one = self.above(one)
        while other:
            if taken.get((other - 1) >> 1, other) != other:
                return True
            other = self.above(other)
        return False

    def check(self, column: Iterable[int], needs: Iterable[int]) -> None:
        """The values of nodes are there under the arms where they are used, one by one."""
        haves = list(map(self.of.__getitem__, column))
        if any(haves):
            for have, need in set(zip(haves, needs, strict=True)):
                ensure(have in (0, need) or self.covers(have, need))

    def check_all(self, nodes: Iterable[int], needs: Iterable[int]) -> None:
        """The values of nodes are there under each of several arms."""
        haves = set(map(self.of.__getitem__, nodes)) - {0}
        if haves:
            ensure(all(self.covers(have, need) for need in set(needs) for have in haves))

    def check_merges(self) -> None:
        for merges in self.merges:
            for value, codes in zip(merges.values, merges.tokens, strict=False):
                needs = [self.settled(code) for code in codes]
                for column in ref_columns(value):
                    self.check(column, needs)
                self.check_all(fixed_refs(value), needs)
