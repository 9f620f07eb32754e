"""In which order waiting requests are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sgc_runtime.engine.request import Request

Order = Callable[[Iterable[Request]], Iterable[Request]]


def first_come(waiting: Iterable[Request]) -> Iterable[Request]:
    """By arrival, which is how the queue lies."""
    return waiting


ORDERS: dict[str, Order] = {"first-come": first_come}
