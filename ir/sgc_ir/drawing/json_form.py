"""A program as JSON, for tools in other languages; complete, but there is no way back.

Constants stand for themselves where JSON has them; `{"ref": 3}` is the value of node 3, and
`{"tuple": [..]}`, `{"dict": [[key, value] ..]}`, `{"bytes": "hex"}`, `{"float": "nan"}`,
`{"unset": true}` the rest.
"""

from __future__ import annotations

import json
import math
from typing import Any

from sgc_ir.graph import MISSING, ROOT_STREAM, UNSET, Graph, Node, Param, Program, Ref, Source
from sgc_ir.paths import captured_forks, node_path, stream_paths

_MARKS = ("ref", "tuple", "dict", "bytes", "float", "unset")


def json_form(program: Program) -> str:
    """The program as indented JSON text in ASCII."""
    data = {
        "main": program.main,
        "outputs": None if program.outputs is None else list(program.outputs),
        "tools": dict(sorted(program.tools.items())),
        "notes": _value(dict(program.notes)),
        "graphs": [_graph(program.graphs[name], "", {}) for name in sorted(program.graphs)],
    }
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def _graph(graph: Graph, root: str, forks: dict[str, str]) -> dict[str, Any]:
    paths = stream_paths(graph, root, forks)
    return {
        "name": graph.name,
        "source": _source(graph.source),
        "params": [_param(param) for param in graph.params],
        "nodes": [_node(graph, node, paths, forks) for node in graph.nodes],
    }


def _param(param: Param) -> dict[str, Any]:
    data = {"name": param.name, "annotation": param.annotation, "keyword_only": param.keyword_only}
    return data if param.default is MISSING else data | {"default": _value(param.default)}


def _node(graph: Graph, node: Node, paths: dict[int, str], forks: dict[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": node.id,
        "op": node.op.value,
        "path": node_path(node, paths),
        "stream": None if node.stream == ROOT_STREAM else node.stream,
        "attrs": {name: _value(value) for name, value in node.attrs.items()},
        "source": _source(node.source),
    }
    if node.control is not None:
        data["control"] = {"node": node.control[0], "arm": node.control[1]}
    if node.body is not None:
        inner = captured_forks(graph, node, paths, forks)
        data["body"] = _graph(node.body, paths.get(node.stream, "?"), inner)
    return data


def _source(source: Source) -> dict[str, Any] | None:
    return {"file": source.file, "line": source.line} if source != Source() else None


def _value(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.node}
    if isinstance(value, tuple):
        return {"tuple": [_value(item) for item in value]}
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        plain = all(isinstance(key, str) for key in value) and not set(value) & set(_MARKS)
        if plain:
            return {key: _value(item) for key, item in value.items()}
        return {"dict": [[_value(key), _value(item)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is UNSET:
        return {"unset": True}
    return value
