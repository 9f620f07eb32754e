"""Writes a program in the text form: one line a node, in the look of the program itself.

    %5 = Gen in %4 name="judgment" ordinal=0 max_tokens=48 @12  # f0[0]/g0

`in %4` is the stream (the root's is left out), `if %2` the branch it runs under, `@12` the line in
the graph's file, and the comment the node's path.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any

from sgc_ir.errors import ArtifactError
from sgc_ir.graph import MISSING, ROOT_STREAM, UNSET, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import ATTR_ORDER, OPS, Op
from sgc_ir.paths import captured_forks, node_path, stream_paths
from sgc_ir.quote import quote, quote_bytes
from sgc_ir.types import is_canonical

_BARE = re.compile(r"[A-Za-z_][A-Za-z_0-9.]*")
_DECIMAL_BITS = 8192  # longer integers are written in hexadecimal, which has no length limit
_NAN_BITS = 0x7FF8000000000000


def print_program(program: Program) -> str:
    """The text form, ending in a newline; `sgc_ir.textform.parser.parse_program` reads it back.

    Raises ArtifactError for a value that no graph can hold.
    """
    lines = [f"program {_name(program.main)}"]
    if program.outputs is not None:
        lines.append(f"outputs {value_text(program.outputs)}")
    if program.tools:
        lines.append(f"tools {value_text(dict(sorted(program.tools.items())))}")
    if program.notes:
        lines.append(f"notes {value_text(dict(program.notes))}")
    for name in sorted(program.graphs, key=lambda n: (n != program.main, n)):
        graph = program.graphs[name]
        lines.append("")
        lines.append(f"graph {_signature(graph, None)} {{")
        lines.extend(_nodes(graph, "  ", "", {}))
        lines.append("}")
    return "\n".join(lines) + "\n"


def print_node(node: Node, file: str = "") -> str:
    """The line of one node without its body; `file` is that of its graph."""
    words = [f"%{node.id} = {node.op}"]
    if node.stream != ROOT_STREAM:
        words.append(f"in %{node.stream}")
    if node.control is not None:
        words.append(f"if {'' if node.control[1] else 'not '}%{node.control[0]}")
    order = ATTR_ORDER[node.op]
    for name in sorted(node.attrs, key=lambda n: (order.get(n, len(order)), n)):
        words.append(f"{name}={value_text(node.attrs[name])}")
    words.extend(_source(node.source, file))
    return " ".join(words)


def _nodes(graph: Graph, indent: str, root: str, forks: dict[str, str]) -> Iterator[str]:
    paths = stream_paths(graph, root, forks)
    for node in graph.nodes:
        line = indent + print_node(node, graph.source.file)
        shows_path = OPS[node.op].path_kind or node.op is Op.GET_FORK_ITEM
        comment = f"  # {node_path(node, paths)}" if shows_path else ""
        if node.body is None:
            yield line + comment
            continue
        yield f"{line} body {_signature(node.body, graph.source.file)} {{{comment}"
        inner = captured_forks(graph, node, paths, forks)
        yield from _nodes(node.body, indent + "  ", paths.get(node.stream, "?"), inner)
        yield indent + "}"


def _signature(graph: Graph, file: str | None) -> str:
    words: list[str] = []
    keyword_only = False
    for param in graph.params:
        if param.keyword_only and not keyword_only:
            words.append("*")
        elif keyword_only and not param.keyword_only:
            raise ArtifactError(f"graph {graph.name}: {param.name} follows keyword-only parameters")
        keyword_only = param.keyword_only
        words.append(_param(param))
    return " ".join([f"{_name(graph.name)}({', '.join(words)})", *_source(graph.source, file)])


def _param(param: Param) -> str:
    text = _name(param.name)
    if param.annotation:
        bare = is_canonical(param.annotation)
        text += f": {param.annotation if bare else quote(param.annotation)}"
    return text if param.default is MISSING else f"{text} = {value_text(param.default)}"


def _source(source: Source, file: str | None) -> list[str]:
    if source == Source():
        return []
    if source.file == file:
        return [f"@{source.line}"]
    return [f"@{quote(source.file)}" + (f":{source.line}" if source.line else "")]


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else quote(name)


def value_text(value: Any) -> str:
    """An operand or constant in the notation of Python. Raises ArtifactError for other objects."""
    kind = type(value)
    if value is None or kind is bool:
        return str(value)
    if kind is int:
        return str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)
    if kind is float:
        return _float_text(value)
    if kind is str:
        return quote(value)
    if kind is bytes:
        return quote_bytes(value)
    if kind is Ref:
        return f"%{value.node}"
    if value is MISSING:
        return "MISSING"
    if value is UNSET:
        return "UNSET"
    return _container_text(value)


def _container_text(value: Any) -> str:
    kind = type(value)
    if kind is list:
        return f"[{', '.join(value_text(v) for v in value)}]"
    if kind is tuple:
        inner = ", ".join(value_text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is dict:
        return f"{{{', '.join(f'{value_text(k)}: {value_text(v)}' for k, v in value.items())}}}"
    raise ArtifactError(f"a value of type {kind.__name__} cannot be written")


def _float_text(value: float) -> str:
    if math.isnan(value):
        bits = struct.unpack(">Q", struct.pack(">d", value))[0]
        return "nan" if bits == _NAN_BITS else f"nan:{bits:016x}"
    return repr(value)
