"""Turns the parsed words of the text form into the graph, bottom up."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from lark import Token

from sgc_ir.graph import MISSING, ROOT_STREAM, UNSET, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import ATTR_ORDER, Op
from sgc_ir.quote import quote, unquote, unquote_bytes

Children = list[Any]
Place = Source | int | None  # a bare line belongs to the file of the graph around it


class Misplaced(Exception):
    """A word that the grammar takes and the graph does not."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.line: int = token.line or 1
        self.column: int = token.column or 1


@dataclass(frozen=True, slots=True)
class _Signature:
    name: Token
    params: tuple[Param, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class _GraphDraft:
    signature: _Signature
    nodes: tuple[_NodeDraft, ...]

    def finish(self, file: str) -> Graph:
        source = _source(self.signature.place, file)
        nodes = tuple(node.finish(i, source.file) for i, node in enumerate(self.nodes))
        return Graph(_name_text(self.signature.name), self.signature.params, nodes, source)


@dataclass(frozen=True, slots=True)
class _NodeDraft:
    token: Token
    node: Node
    place: Place
    body: _GraphDraft | None

    def finish(self, index: int, file: str) -> Node:
        if self.node.id != index:
            raise Misplaced(f"nodes are numbered in order, this one is %{index}", self.token)
        body = None if self.body is None else self.body.finish(file)
        return replace(self.node, source=_source(self.place, file), body=body)


def _source(place: Place, file: str) -> Source:
    if place is None:
        return Source()
    return place if isinstance(place, Source) else Source(file, place)


def _name_text(token: Token) -> str:
    return _text(token) if token.type == "STRING" else str(token)


def _text(token: Token) -> str:
    try:
        return unquote(token)
    except (ValueError, OverflowError) as error:
        raise Misplaced(str(error), token) from error


def _number(token: Token) -> int:
    try:
        return int(token, 16) if "x" in token else int(token)
    except ValueError as error:
        raise Misplaced("too many decimal digits, write the number as 0x...", token) from error


def _op(token: Token) -> Op:
    try:
        return Op(str(token))
    except ValueError:
        raise Misplaced(f"unknown op {token}; known are {', '.join(Op)}", token) from None


def _unhashable(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(_unhashable(item) for item in key)
    return isinstance(key, list | dict)


class BuildProgram:
    """One method a rule of `program.lark`; each gets the rule's children."""

    def program(self, c: Children) -> Program:
        outputs, tools, notes = c[1:4]
        graphs: dict[str, Graph] = {}
        for draft in c[4:]:
            graph = draft.finish("")
            if graph.name in graphs:
                raise Misplaced(f"a second graph {graph.name!r}", draft.signature.name)
            graphs[graph.name] = graph
        return Program(_name_text(c[0]), graphs, outputs, tools or {}, notes or {})

    def outputs(self, c: Children) -> Any:
        return c[0]

    tools = notes = outputs

    def graph(self, c: Children) -> _GraphDraft:
        return _GraphDraft(c[0], tuple(c[1:]))

    body = graph

    def signature(self, c: Children) -> _Signature:
        return _Signature(c[0], c[1] or (), c[2])

    def params(self, c: Children) -> tuple[Param, ...]:
        params: list[Param] = []
        keyword_only = False
        for part in c:
            if isinstance(part, Param):
                params.append(replace(part, keyword_only=keyword_only))
            keyword_only = keyword_only or part == "*"
        return tuple(params)

    def parameter(self, c: Children) -> Param:
        name, annotation, default = c
        return Param(_name_text(name), annotation or "", default[0] if default else MISSING)

    def default(self, c: Children) -> tuple[Any]:
        return (c[0],)  # wrapped, since the default may be None

    def keyword_only(self, c: Children) -> str:
        return "*"

    def source_line(self, c: Children) -> int:
        return _number(c[0])

    def source_file(self, c: Children) -> Source:
        return Source(_text(c[0]), 0 if c[1] is None else _number(c[1]))

    def node(self, c: Children) -> _NodeDraft:
        token, op_token, stream, control, attrs, place, body = c
        op = _op(op_token)
        node = Node(
            id=self.ref([token]).node,
            op=op,
            stream=ROOT_STREAM if stream is None else stream,
            attrs=self._checked(op, attrs),
            control=control,
        )
        return _NodeDraft(token, node, place, body)

    def _checked(self, op: Op, attrs: list[tuple[Token, Any]]) -> dict[str, Any]:
        checked: dict[str, Any] = {}
        for token, value in attrs:
            if token in checked:
                raise Misplaced(f"a second attribute {token}", token)
            if token not in ATTR_ORDER[op]:
                known = ", ".join(ATTR_ORDER[op])
                raise Misplaced(f"{op} has no attribute {token}; it has {known}", token)
            checked[str(token)] = value
        return checked

    def stream(self, c: Children) -> int:
        return self.ref(c).node

    def arm_true(self, c: Children) -> tuple[int, bool]:
        return self.ref(c).node, True

    def arm_false(self, c: Children) -> tuple[int, bool]:
        return self.ref(c).node, False

    def attrs(self, c: Children) -> Children:
        return c

    def attr(self, c: Children) -> tuple[Token, Any]:
        return c[0], c[1]

    def name(self, c: Children) -> Token:
        token: Token = c[0]
        return token

    def annotation(self, c: Children) -> str:
        return str(c[0])

    def quoted_type(self, c: Children) -> str:
        return _text(c[0])

    def type(self, c: Children) -> str:
        return " | ".join(c)

    def type_name(self, c: Children) -> str:
        return str(c[0])

    def type_generic(self, c: Children) -> str:
        return f"{c[0]}[{', '.join(c[2:-1:2])}]"

    def type_constant(self, c: Children) -> str:
        return quote(_text(c[0])) if c[0].type == "STRING" else str(c[0])

    def type_argument(self, c: Children) -> str:
        return str(c[0])

    def none(self, c: Children) -> None:
        return None

    def true(self, c: Children) -> bool:
        return True

    def false(self, c: Children) -> bool:
        return False

    def missing(self, c: Children) -> Any:
        return MISSING

    def unset(self, c: Children) -> Any:
        return UNSET

    def integer(self, c: Children) -> int:
        return _number(c[0])

    def floating(self, c: Children) -> float:
        return float(c[0])

    def nan(self, c: Children) -> float:
        if c[0] == "nan":
            return float("nan")
        value: float = struct.unpack(">d", bytes.fromhex(c[0][4:]))[0]
        return value

    def string(self, c: Children) -> str:
        return _text(c[0])

    def bytes(self, c: Children) -> Any:
        try:
            return unquote_bytes(c[0])
        except (ValueError, OverflowError) as error:
            raise Misplaced(str(error), c[0]) from error

    def ref(self, c: Children) -> Ref:
        return Ref(int(c[0][1:]))

    def list(self, c: Children) -> Any:
        return c[0] or []

    def empty_tuple(self, c: Children) -> tuple[()]:
        return ()

    def tuple(self, c: Children) -> Any:
        return (c[0], *(c[1] or ()))

    def dict(self, c: Children) -> Any:
        return c[0] or {}

    def items(self, c: Children) -> Any:
        return c

    def pair(self, c: Children) -> Any:
        return c

    def pairs(self, c: Children) -> Any:
        result: Any = {}
        for key, colon, value in c:
            if _unhashable(key):
                raise Misplaced("a list or dict cannot be a key", colon)
            if key in result:
                raise Misplaced(f"a second key {key!r}", colon)
            result[key] = value
        return result
