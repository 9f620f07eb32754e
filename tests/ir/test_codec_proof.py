"""Stored programs are proven without their nodes, and nothing is proven that the law refuses."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from ir.defects import DEFECTS
from ir.exact import frozen

from sgc_ir.codec import decode, encode
from sgc_ir.codec_program import pack_program, unpack_program
from sgc_ir.codec_proof import _LOCAL, is_proven
from sgc_ir.codec_stored import StoredGraphs
from sgc_ir.errors import ArtifactError, CompileError
from sgc_ir.graph import UNSET, Graph, Node, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.text import parse_program
from sgc_ir.verify import RULES, verify

CHAT = """
program chat
graph chat(topic: str) {
  %0 = RoleBegin role="system"
  %1 = ConstantText text="You answer."
  %2 = RoleEnd role="system"
  %3 = Argument name="topic"
  %4 = RoleBegin role="user"
  %5 = Expr fn="text" args=(%3,) append=True
  %6 = RoleEnd role="user"
  %7 = RoleBegin role="assistant"
  %8 = Gen name="a" ordinal=0 max_tokens=8
  %9 = RoleEnd role="assistant"
  %10 = RoleBegin role="user"
  %11 = Expr fn="text" args=(%8,) append=True
  %12 = RoleEnd role="user"
  %13 = RoleBegin role="assistant"
  %14 = Gen name="b" ordinal=1 max_tokens=8
  %15 = RoleEnd role="assistant"
  %16 = Expr fn="set" args=("x", %14)
  %17 = Expr fn="set" args=("y", %8)
  %18 = Return value=%14 vars={"a": %8, "b": %14, "x": %16, "y": %17}
}
"""
BRANCHES = """
program branches
graph branches(topic: str) {
  %0 = Argument name="topic" append=True
  %1 = Select name="kind" ordinal=0 choices=("yes", "no")
  %2 = Expr fn="==" args=(%1, "yes")
  %3 = Branch cond=%2
  %4 = ConstantText if %3 text="Why?"
  %5 = Gen if %3 name="why" ordinal=1 max_tokens=4
  %6 = Gen if not %3 name="else" ordinal=1 max_tokens=4
  %7 = Merge values=(%5, UNSET) tokens=((%3, True), (%3, False))
  %8 = Merge values=(%5, %6) tokens=((%3, True), (%3, False))
  %9 = Select name="more" ordinal=2 choices=("yes", "no")
  %10 = Expr fn="==" args=(%9, "yes")
  %11 = Branch if not %3 cond=%10
  %12 = Gen if %11 name="c" ordinal=3 max_tokens=4
  %13 = Gen if not %11 name="d" ordinal=3 max_tokens=4
  %14 = Merge values=(%5, %12, %13) tokens=((%3, True), (%11, True), (%11, False))
  %15 = Merge values=(%12, %13) tokens=((%11, True), (%11, False))
  %16 = Merge values=() tokens=((%11, True), (%11, False))
  %17 = Expr if %16 fn="text" args=(%15,) append=True
  %18 = Expr fn="is_set" args=(%7,)
  %19 = Expr fn="concat" args=(%8, %14)
  %20 = Return value=%19 vars={"why": %7, "kind": %1}
}
"""
FORKS = """
program forks
graph forks(n: int) {
  %0 = ConstantText text="Two ways."
  %1 = Fork ordinal=0 width=2
  %2 = GetForkItem fork=%1 index=0
  %3 = GetForkItem fork=%1 index=1
  %4 = ConstantText in %2 text="One:"
  %5 = ConstantText in %3 text="Two:"
  %6 = Gen in %2 name="a" ordinal=0 max_tokens=4
  %7 = Gen in %3 name="a" ordinal=0 max_tokens=4
  %8 = Fork in %2 ordinal=0 width=2
  %9 = GetForkItem fork=%8 index=0
  %10 = GetForkItem fork=%8 index=1
  %11 = Gen in %9 name="b" ordinal=0 max_tokens=4
  %12 = Gen in %10 name="b" ordinal=0 max_tokens=4
  %13 = Variable name="a" of=%2
  %14 = Join fork=%1 mode="gather" vars={"a": [%6, %7]}
  %15 = Variable name="a" of=%14
  %16 = Call tool="look" effect="pure" args=(%6,) ordinal=0
  %17 = Call tool="look" effect="pure" args=(%7,) ordinal=1 after=%16
  %18 = SubProgram callee="inner" args={"x": %6} ordinal=0
  %19 = SubProgram callee="inner" args={"x": %7} ordinal=1
  %20 = Variable name="out" of=%18
  %21 = Variable name="out" of=%19
  %22 = Expr fn="list" args=(%6, %7, %11, %12, %16, %17, %20, %21, %15)
  %23 = Return value=%22 vars={"a": %15}
}
graph inner(x: str) {
  %0 = Argument name="x" append=True
  %1 = Gen name="out" ordinal=0 max_tokens=4
  %2 = Return value=%1 vars={"out": %1}
}
"""


def sample(name: str) -> Program:
    text = {"chat": CHAT, "branches": BRANCHES, "forks": FORKS}[name]
    program = parse_program(text, check=False)
    if name == "forks":
        program = Program(program.main, program.graphs, tools={"look": "pure"})
    verify(program)
    return program


SAMPLES = ("chat", "branches", "forks")


@pytest.mark.parametrize("name", SAMPLES)
def test_common_programs_are_proven(name: str) -> None:
    program = sample(name)
    stored = unpack_program(pack_program(program))
    assert is_proven(stored)
    assert frozen(stored) == frozen(program)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_proven_the_law_accepts(name: str) -> None:
    """Each number, text and truth of a stored program is changed, one at a time."""
    tree = msgpack.unpackb(msgpack.packb(pack_program(sample(name))), strict_map_key=False)
    outcomes = {"unreadable": 0, "proven": 0, "lawful": 0, "unlawful": 0}
    for changed in _changes(tree):
        outcomes[_outcome(changed)] += 1
    assert min(outcomes[kind] for kind in ("unreadable", "proven", "unlawful")) > 20, outcomes


def _outcome(tree: Any) -> str:
    try:
        stored = unpack_program(tree)
    except ArtifactError:
        return "unreadable"
    proven = is_proven(stored)
    try:
        verify(stored, syntax=False)
    except CompileError as error:
        if proven:
            pytest.fail(f"proven, though {error}")
        return "unlawful"
    return "proven" if proven else "lawful"


def _changes(tree: Any) -> Iterator[Any]:
    """Copies of `tree` with one part changed in each."""
    if type(tree) is list:
        for at, part in enumerate(tree):
            for changed in _changes(part):
                yield [*tree[:at], changed, *tree[at + 1 :]]
    elif type(tree) is bool:
        yield not tree
    elif type(tree) is int:
        yield from (tree - 1, tree + 1, tree + 2)
    elif type(tree) is str:
        yield from ("", "name", "user", "assistant", "a")
    elif type(tree) is bytes and tree and len(tree) % 4 == 0:
        numbers = list(struct.unpack(f"<{len(tree) // 4}I", tree))
        for at, number in enumerate(numbers):
            for other in {0, max(number - 1, 0), number + 1, number + 2, numbers[at - 1]}:
                yield struct.pack(f"<{len(numbers)}I", *numbers[:at], other, *numbers[at + 1 :])


@pytest.mark.parametrize("law", DEFECTS)
def test_no_artefact_hides_a_defect(law: str) -> None:
    """There is no artefact of a program that the law refuses, or it is refused, patterns aside."""
    for bad, _ in DEFECTS[law]:
        try:
            verify(bad, syntax=False)
        except CompileError:
            with pytest.raises(ArtifactError):
                decode(encode(bad))


def test_each_rule_of_the_law_is_known_to_the_proof() -> None:
    """A new rule is proven in `sgc_ir.codec_proof`, or the proof declines; then it stands here."""
    local = set(_LOCAL)
    others = [rule.__name__ for _law, rule in RULES if rule not in local]
    assert others == [
        *("ids", "values", "operands", "control", "arrivals", "failures", "returns", "streams"),
        *("fork_items", "joins", "several_forks", "races", "roles", "unique_paths", "loops"),
        *("carried", "unset", "variables"),
    ]


def test_graphs_are_made_when_they_are_asked_for() -> None:
    program = decode(encode(sample("forks")))
    graphs = program.graphs
    assert isinstance(graphs, StoredGraphs)
    assert (len(graphs), set(graphs), "outer" in graphs) == (2, {"forks", "inner"}, False)
    assert set(graphs.stored) == {"forks", "inner"}
    assert program.graph is program.graph
    assert set(graphs.stored) == {"inner"}
    with pytest.raises(KeyError):
        graphs["outer"]
    assert program == sample("forks")
    assert pickle.loads(pickle.dumps(program)) == program


def _many(count: int) -> Program:
    nodes = [
        Node(i, Op.CONSTANT_TEXT, attrs={"text": text})
        for i, text in enumerate(["same", "other \ud800", "", "\U0001f600"] * (count // 4))
    ]
    gens = [
        Node(count + i, Op.GEN, attrs={"name": f"v{i}", "ordinal": i, "stop": ["\n", "x" * 2000]})
        for i in range(count)
    ]
    ends = {f"v{i}": Ref(count + i) for i in range(count)}
    end = Node(2 * count, Op.RETURN, attrs={"value": list(ends.values()), "vars": ends})
    return Program("m", {"m": Graph("m", nodes=(*nodes, *gens, end))})


def test_columns_hold_texts_names_and_containers_of_references() -> None:
    program = _many(40)
    data = encode(program)
    assert frozen(decode(data)) == frozen(program)
    assert encode(decode(data)) == data
    assert len(encode(_many(400))) < 400 * 2100  # long texts are not shared by many nodes
    assert is_proven(unpack_program(pack_program(program)))


def test_a_shape_of_many_nodes_has_little_text() -> None:
    text = Node(0, Op.CONSTANT_TEXT, attrs={"text": "a"})
    pair = [text, Node(1, Op.CONSTANT_TEXT, attrs={"text": "a"})]
    end = Node(2, Op.RETURN, attrs={"value": None, "vars": {}})
    tree = pack_program(Program("m", {"m": Graph("m", nodes=(*pair, end))}))
    assert tree[1][0][4][0][1] == ["text", "a"]
    tree[1][0][4][0][1] = ["text", "a" * 5000]
    with pytest.raises(ArtifactError, match="attributes of a shape"):
        unpack_program(tree)


def test_what_may_be_unset_is_not_proven_to_be_read() -> None:
    program = sample("branches")
    nodes = list(program.graph.nodes)
    assert nodes[7].attrs["values"][1] is UNSET
    nodes[18] = Node(18, Op.EXPR, attrs={"fn": "len", "args": (Ref(7),)})
    bad = Program("branches", {"branches": Graph("branches", program.graph.params, tuple(nodes))})
    with pytest.raises(ArtifactError, match="which may be unset"):
        decode(encode(bad))
