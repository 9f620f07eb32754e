"""What keeps a benchmark from beginning: one line on standard error and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sgc_ir.errors import SgcError

WRONG_USAGE = 2


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """End the process where the block raises an error of ours, such as one about a model that is
    not there.

    Args:
        name: of the benchmark, for the line.
    """
    try:
        yield
    except SgcError as error:
        line = " ".join(str(error).split())
        print(f"benchmarks.{name}: error: {line}", file=sys.stderr)
        raise SystemExit(WRONG_USAGE) from None


def check_device(name: str, device: str) -> None:
    """Refuse a device that is not there, for the benchmark `name`.

    No GPU is touched: processes may still be forked, and the memory is left to them.
    """
    from sgc_runtime.model.devices import find_device

    with refusing(name):
        find_device("cuda:0" if device == "cuda" else device)
