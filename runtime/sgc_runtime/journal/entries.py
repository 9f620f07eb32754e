"""What the executor gives the journal to write, and what one commit of it puts into the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sgc_ir.params import SamplingParams
from sgc_runtime.journal.digests import call_digest
from sgc_runtime.journal.store import CALL, Line, Node, Store


@dataclass(frozen=True, slots=True)
class RowBegins:
    row: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class CallEnds:
    """A finished model call; its digest is worked out where it is written."""

    row: int
    path: str
    params: SamplingParams
    prompt: str
    seeds: tuple[int, ...]
    end_of_turn: bool
    data: bytes

    def node(self) -> Node:
        asked = call_digest(self.params, self.prompt, self.seeds, self.end_of_turn)
        return Node(self.row, self.path, CALL, "", asked, self.data)


Entry = RowBegins | CallEnds | Node | Line


@dataclass(slots=True)
class Batch:
    """Entries of one commit: of a node the last one counts, and none of a row that ends well."""

    begins: list[tuple[int, bytes]] = field(default_factory=list)
    nodes: dict[tuple[int, str], CallEnds | Node] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Batch:
        batch = cls()
        for entry in entries:
            if isinstance(entry, CallEnds | Node):
                batch.nodes[entry.row, entry.path] = entry
            elif isinstance(entry, RowBegins):
                batch.begins.append((entry.row, entry.digest))
            else:
                batch.lines.append(entry)
        return batch

    def write(self, store: Store) -> None:
        """Bring all of it to the disk. Raises JournalError; nothing is written then."""
        ended = {line.row for line in self.lines if not line.failed}
        nodes = [entry for entry in self.nodes.values() if entry.row not in ended]
        with store.transaction():
            store.add_rows(self.begins)
            store.add_nodes(e.node() if isinstance(e, CallEnds) else e for e in nodes)
            store.add_lines(self.lines)
