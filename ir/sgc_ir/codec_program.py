"""Programs as msgpack data, and back.

    program  [main, [graph ...], outputs, [tool, effect ...], notes, [file ...],
              [files, lines], [lengths, texts]]

A graph is as in `sgc_ir.codec_shapes`. The table of sources is two columns; that of texts is a
column of their lengths in characters, and all of them in one, UTF-8 with surrogates passed on.
Before version 3 the last two fields are not there, and a graph is as in `sgc_ir.codec_graph`.
"""

from __future__ import annotations

from typing import Any

from sgc_ir.codec_graph import Reader, array, fields, text, texts
from sgc_ir.codec_shapes import Tables, pack_graph
from sgc_ir.codec_stored import StoredGraph, StoredGraphs, StoredTables
from sgc_ir.codec_values import pack_value, unpack_value
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Program


def pack_program(program: Program) -> list[Any]:
    """msgpack data of a program. Raises ArtifactError for what the format cannot hold."""
    tables, graphs = Tables(), []
    for name in sorted(program.graphs):
        if program.graphs[name].name != name:
            raise ArtifactError(f"graph {program.graphs[name].name!r} stands under {name!r}")
        graphs.append(pack_graph(program.graphs[name], tables))
    tools = [part for item in sorted(program.tools.items()) for part in item]
    outputs = None if program.outputs is None else list(program.outputs)
    notes = pack_value(dict(program.notes))
    return [program.main, graphs, outputs, tools, notes, *tables.packed()]


def unpack_program(data: Any) -> Program:
    """The program of msgpack data, its graphs made when they are asked for (`StoredGraphs`).

    The shape of the data is checked, not the meaning. Raises ArtifactError.
    """
    *facts, files, sources, found = fields(data, 8, "program")
    reader = Reader(texts(files, "files"))
    tables = StoredTables(reader, sources, found)
    stored = [StoredGraph(item, tables) for item in array(facts[1], "graphs")]
    return _program(facts, StoredGraphs(stored), len(stored))


def unpack_first_format(data: Any) -> Program:
    """The program of msgpack data before format version 3. Raises ArtifactError."""
    *facts, files = fields(data, 6, "program")
    reader = Reader(texts(files, "files"))
    graphs = [reader.graph(item, 0) for item in array(facts[1], "graphs")]
    return _program(facts, {graph.name: graph for graph in graphs}, len(graphs))


def _program(facts: list[Any], graphs: Any, count: int) -> Program:
    main, _, outputs, tools, notes = facts
    if len(graphs) != count:
        raise ArtifactError("damaged artefact: two graphs of one name")
    pairs = texts(tools, "tools")
    unpacked_notes = unpack_value(notes)
    if len(pairs) % 2 or type(unpacked_notes) is not dict:
        raise ArtifactError("damaged artefact: tools or notes")
    return Program(
        main=text(main, "main graph"),
        graphs=graphs,
        outputs=None if outputs is None else tuple(texts(outputs, "outputs")),
        tools=dict(zip(pairs[::2], pairs[1::2], strict=True)),
        notes=unpacked_notes,
    )
