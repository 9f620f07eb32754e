"""The branches of one fork as a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import Primitive
from sgc.lang.source import caller_source, refusal

if TYPE_CHECKING:
    from sgc.lang.state import ProgramState

MODES = ("gather", "append")


class ForkGroup:
    """`forks[i]`, iteration, `len`, `forks += x`, and `forks.join(mode)`."""

    def __init__(self, parent: ProgramState, branches: list[ProgramState]) -> None:
        self._parent = parent
        self._branches = tuple(branches)
        self._joined = False
        for branch in branches:
            branch._group = self

    def __len__(self) -> int:
        return len(self._branches)

    def __iter__(self) -> Iterator[ProgramState]:
        return iter(self._branches)

    def __getitem__(self, index: int) -> ProgramState:
        if not isinstance(index, int):
            raise refusal(f"forks[{index!r}]: branches are found by number; iterate for several")
        return self._branches[index]

    def __setitem__(self, index: int, state: ProgramState) -> None:
        if self[index] is not state:  # `forks[i] += x` stores the branch itself
            raise refusal("a branch cannot be replaced; append to it with `forks[i] += ...`")

    def __iadd__(self, x: Any) -> ForkGroup:
        """Append to each branch: the same, the i-th of a list, or `x(i)` of a function."""
        for branch, part in zip(self._branches, self._spread(x), strict=True):
            branch.extend(part)
        return self

    def _spread(self, x: Any) -> list[Any]:
        width = len(self)
        if isinstance(x, list | tuple):
            if len(x) != width:
                raise refusal(f"forks += a list of {len(x)} for {width} branches; give one each")
            return list(x)
        if callable(x) and not isinstance(x, Primitive):
            return [x(i) for i in range(width)]
        return [x] * width

    def join(self, mode: str = "gather") -> None:
        """Merge the branches into the parent; returns at once.

        "gather": each variable that the parent did not have at the fork becomes a list in branch
        order. "append": the branches' texts since the fork follow the parent's, in order.
        Raises CompileError for a second join or an unknown mode, and GenerationError when a
        branch lacks a variable that another one has.
        """
        source = caller_source()
        if mode not in MODES:
            raise refusal(f"join({mode!r}); the modes are gather and append")
        if self._joined:
            raise refusal("these branches were joined already; a join runs once")
        self._parent._check_open()
        self._joined = True
        for branch in self._branches:
            branch._joined = True
        parent, streams = self._parent._stream, [branch._stream for branch in self._branches]
        merge = parent.append_branches if mode == "append" else parent.gather
        self._parent._bridge.ask(lambda: merge(streams, source))
