"""Ids of constrained rows that are not what the tokenizer gives for their text, and others instead.

They are sampled under a mask that cannot say which ids are canonical: most are. A row whose id is
not gets the next choice, as if the refused one had not been there; see
`sampling.constraint.first_canonical`, which this does for all rows of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sgc_runtime.engine.request import Request
from sgc_runtime.engine.runner import Flight, Results, Runner
from sgc_runtime.sampling.constraint import MAX_REJECTED
from sgc_runtime.sampling.sampler import NO_TOKEN


def accepted_ids(
    runner: Runner,
    flight: Flight,
    results: Results,
    rows: Sequence[Request],
    places: Sequence[int],
    fail: Callable[[Request, Exception], None],
) -> dict[int, int]:
    """By place, of those among `places` whose id was refused and another one found: that one.

    Args:
        fail: called with a request whose rule cannot say what is canonical, and why.
    """
    refused = {
        i: [results.ids[i]]
        for i in places
        if results.shares and _is_refused(rows[i], results.ids[i], fail)
    }
    found: dict[int, int] = {}
    while refused:
        ids = runner.again(flight, list(refused), list(refused.values()))
        for i, token in zip(list(refused), ids, strict=True):
            tried = refused[i]
            if token != NO_TOKEN and _is_refused(rows[i], token, fail):
                tried.append(token)
                if len(tried) < MAX_REJECTED:
                    continue
                token = NO_TOKEN
            if token != NO_TOKEN:  # else the first one is taken as it is
                found[i] = token
            del refused[i]
    return found


def _is_refused(request: Request, token: int, fail: Callable[[Request, Exception], None]) -> bool:
    row = request.row
    if row is None or row.rule is None or token == NO_TOKEN or token in row.end_ids:
        return False
    try:
        return row.rule.is_canonical(token) is False
    except Exception as exc:
        fail(request, exc)
        return False
