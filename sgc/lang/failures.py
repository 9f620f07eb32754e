"""Errors of a stream that the front end finds."""

from __future__ import annotations

from sgc_ir.errors import GenerationError
from sgc_ir.graph import Source
from sgc_runtime.executor.operations import Reading
from sgc_runtime.executor.stream import Stream, unset_reason


def unset(stream: Stream, name: str, source: Source) -> GenerationError:
    """The error of reading a variable that was never written, noted as one of the row.

    To be called on the event loop.
    """
    reading = Reading("drained", source, stream.scope.order())
    return stream.failure(unset_reason(name, stream), reading)
