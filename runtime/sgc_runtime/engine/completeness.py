"""Whether the text of a gen that has ended is all that its constraint asks for."""

from __future__ import annotations

from sgc_runtime.engine.request import Request


def is_complete(request: Request) -> bool:
    """For the engine's thread, when a gen has ended; takes the same time however long it is, unless
    a stop takes hundreds of ids back and states of so long a text were dropped.

    Raises:
        ConstraintError: the constraint passes one of its limits.
    """
    watcher, guide, row = request.watcher, request.guide, request.row
    assert watcher is not None
    assert row is not None
    if guide is None or watcher.finish_reason == "constraint":
        return True
    if watcher.finish_reason == "length" and row.params.reads_value:
        return False
    if watcher.pending:
        return False
    if watcher.num_kept == 0:
        return guide.matcher.accepts(watcher.text)  # a part of one token, at most
    more = watcher.residual.encode(errors="replace")
    known = guide.matcher.is_legal(watcher.num_kept_output, more)
    return guide.matcher.accepts(watcher.text) if known is None else known
