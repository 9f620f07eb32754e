"""Static paths of a graph's nodes, as far as they are known before a run.

Streams: "" is the root, `f0[2]` branch 2 of its first fork, `f1[*]` a branch whose index a run
decides, `c0` a sub-program. A model or tool call has its stream's path and `g` with its ordinal,
forks and sub-programs likewise; `*` stands for an ordinal that a run decides. Other nodes show
their stream's path, a letter for their kind and their id: `f0[2]/t7`.
"""

from __future__ import annotations

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref
from sgc_ir.ops import OPS, Op

_LETTERS = {
    Op.CONSTANT_TEXT: "t",
    Op.ARGUMENT: "a",
    Op.VARIABLE: "v",
    Op.EXPR: "e",
    Op.JOIN: "j",
    Op.ROLE_BEGIN: "r",
    Op.ROLE_END: "r",
    Op.IMAGE: "i",
    Op.VIDEO: "i",
    Op.PREFIX_HINT: "h",
    Op.BRANCH: "b",
    Op.MERGE: "m",
    Op.LOOP: "l",
    Op.RETURN: "z",
}


def join_path(stream: str, component: str) -> str:
    """Path of `component` in the stream of path `stream`."""
    return f"{stream}/{component}" if stream else component


def stream_paths(
    graph: Graph, root: str = "", forks: dict[str, str] | None = None
) -> dict[int, str]:
    """Stream id -> path, for the root and each branch; `root` is the path of the graph's stream.

    `forks` gives the paths of forks and branches that came in as captured parameters; other forks
    are shown as `NAME[..]`. References that lead nowhere are shown as `?`.
    """
    paths = {ROOT_STREAM: root}
    for node in graph.nodes:
        if forks and node.op is Op.ARGUMENT and node.attrs.get("name") in forks:
            paths[node.id] = forks[node.attrs["name"]]
        if node.op is Op.GET_FORK_ITEM:
            fork = _fork_path(graph, node, paths, forks or {})
            index = node.attrs.get("index")
            shown = index if isinstance(index, int) else "*"
            paths[node.id] = f"{fork}[{shown}]"
    return paths


def _fork_path(graph: Graph, item: Node, paths: dict[int, str], forks: dict[str, str]) -> str:
    if "more" in item.attrs:
        return "?"  # the run decides even which fork it is
    ref = item.attrs.get("fork")
    if not isinstance(ref, Ref) or not 0 <= ref.node < len(graph.nodes):
        return "?"
    node = graph.nodes[ref.node]
    if node.op is Op.FORK:
        return join_path(paths.get(node.stream, "?"), f"f{_ordinal(node)}")
    if node.op is Op.ARGUMENT:
        name = str(node.attrs.get("name"))
        return forks.get(name, name)
    return "?"


def captured_forks(
    graph: Graph, loop: Node, paths: dict[int, str], forks: dict[str, str]
) -> dict[str, str]:
    """Parameter of `loop`'s body that holds a fork or branch -> its path.

    `paths` are the stream paths of `graph`, `forks` those of the captured ones of `graph` itself.
    """
    captures = loop.attrs.get("captures")
    found: dict[str, str] = {}
    for name, ref in captures.items() if isinstance(captures, dict) else ():
        path = _captured_path(graph, ref, paths, forks)
        if path is not None:
            found[name] = path
    return found


def _captured_path(
    graph: Graph, ref: Ref, paths: dict[int, str], forks: dict[str, str]
) -> str | None:
    if not 0 <= ref.node < len(graph.nodes):
        return None
    node = graph.nodes[ref.node]
    if node.op is Op.FORK:
        return join_path(paths.get(node.stream, "?"), f"f{_ordinal(node)}")
    if node.op is Op.GET_FORK_ITEM:
        return paths.get(ref.node, "?")
    return forks.get(str(node.attrs.get("name"))) if node.op is Op.ARGUMENT else None


def node_path(node: Node, paths: dict[int, str]) -> str:
    """Path of a node in the streams of `stream_paths`."""
    stream = paths.get(node.stream, "?")
    if node.op is Op.GET_FORK_ITEM:
        return paths.get(node.id, "?")
    kind = OPS[node.op].path_kind
    return join_path(stream, f"{kind}{_ordinal(node)}" if kind else f"{_LETTERS[node.op]}{node.id}")


def node_paths(graph: Graph) -> dict[int, str]:
    """Node id -> path, without the nodes of bodies."""
    paths = stream_paths(graph)
    return {node.id: node_path(node, paths) for node in graph.nodes}


def is_static(path: str) -> bool:
    """Whether nothing in the path is left to the run."""
    return "*" not in path and "?" not in path


def _ordinal(node: Node) -> int | str:
    ordinal = node.attrs.get("ordinal")
    return ordinal if isinstance(ordinal, int) else "*"
