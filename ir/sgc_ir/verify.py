"""The law of graphs as a table: each rule looks at one graph or body and names what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sgc_ir import verify_attrs, verify_calls, verify_control, verify_gen, verify_streams
from sgc_ir.errors import CompileError
from sgc_ir.graph import Graph, Node, Program, Ref, Source
from sgc_ir.limits import MAX_BODY_DEPTH, MAX_NODES
from sgc_ir.ops import Op
from sgc_ir.paths import captured_forks, stream_paths
from sgc_ir.verify_scope import Faults, Scope

# In this order, each relying on those above it.
RULES: tuple[tuple[str, Callable[[Scope], Faults]], ...] = (
    ("ids are positions, ops are known", verify_attrs.ids),
    ("attributes are those of the op, of the right type", verify_attrs.attributes),
    ("values are plain data", verify_attrs.values),
    ("operands are earlier and have a value", verify_attrs.operands),
    ("control comes from earlier branches", verify_control.control),
    ("expressions apply known functions", verify_attrs.expressions),
    ("operands are there on every path", verify_control.arrivals),
    ("failures are taken where they may happen", verify_control.failures),
    ("forks have branches", verify_attrs.forks),
    ("one Return, at the end", verify_calls.returns),
    ("parameters are named and typed", verify_calls.parameters),
    ("streams are open", verify_streams.streams),
    ("branches belong to forks", verify_streams.fork_items),
    ("joined branches rest", verify_streams.joins),
    ("branches of several forks", verify_streams.several_forks),
    ("races have branches", verify_streams.races),
    ("roles do not nest and are closed", verify_streams.roles),
    ("paths are unique", verify_streams.unique_paths),
    ("callees exist and get their arguments", verify_calls.callees),
    ("tools are listed", verify_calls.tools),
    ("loops bind their body's parameters", verify_calls.loops),
    ("loops carry what their bodies return", verify_control.carried),
    ("what may be unset is not read", verify_control.unset),
    ("variables are set", verify_calls.variables),
    ("parameters of model calls are valid", verify_gen.parameters),
    ("gens can finish in their budget", verify_gen.budgets),
)


def verify(program: Program, syntax: bool = True) -> None:
    """Check a program; raises CompileError that names graph, node and source of the first fault.

    With `syntax` off, regular expressions, JSON schemas and grammars are not compiled.
    """
    for reason in verify_calls.program_facts(program):
        raise CompileError(f"program {program.main}: {reason}")
    total = sum(_size(graph, 0) for graph in program.graphs.values())
    if total > MAX_NODES:
        raise CompileError(f"program {program.main}: {total} nodes, more than {MAX_NODES}")
    for graph in program.graphs.values():
        _verify_scope(Scope(program, graph, graph.name, syntax=syntax))
    circle = verify_calls.recursion(program)
    if circle is not None:
        raise CompileError(f"program {program.main}: graphs call each other in a circle: {circle}")


def _size(graph: Graph, depth: int) -> int:
    if depth > MAX_BODY_DEPTH:
        raise CompileError(f"graph {graph.name}: loops nest deeper than {MAX_BODY_DEPTH}")
    inner = sum(_size(node.body, depth + 1) for node in graph.nodes if node.body is not None)
    return len(graph.nodes) + inner


def _verify_scope(scope: Scope) -> None:
    for _law, rule in RULES:
        for node, reason in rule(scope):
            raise _error(scope, node, reason)
    bodies = [node for node in scope.graph.nodes if node.op is Op.LOOP]
    if not bodies:
        return
    roles = verify_streams.RoleWalk(scope)
    paths = stream_paths(scope.graph, scope.root_path, dict(scope.fork_paths))
    for node in bodies:
        _verify_scope(_body_scope(scope, node, roles, paths))


def _body_scope(
    scope: Scope, loop: Node, roles: verify_streams.RoleWalk, paths: dict[int, str]
) -> Scope:
    assert loop.body is not None, "a Loop without body passed the attribute rule"
    forks = captured_forks(scope.graph, loop, paths, dict(scope.fork_paths))
    captures: dict[str, Ref] = loop.attrs["captures"]
    branches = {n: captures[n] for n in forks if scope.is_stream(captures[n])}
    return replace(
        scope,
        graph=loop.body,
        where=f"{scope.where}, body of %{loop.id}",
        outer=scope,
        loop=loop,
        root_role=roles.at[loop.id],
        fork_roles={n: roles.fork_role(captures[n]) for n in forks if n not in branches},
        stream_roles={n: roles.role_at(loop, ref.node) for n, ref in branches.items()},
        root_path=paths[loop.stream].replace("*", "!"),
        fork_paths={name: path.replace("*", "!") for name, path in forks.items()},
        memo={},
    )


def _error(scope: Scope, node: Node | None, reason: str) -> CompileError:
    source: Source = scope.graph.source if node is None else node.source
    place = f"graph {scope.where}: " + (f"node %{node.id} {node.op}: " if node is not None else "")
    known = source.file and source.line
    return CompileError(
        place + reason, source.file if known else None, source.line if known else None
    )
