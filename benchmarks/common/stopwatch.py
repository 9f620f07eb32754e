"""Sums the time spent in chosen functions, by putting a clock around them for a while."""

from __future__ import annotations

import importlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any


class Stopwatch:
    """`seconds` and `calls` by name.

    Functions that call each other under one name are counted once, at the outermost. What is
    counted includes the clock itself, about half a microsecond a call.
    """

    def __init__(self) -> None:
        self.seconds: Any = Counter()  # of floats
        self.calls: Counter[str] = Counter()
        self._inside = threading.local()
        self._undo: list[Callable[[], None]] = []

    def method(self, owner: Any, attribute: str, name: str) -> None:
        """Watch a method of one object."""
        self._put(owner, attribute, name, getattr(owner, attribute), own=True)

    def class_method(self, owner: type, attribute: str, name: str) -> None:
        """Watch a method of all objects of a class."""
        self._put(owner, attribute, name, owner.__dict__[attribute], own=False)

    def function(self, module: str, attribute: str, name: str) -> None:
        """Watch a function where `module` looks it up."""
        owner = importlib.import_module(module)
        self._put(owner, attribute, name, getattr(owner, attribute), own=False)

    def undo(self) -> None:
        """Take all clocks off again."""
        while self._undo:
            self._undo.pop()()

    def _put(self, owner: Any, attribute: str, name: str, inner: Any, own: bool) -> None:
        watched = self._watched(name, inner)
        setattr(owner, attribute, watched)
        # A method that is put on one object hides the class's; taking it off shows that again.
        back = partial(delattr, owner, attribute) if own else None
        self._undo.append(back or partial(setattr, owner, attribute, inner))

    def _watched(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        seconds, calls, inside = self.seconds, self.calls, self._inside
        clock = time.perf_counter

        def watched(*args: Any, **kwargs: Any) -> Any:
            if getattr(inside, name, False):
                return inner(*args, **kwargs)
            setattr(inside, name, True)
            begin = clock()
            try:
                return inner(*args, **kwargs)
            finally:
                seconds[name] += clock() - begin
                calls[name] += 1
                setattr(inside, name, False)

        return watched
