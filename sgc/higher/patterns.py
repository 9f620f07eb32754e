"""`sgc.map`, `sgc.reduce`, `sgc.best_of` and `sgc.retry_until`: programs that run programs.

These are ordinary functions of the language. While a program is compiled they are rewritten like
the program's own helpers, so each becomes sub-programs, loops and branches of its graph. Nodes and
errors name the line that called them.

A `program` is made by `@sgc.function`; arguments that every run shares follow, those of the same
name as a parameter here are given with `program.bind(...)`. A `score` or a `check` is a program, a
tool, or a plain function. Each run is a sub-program of the caller (`c0`, `c1` ... in program
order), with a stream and seeds of its own. A run that fails fails the row, like any sub-program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sgc.lang.higher import check_program, is_program, is_tool
from sgc.lang.tools import call

if TYPE_CHECKING:
    from sgc.program import Program


def map(program: Program, items: Iterable[Any], /, *args: Any, **kwargs: Any) -> list[Any]:
    """The return values of `program(item, *args, **kwargs)` for each item, in order.

    All runs begin at once and none waits for another. No items give an empty list.
    """
    check_program("map", program)
    handles = [program(item, *args, **kwargs) for item in items]
    return [handle.value for handle in handles]


def reduce(program: Program, items: Iterable[Any], /, *args: Any, **kwargs: Any) -> Any:
    """Folds items from the left: `program(so_far, item, *args, **kwargs)` gives the next `so_far`.

    Begins with the first item; for another beginning put it in front of them. Each run waits for
    the one before. A single item is given back as it is. Raises IndexError when there are none.
    """
    check_program("reduce", program)
    values = list(items)
    so_far = values[0]
    for item in values[1:]:
        so_far = program(so_far, item, *args, **kwargs).value
    return so_far


def best_of(
    n: int,
    program: Program,
    score: Program | Callable[[Any], Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Of the return values of `n` runs of `program(*args, **kwargs)` the one that scores highest;
    on ties the first.

    The runs differ by their seeds alone, so under greedy sampling they are equal. `score(value)`
    gives what values are compared by. All runs begin at once; where `score` is a program, a value
    is scored as soon as it is there. Raises ValueError for n below 1.
    """
    check_program("best_of", program)
    handles = [program(*args, **kwargs) for _ in range(n)]
    values = [handle.value for handle in handles]
    if is_program(score):
        scored = [score(value) for value in values]
        scores = [handle.value for handle in scored]
    elif is_tool(score):
        scores = [call(score, value) for value in values]
    else:
        scores = [score(value) for value in values]
    return values[scores.index(max(scores))]


def retry_until(
    program: Program,
    check: Program | Callable[[Any], Any],
    max: int,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The return value of the first run of `program(*args, **kwargs)` that passes `check(value)`.

    One run after the other, at most `max`; a run begins when the one before was refused. They
    differ by their seeds alone. Raises ValueError when none of them passes.
    """
    check_program("retry_until", program)
    for _ in range(max):
        value = program(*args, **kwargs).value
        if is_program(check):
            passed = check(value).value
        elif is_tool(check):
            passed = call(check, value)
        else:
            passed = check(value)
        if passed:
            return value
    raise ValueError(f"retry_until: no run of {program.name} passed the check")
