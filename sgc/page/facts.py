"""What is known of calls and streams before a run, in sentences: what hints tell the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sgc.page.drawing import Shown
from sgc_ir.analysis.call_bounds import call_bounds
from sgc_ir.analysis.forecast import Range
from sgc_ir.analysis.hints import CallHints, StreamHints, graph_hints
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_runtime.executor.lifetimes import graph_lives


def known_facts(program: Program, shown: Sequence[Shown]) -> list[list[str]]:
    """Sentences about each of `shown`; gens without `max_tokens` have the default."""
    defaults = SamplingParams()
    lives = graph_lives(program, defaults)
    hints = graph_hints(program, lambda node: None)  # only of streams, which have no times
    found = []
    for item in shown:
        node, owner = item.item.node, id(item.owner)
        lines: list[str] = []
        call = lives[owner].calls.get(node.id)
        if call is not None:
            if node.op is Op.GEN:
                lines.append(f"A sample has {Range(*call_bounds(node, defaults))} tokens.")
            lines += _readers(call.hints)
        stream = hints[owner].streams.get(node.id)
        found.append(lines if stream is None else [*lines, *_stream(stream)])
    return found


def _readers(hints: CallHints) -> Iterator[str]:
    if hints.readers is None:
        yield "How many later calls read on from its end is not known."
    elif not hints.readers:
        yield "No later call reads on from its end."
    else:
        calls = "call reads" if hints.readers == 1 else "calls read"
        yield f"At most {hints.readers:,} later {calls} on from its end."
    if hints.next_use is not None and hints.readers != 0:
        yield _soonest(hints.next_use)


def _soonest(tokens: int) -> str:
    if not tokens:
        return "The first of them comes at once."
    return f"The first of them comes after at most {tokens:,} generated tokens."


def _stream(stream: StreamHints) -> Iterator[str]:
    more = " and those of loops" if stream.open else ""
    calls = "call" if stream.calls == 1 else "calls"
    yield f"It makes at most {stream.calls:,} {calls}{more}."
    length = sum(len(piece.data) for piece in stream.prefix if piece.kind == "text")
    if length:
        yield f"In every instance it begins with the same text of {length:,} characters."
