"""What `sgc.first` takes, and a running program's branches and sub-programs as its entrants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sgc.lang.forks import ForkGroup
from sgc.lang.function import ProgramSpec
from sgc.lang.handle import Handle
from sgc.lang.reach import reach
from sgc.lang.source import refusal
from sgc.lang.state import ProgramState
from sgc.lang.tools import Tool
from sgc_runtime.executor import handle as executor
from sgc_runtime.executor.cell import Cell, gather
from sgc_runtime.executor.node_race import program_entrant
from sgc_runtime.executor.race import Entrant, branch_entrant
from sgc_runtime.executor.state import SubProgramHandle
from sgc_runtime.executor.stream import Stream


class GraphHandle(SubProgramHandle):
    """The handle, in a body that Python runs, of a sub-program that runs as a graph."""

    handle: executor.Handle
    spec: ProgramSpec | None


Member = Handle | GraphHandle | ProgramState


def members_of(branches: Any, root: Stream) -> list[Member]:
    """The branches or handles that `sgc.first` was given in a program whose stream is `root`.

    Raises CompileError for anything else, for a branch that was joined, and for a sub-program
    whose tools have effects.
    """
    given = branches if isinstance(branches, Iterable) else [branches]
    members = list(given)
    wrong = next((m for m in members if not isinstance(m, Member)), None)
    if wrong is not None:
        raise refusal(f"sgc.first among {wrong!r}; give branches of a fork, or sub-programs")
    if len({id(_what_runs(member)) for member in members}) < len(members):
        raise refusal("sgc.first is given a branch twice")
    for member in members:
        if isinstance(member, Handle | GraphHandle):
            if member.spec is not None:
                check_effects(member.spec)
        elif member._stream is root or not member._stream.core.is_below(root.core):
            raise refusal("sgc.first among the stream itself; give branches of a fork of it")
        else:
            member._check_open()
    return members


def _what_runs(member: Member) -> object:
    return member.handle if isinstance(member, GraphHandle) else member._stream


def check_effects(spec: ProgramSpec) -> None:
    """Refuse a sub-program that may reach a tool with effects: one that is not among the first is
    cancelled in the middle. Raises CompileError."""
    for value in reach(spec.fn, spec.bound.values()).values:
        if isinstance(value, Tool) and value.effect != "pure":
            raise refusal(
                f"sgc.first among runs of {spec.name}, which may call the {value.effect} tool "
                f"{value.name} and be cancelled; call it with what was chosen"
            )


def close_members(branches: Any, members: list[Member]) -> None:
    """Nothing is appended any more to branches that were given; a whole fork counts as joined."""
    for member in members:
        if isinstance(member, ProgramState):
            member._joined = True
    if isinstance(branches, ForkGroup):
        branches._joined = True


def entrant(member: Member) -> Entrant:
    """A member of the race; to be called on the event loop. Raises ValueError for a branch without
    variables of its own."""
    if isinstance(member, ProgramState):
        return branch_entrant(member._stream)
    if isinstance(member, GraphHandle):
        return program_entrant(member.handle)
    done = Cell()
    member._done.then(lambda ended: _program_ended(member._stream, ended, done))
    return Entrant(Cell.of(member._stream.core), done)


def _program_ended(stream: Stream, ended: Cell, done: Cell) -> None:
    """A sub-program has finished when its value and its variables are there."""
    if ended.error is not None:
        done.fail(ended.error)
        return
    cells = [pending.value for pending in stream.variables.values()]
    gather(cells, lambda error: done.fail(error) if error else done.set(ended.value))
