"""Token ids that the command line or a graph names, held against the model's vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sgc.cli.failure import CommandError
from sgc.settings import RunSettings
from sgc_ir.graph import Graph, Node, Ref
from sgc_ir.graph import Program as Graphs
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.runnable import Runnable


def check_token_ids(program: Runnable, settings: RunSettings, vocab_size: int | None) -> None:
    """Raise CommandError for an id that the model does not have, before the first row begins:
    each row would come to fail by it. Ids that only a run knows are checked where they are used.

    Args:
        vocab_size: None where the backend does not tell it.
    """
    if vocab_size is None:
        return
    _check("--stop-token-ids", settings.stop_token_ids, vocab_size)
    for node in _gens(getattr(program, "graph", None)):
        for name in ("stop_token_ids", "logit_bias"):
            _check(f"{node.source}: {name}", _known_ids(node.attrs.get(name)), vocab_size)


def _check(place: str, ids: Iterable[int], vocab_size: int) -> None:
    for token in ids:
        if token >= vocab_size:
            raise CommandError(
                f"{place}: token id {token} is not in the model's vocabulary of {vocab_size} ids",
                f"give ids below {vocab_size}",
            )


def _known_ids(value: Any) -> list[int]:
    """The ids among a gen's parameter, without those that the run decides."""
    if value is None or isinstance(value, Ref):
        return []
    found = [value] if isinstance(value, int) else list(value)
    return [int(token) for token in found if not isinstance(token, Ref)]


def _gens(program: Graphs | None) -> Iterator[Node]:
    """Gens that run in every row: those of bodies may run no time at all."""
    if program is None:
        return
    yield from _gens_of(program.graphs, program.graph, set())


def _gens_of(graphs: Mapping[str, Graph], graph: Graph, seen: set[str]) -> Iterator[Node]:
    seen.add(graph.name)
    for node in graph.nodes:
        if node.op is Op.GEN:
            yield node
        elif node.op is Op.SUB_PROGRAM and node.attrs["callee"] not in seen:
            yield from _gens_of(graphs, graphs[node.attrs["callee"]], seen)
