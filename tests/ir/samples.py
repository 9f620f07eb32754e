"""Hand-written programs that several tests of the graph room share."""

from __future__ import annotations

from typing import Any

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op


class Builder:
    """Adds nodes at the end of a graph; each call returns a Ref to the new node."""

    def __init__(self, file: str = "judge.py") -> None:
        self.nodes: list[Node] = []
        self.line = 3
        self.file = file

    def add(
        self,
        op: Op,
        stream: Ref | None = None,
        body: Graph | None = None,
        control: tuple[Ref, bool] | None = None,
        **attrs: Any,
    ) -> Ref:
        self.line += 1
        opened = ROOT_STREAM if stream is None else stream.node
        source = Source(self.file, self.line)
        token = None if control is None else (control[0].node, control[1])
        self.nodes.append(Node(len(self.nodes), op, opened, attrs, source, token, body))
        return Ref(len(self.nodes) - 1)

    def role(self, name: str, *parts: Any, stream: Ref | None = None) -> None:
        self.add(Op.ROLE_BEGIN, stream, role=name)
        for part in parts:
            if isinstance(part, str):
                self.add(Op.CONSTANT_TEXT, stream, text=part)
            else:
                part(stream)
        self.add(Op.ROLE_END, stream, role=name)

    def graph(self, name: str, *params: Param, value: Any = None, vars: Any = None) -> Graph:
        self.add(Op.RETURN, value=value, vars=vars or {})
        return Graph(name, params, tuple(self.nodes), Source(self.file, 3))


def _judge_body() -> Graph:
    body = Builder()
    forks = body.add(Op.ARGUMENT, name="forks")
    index = body.add(Op.ARGUMENT, name="f")
    dimension = body.add(Op.ARGUMENT, name="d")
    branch = body.add(Op.GET_FORK_ITEM, fork=forks, index=index)
    prompt = body.add(
        Op.EXPR, branch, fn="concat", args=("Judge its ", dimension, " in one sentence.")
    )
    body.role(
        "user",
        lambda s: body.add(Op.EXPR, s, fn="text", args=(prompt,), append=True),
        stream=branch,
    )
    body.role(
        "assistant",
        lambda s: body.add(Op.GEN, s, name="judgment", ordinal=0, max_tokens=48, stop=("\n",)),
        stream=branch,
    )
    return body.graph("judge.loop")


def _read_body() -> Graph:
    body = Builder()
    forks = body.add(Op.ARGUMENT, name="forks")
    index = body.add(Op.ARGUMENT, name="f")
    branch = body.add(Op.GET_FORK_ITEM, fork=forks, index=index)
    value = body.add(Op.VARIABLE, name="judgment", of=branch)
    return body.graph("judge.read", value=value)


def essay_judge() -> Program:
    """The program of the language guide: a fork of run-time width, roles, a select."""
    b = Builder()
    params = (Param("essay", "str"), Param("dimensions", "list[str]", ("clarity", "style")))
    b.role("system", "You grade essays.")
    essay = b.add(Op.ARGUMENT, name="essay")
    text = b.add(Op.EXPR, fn="+", args=("Essay:\n", essay))
    b.role("user", lambda s: b.add(Op.EXPR, fn="text", args=(text,), append=True))
    dimensions = b.add(Op.ARGUMENT, name="dimensions")
    width = b.add(Op.EXPR, fn="len", args=(dimensions,))
    fork = b.add(Op.FORK, ordinal=0, width=width)
    loop_params = (Param("f"), Param("d"), Param("forks"))
    body = _judge_body()
    first = b.add(
        Op.LOOP,
        over=(fork, dimensions),
        item_params=("f", "d"),
        index_param=None,
        captures={"forks": fork},
        body=Graph(body.name, loop_params, body.nodes, body.source),
    )
    read = _read_body()
    values = b.add(
        Op.LOOP,
        over=(fork,),
        item_params=("f",),
        index_param=None,
        captures={"forks": fork},
        after=first,
        body=Graph(read.name, (Param("f"), Param("forks")), read.nodes, read.source),
    )
    joined = b.add(Op.EXPR, fn=".join", args=("\n", values))
    prompt = b.add(Op.EXPR, fn="concat", args=("Judgments:\n", joined, "\nGrade it."))
    b.role("user", lambda s: b.add(Op.EXPR, fn="text", args=(prompt,), append=True))
    b.role(
        "assistant",
        lambda s: b.add(Op.SELECT, name="grade", ordinal=0, choices=("A", "B", "C", "D")),
    )
    grade = Ref(len(b.nodes) - 2)
    graph = b.graph("judge", *params, value=grade, vars={"grade": grade})
    return Program("judge", {"judge": graph}, notes={"version": "0.1.0"})


def static_judge() -> Program:
    """The same idea with three static branches, a sub-program, a tool and a copy."""
    b = Builder("static.py")
    b.role("system", "You grade essays. Be strict, be fair, and always name the passage you mean.")
    essay = b.add(Op.ARGUMENT, name="essay")
    b.role("user", lambda s: b.add(Op.ARGUMENT, name="essay", append=True))
    fork = b.add(Op.FORK, ordinal=0, width=3)
    branches = [b.add(Op.GET_FORK_ITEM, fork=fork, index=i) for i in range(3)]
    writers = []
    for branch, topic in zip(branches, ("clarity", "evidence", "style"), strict=True):
        b.role("user", f"Judge its {topic} in one sentence.", stream=branch)
        b.add(Op.ROLE_BEGIN, branch, role="assistant")
        writers.append(b.add(Op.GEN, branch, name="judgment", ordinal=0, max_tokens=48))
        b.add(Op.ROLE_END, branch, role="assistant")
    join = b.add(Op.JOIN, fork=fork, mode="gather", vars={"judgment": writers})
    all_judgments = b.add(Op.VARIABLE, name="judgment", of=join)
    found = b.add(
        Op.CALL, tool="search", effect="pure", args=(all_judgments,), ordinal=0, kwargs={"k": 3}
    )
    handle = b.add(Op.SUB_PROGRAM, callee="summary", args={"text": found}, ordinal=0)
    summary = b.add(Op.VARIABLE, name="short", of=handle)
    b.role("user", lambda s: b.add(Op.EXPR, fn="text", args=(summary,), append=True))
    b.add(Op.ROLE_BEGIN, role="assistant")
    grade = b.add(Op.SELECT, name="grade", ordinal=1, choices=("A", "B", "C", "D"))
    b.add(Op.ROLE_END, role="assistant")
    main = b.graph("judge", Param("essay", "str"), value=grade, vars={"grade": grade})
    s = Builder("static.py")
    s.add(Op.CONSTANT_TEXT, text="Summarise: ")
    s.add(Op.ARGUMENT, name="text", append=True)
    short = s.add(Op.GEN, name="short", ordinal=0, max_tokens=20, temperature=0.0)
    sub = s.graph("summary", Param("text"), value=short, vars={"short": short})
    assert essay is not None
    return Program("judge", {"judge": main, "summary": sub}, tools={"search": "pure"})
