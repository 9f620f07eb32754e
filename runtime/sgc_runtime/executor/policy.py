"""How long a node may take and how often it is tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sgc_ir.errors import (
    BackendError,
    DeadlineError,
    InputError,
    RecordError,
    SgcError,
    ToolError,
)
from sgc_runtime.executor.tools import IRREVERSIBLE, Tool

EVERY = "*"  # stands for every node that is not named
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0

# Errors that the next attempt would meet again: wrong input, or a fault of a program.
_LASTING = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    NameError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    ImportError,
    SyntaxError,
    MemoryError,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for one node: seconds that an attempt may take, and attempts after the first."""

    deadline: float | None = None
    retries: int = 0


NO_POLICY = Policy()


class GaveUp(Exception):
    """The last of several attempts failed; `error` is why."""

    def __init__(self, error: BaseException, attempts: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.attempts = attempts


class Policies:
    """The policies of a run.

    Args:
        deadlines: seconds by variable or tool name, None for as long as it takes; `*` is for
            those that are not named.
        retries: attempts after the first, likewise.
    """

    def __init__(self, deadlines: Mapping[str, float | None], retries: Mapping[str, int]) -> None:
        self._deadlines = deadlines
        self._retries = retries
        self._known: dict[str, Policy | None] = {}
        self._tools: set[str] = set()  # that were asked about

    def check(self, names: Collection[str]) -> None:
        """Raises InputError for a name that is not in `names`, those of all nodes and tools."""
        for option, name in self._named():
            if name not in names:
                shown = f"the names are {', '.join(sorted(names))}" if names else "it has none"
                raise InputError(
                    f"{option} of {name}: no node or tool of the program has that name; {shown}"
                )

    def check_effects(self, irreversible: Collection[str]) -> None:
        """Raises InputError for an irreversible tool, of those that are known, that is to be tried
        again by its name."""
        for name, retries in self._retries.items():
            if retries and name in irreversible:
                raise InputError(
                    f"retries={retries} for {name}, which is irreversible and must not run twice; "
                    "leave it out of retries"
                )

    def unmet(self) -> list[str]:
        """Names, with their option, that no node or tool had so far, such as `retries of v`."""
        return [
            f"{option} of {name}"
            for option, name in self._named()
            if name not in self._known and name not in self._tools
        ]

    def _named(self) -> list[tuple[str, str]]:
        options = (("deadline", self._deadlines), ("retries", self._retries))
        return [(option, name) for option, given in options for name in given if name != EVERY]

    def of_call(self, name: str) -> Policy | None:
        """What holds for the model call that fills variable `name`; None: nothing is set."""
        if name not in self._known:
            policy = Policy(
                self._deadlines.get(name, self._deadlines.get(EVERY)),
                self._retries.get(name, self._retries.get(EVERY, 0)),
            )
            self._known[name] = policy if policy != NO_POLICY else None
        return self._known[name]

    def of_tool(self, tool: Tool) -> Policy:
        """What holds for `tool`: what the run says of its name, else the tool itself, else the
        run's value for all; irreversible tools are never tried again.

        Raises InputError for an irreversible tool that is to be tried again by its name.
        """
        self._tools.add(tool.name)
        deadline = self._deadlines.get(EVERY) if tool.deadline is None else tool.deadline
        deadline = self._deadlines.get(tool.name, deadline)
        if tool.effect == IRREVERSIBLE:
            self.check_effects([tool.name])
            return Policy(deadline)
        retries = self._retries.get(tool.name, tool.retries)
        return Policy(deadline, self._retries.get(EVERY, 0) if retries is None else retries)


def may_pass(error: BaseException) -> bool:
    """Whether another attempt may end well: a failing backend, a timeout, a lost connection, but
    not wrong input. For a tool's error, its cause decides."""
    if isinstance(error, ToolError):
        return error.__cause__ is not None and may_pass(error.__cause__)
    if isinstance(error, BackendError | DeadlineError):
        return not isinstance(error, RecordError)  # its file stays what it is
    return isinstance(error, Exception) and not isinstance(error, (SgcError, *_LASTING))


def pause_s(attempt: int) -> float:
    """Seconds to wait after failed attempt number `attempt` (1-based): doubling, with a bound."""
    return float(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
