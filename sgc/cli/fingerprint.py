"""What the output of a run depends on: two runs with equal fingerprints may share a journal."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sgc.lang.tools import Tool
from sgc.runnable import Job
from sgc.settings import RunSettings
from sgc_ir.graph import Graph, Node, Source
from sgc_ir.graph import Program as Graphs
from sgc_runtime.executor.backend import Backend
from sgc_runtime.journal.digests import DIGEST_BYTES
from sgc_runtime.journal.fingerprint import DIGEST_MARK, file_digest

if TYPE_CHECKING:
    from sgc.program import Program
    from sgc.runnable import Runnable

# Settings that change no result of a row that finishes well.
NEUTRAL = frozenset(
    {"parallel", "plan", "hints", "row_parallel", "deadline", "row_deadline", "retries"}
)


def fingerprint(
    program: Runnable,
    job: Job,
    backend: Backend | None,
    inputs: str | None,
    arguments: Iterable[str],
    tools: Path | None,
    full_text: bool,
) -> dict[str, Any]:
    """Names and JSON values; contents stand as digests.

    Args:
        backend: None when the program makes no model call.
        inputs: path of the rows, `-` for standard input, None for `arguments`.
        tools: the file of `--tools`.
    """
    return {
        "version of sgc": _version(),
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
        "program": _program_digest(program),
        **{f"tool {tool.name}": _tool_facts(tool) for tool in _tools(program)},
        "--tools": None if tools is None else file_digest(tools),
        "inputs": _inputs(inputs),
        "--arg": list(arguments),
        "mode": job.mode,
        **_settings(job.settings),
        "--full-text": full_text,
        **_backend_facts(backend),
    }


def _version() -> str:
    try:
        return metadata.version("sgc")
    except metadata.PackageNotFoundError:
        return ""


def _program_digest(program: Runnable) -> str:
    from sgc.compile import CompiledProgram
    from sgc.lang.reach import PLAIN
    from sgc.program import Program
    from sgc_ir.codec import encode

    if isinstance(program, CompiledProgram):
        return _digest([encode(_without_places(program.graph))])
    assert isinstance(program, Program)
    files = [path.read_bytes() for path in _files(program)]
    # Sorted: sets of texts have another order in every process.
    values = sorted(repr(v) for v in _reach(program) if isinstance(v, PLAIN))
    return _digest([program.name.encode(), *files, repr(values).encode()])


def _without_places(program: Graphs) -> Graphs:
    """The graphs as if their source had no lines: a comment more in it changes no result."""
    graphs = {name: _graph_without_places(graph) for name, graph in program.graphs.items()}
    return replace(program, graphs=graphs)


def _graph_without_places(graph: Graph) -> Graph:
    nodes = tuple(_node_without_place(node) for node in graph.nodes)
    return replace(graph, nodes=nodes, source=Source())


def _node_without_place(node: Node) -> Node:
    body = None if node.body is None else _graph_without_places(node.body)
    return replace(node, source=Source(), body=body)


def _files(program: Program) -> list[Path]:
    """The files of the program and of the user's functions that it leads to."""
    from sgc.lang.source import is_library, is_own_module

    found = {program.spec.file}
    for value in _reach(program):
        if isinstance(value, FunctionType) and not is_own_module(value.__module__ or ""):
            file = value.__code__.co_filename
            if not is_library(file):
                found.add(file)
    return [path for path in map(Path, sorted(found)) if path.is_file()]


def _reach(program: Program) -> list[Any]:
    from sgc.lang.reach import reach

    return reach(program.spec.fn, program.spec.bound.values()).values


def _tools(program: Runnable) -> list[Tool]:
    """The tools of a graph, or those that an interpreted program leads to."""
    from sgc.compile import CompiledProgram
    from sgc.program import Program

    if isinstance(program, CompiledProgram):
        return [program.tools[name] for name in sorted(program.tools)]
    assert isinstance(program, Program)
    found = {t.name: t for t in _reach(program) if isinstance(t, Tool)}
    return [found[name] for name in sorted(found)]


def _tool_facts(tool: Tool) -> str:
    try:
        code = inspect.getsource(tool.fn)
    except (OSError, TypeError):  # no source: what was compiled of it
        code = repr(getattr(getattr(tool.fn, "__code__", None), "co_code", b""))
    return _digest([tool.effect.encode(), code.encode("utf-8", "surrogatepass")])


def _inputs(inputs: str | None) -> str | None:
    if inputs is None or inputs == "-":
        return inputs
    path = Path(inputs)
    if not path.is_file():
        return "a pipe"  # can be read only once; its rows are compared as they come
    return f"{file_digest(path)} {path.suffix.lower()}"


def _settings(settings: RunSettings) -> dict[str, Any]:
    names = [f.name for f in fields(RunSettings) if f.name not in NEUTRAL | {"mode"}]
    return {name: _plain(getattr(settings, name)) for name in names}


def _backend_facts(backend: Backend | None) -> Mapping[str, Any]:
    if backend is None:
        return {}
    identity = getattr(backend, "identity", None)
    return identity() if identity is not None else {"backend": backend.name}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _digest(parts: Iterable[bytes]) -> str:
    hasher = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return DIGEST_MARK + hasher.hexdigest()
