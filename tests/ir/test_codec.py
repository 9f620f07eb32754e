"""Hostile bytes: one clear error each, no code run, memory bounded by the size of the file."""

from __future__ import annotations

import hashlib
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir.samples import essay_judge, static_judge
from ir.strategies import programs

from sgc_ir.codec import (
    FORMAT_VERSION,
    MAGIC,
    MEMORY_BASE,
    MEMORY_FACTOR,
    decode,
    encode,
    read_artifact,
)
from sgc_ir.codec_graph import pack_body
from sgc_ir.codec_program import pack_program
from sgc_ir.codec_values import BIG_INT, DICT, LIST, REF, TUPLE, pack_value
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Graph, Node, Param, Program, Ref
from sgc_ir.limits import MAX_BODY_DEPTH, MAX_VALUE_DEPTH
from sgc_ir.ops import Op

HEADER = 50


def sealed(payload: bytes, version: int = FORMAT_VERSION) -> bytes:
    """A file with a valid header and hash around any payload."""
    digest = hashlib.blake2b(struct.pack(">H", version) + payload, digest_size=32).digest()
    return struct.pack(">8sHQ32s", MAGIC, version, len(payload), digest) + payload


def refusal(data: bytes, **options: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        decode(data, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_truncation_is_refused() -> None:
    data = encode(static_judge())
    assert "truncated" in refusal(data[:-1])
    assert "truncated" in refusal(data[:HEADER])
    for length in range(0, len(data), 13):
        refusal(data[:length])


def test_every_flipped_bit_is_refused() -> None:
    data = encode(essay_judge())
    bits = random.Random(0)
    for at in [*range(HEADER), *range(HEADER, len(data), 11)]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << bits.randrange(8)
        refusal(bytes(damaged))


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not an sgc artefact"),
        (b"PK\x03\x04 something else entirely, a zip perhaps, long enough for it", "not an sgc"),
        (b"program judge\n\ngraph judge() {\n}\n" * 3, "text form"),
        (MAGIC.replace(b"\r\n", b"\n") + b"x" * 60, "not an sgc artefact"),
        (encode(essay_judge()) + b"\0", "1 bytes follow the end"),
        (sealed(b"\xc0" * 3), "bytes follow"),
        (sealed(b""), "more items than it has bytes"),
    ],
)
def test_foreign_bytes_are_refused(data: bytes, word: str) -> None:
    assert word in refusal(data)


def test_newer_version_says_which_and_what_to_do() -> None:
    message = refusal(sealed(b"\xc1 a layout of the future", version=FORMAT_VERSION + 6))
    assert f"version {FORMAT_VERSION + 6}" in message
    assert f"up to {FORMAT_VERSION}" in message
    assert "update sgc" in message
    assert "unknown format version 0" in refusal(sealed(b"\xc0", version=0))


@pytest.mark.parametrize("version", [1, 2])
def test_artefacts_of_the_first_versions_are_read(version: int) -> None:
    for program in (essay_judge(), static_judge()):
        assert decode(node_by_node(first_format(program), version)) == program


def first_format(program: Program) -> list[Any]:
    """A program as versions before 3 held it."""
    files: dict[str, int] = {}
    graphs = [pack_body(program.graphs[name], files, 0) for name in sorted(program.graphs)]
    tools = [text for item in sorted(program.tools.items()) for text in item]
    outputs = None if program.outputs is None else list(program.outputs)
    return [program.main, graphs, outputs, tools, pack_value(dict(program.notes)), list(files)]


def node_by_node(tree: Any, version: int = 2) -> bytes:
    return sealed(packed(tree), version)


def test_size_cap() -> None:
    data = encode(essay_judge())
    assert decode(data, max_bytes=len(data)) == essay_judge()
    assert "larger than" in refusal(data, max_bytes=len(data) - 1)


def test_read_artifact_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "judge.sgc"
    path.write_bytes(encode(essay_judge()))
    assert read_artifact(path) == essay_judge()
    path.write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"judge\.sgc: not an sgc artefact"):
        read_artifact(path)
    path.write_bytes(encode(essay_judge()))
    with pytest.raises(ArtifactError, match="larger than 100 bytes"):
        read_artifact(path, max_bytes=100)
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_artifact(tmp_path)


@pytest.mark.parametrize(
    ("payload", "word"),
    [
        (b"\xdd\xff\xff\xff\xff", "more items"),
        (b"\xdd\x7f\xff\xff\xff" * 400 + b"\x90", "more items"),
        (b"\xdb\xff\xff\xff\xff", "more bytes"),
        (b"\xc6\x00\x00\x01\x00abc", "more bytes"),
        (b"\x91" * 5000 + b"\x90", "nested too deeply"),
        (b"\x82\x01\x02\x03\x04", "no meaning"),
        (b"\xc7\x01\x05\x00", "no meaning"),
        (b"\xc1", "no meaning"),
        (b"\xcb\x00\x00", "more bytes"),
        (b"\xa2\xff\xfe", "damaged artefact"),
    ],
)
def test_declared_lengths_and_depths_are_held_against_the_bytes(payload: bytes, word: str) -> None:
    assert word in refusal(sealed(payload))


def test_unknown_ops_and_attributes_are_refused() -> None:
    assert "unknown 'Gem'" in refusal(node_by_node(_program([["Gem", -1, [], [0, 0], None, None]])))
    node = ["RoleBegin", -1, ["role", "user", "shell", "rm"], [0, 0], None, None]
    assert "attribute 'shell'" in refusal(node_by_node(_program([node])))


def test_invalid_programs_are_refused_with_graph_and_node() -> None:
    node = ["RoleBegin", -1, ["role", "user"], [0, 0], None, None]
    message = refusal(node_by_node(_program([node])))
    assert "invalid program" in message
    assert "graph m" in message
    assert "role user is not closed" in message


def test_what_cannot_be_stored_is_refused_by_name() -> None:
    nested: Any = 1
    for _ in range(MAX_VALUE_DEPTH + 1):
        nested = [nested]
    for value, word in [(object(), "object"), ({1, 2}, "set"), (nested, "deeper"), (1j, "complex")]:
        node = Node(0, Op.RETURN, attrs={"value": value, "vars": {}})
        with pytest.raises(ArtifactError, match=word):
            encode(Program("m", {"m": Graph("m", nodes=(node,))}))


def test_bodies_nest_to_the_stated_depth() -> None:
    assert decode(encode(_nested(MAX_BODY_DEPTH))) == _nested(MAX_BODY_DEPTH)
    with pytest.raises(ArtifactError, match="nest deeper"):
        encode(_nested(MAX_BODY_DEPTH + 1))


def _nested(depth: int) -> Program:
    deep: Any = "leaf"
    for _ in range(MAX_VALUE_DEPTH - 1):
        deep = [deep]
    graph = Graph("m", nodes=(Node(0, Op.RETURN, attrs={"value": deep, "vars": {}}),))
    for _ in range(depth):
        attrs: dict[str, Any] = {
            "over": ([1],),
            "item_params": ("x",),
            "index_param": None,
            "captures": {},
        }
        body = Graph(graph.name, graph.params, graph.nodes)
        loop = Node(0, Op.LOOP, attrs=attrs, body=Graph("b", (Param("x"),), body.nodes))
        end = Node(1, Op.RETURN, attrs={"value": Ref(0), "vars": {}})
        graph = Graph("m", nodes=(loop, end))
    return Program("m", {"m": graph})


def packed(tree: Any) -> bytes:
    data: bytes = msgpack.packb(tree, unicode_errors="surrogatepass")
    return data


def _program(nodes: list[Any] | None = None, notes: Any = None, params: Any = None) -> list[Any]:
    end = ["Return", -1, ["value", None, "vars", [DICT]], [0, 0], None, None]
    graph = ["m", params or [], [*(nodes or []), end], [0, 0]]
    return ["m", [graph], None, [], notes if notes is not None else [DICT], [""]]


def _values(*items: Any) -> list[Any]:
    return _program(notes=[DICT, "k", [LIST, *items]])


COUNT = 4000
TEXT = ["ConstantText", -1, ["text", ""], [0, 0], None, None]
GREEDY: dict[str, Any] = {
    "arrays": [[]] * COUNT,
    "empty lists": _values(*[[LIST]] * COUNT),
    "tuples": _values(*[[TUPLE, 1]] * COUNT),
    "dicts": _values(*[[DICT, 1, 1]] * COUNT),
    "dicts in dicts": _values(*[[DICT, 1, [DICT]]] * COUNT),
    "integers": _values(*[[BIG_INT, b"a"]] * COUNT),
    "strings": _values(*["ab"] * COUNT),
    "nodes": _program([TEXT] * COUNT),
    "references": _program([TEXT, ["Merge", -1, ["values", [LIST, *[[REF, 0]] * COUNT]], [0, 0]]]),
    "parameters": _program(params=[[f"p{i}", "", None, False] for i in range(COUNT)]),
    "entries": _program(notes=[DICT, *[x for i in range(COUNT) for x in (str(i), 1)]]),
    "wide text": _values("a" * COUNT + "\U0001f600"),
    "bytes": _values(b"a" * COUNT),
}


@pytest.mark.parametrize("name", GREEDY)
def test_memory_stays_below_the_stated_multiple(name: str) -> None:
    data = node_by_node(GREEDY[name])
    _read(encode(essay_judge()))  # imports and caches are not the file's
    tracemalloc.start()
    _read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_FACTOR * len(data) + MEMORY_BASE


def _read(data: bytes) -> None:
    try:
        decode(data)
    except ArtifactError:
        return


def test_a_declared_giant_allocates_nothing() -> None:
    data = sealed(b"\xdd\x7f\xff\xff\xff" * 60 + b"\xdb\x7f\xff\xff\xff")
    tracemalloc.start()
    refusal(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


JUNK = [None, True, 0, -1, 3, 2**63, "", "x", "Gen", "Loop", "set", b"", 1.5, float("nan")]
JUNK += [[], [0], [1], [2], [2, "a", 1], [3, 0], [3, 5], [3, -1], [4, b""], [5], [1, "a", "b"]]
JUNK += [[2, [0], 1], [["x"]], ["set", 1], [2, "k", [3, 0]], [7], [8], [9], [10, 1, b""]]
JUNK += [b"\0\0\0\0", b"\xff\xff\xff\xff" * 3, [11, b"", b""], [10, 2, b"\0\0\0\0"]]


def _spots(tree: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    inner = enumerate(tree) if type(tree) is list else ()
    return [path, *(spot for i, part in inner for spot in _spots(part, (*path, i)))]


def _replaced(tree: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    copy = list(tree)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], value)
    return copy


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(max_steps=8), st.randoms(use_true_random=False))
def test_forged_payloads_are_refused_or_valid(program: Program, chance: random.Random) -> None:
    """Well-formed msgpack with a valid hash, but any part replaced: never another exception."""
    for version, tree in ((2, first_format(program)), (FORMAT_VERSION, pack_program(program))):
        spots = [spot for spot in _spots(tree) if len(spot) > 3] or [()]
        for _ in range(8):
            forged = _replaced(tree, chance.choice(spots), chance.choice(JUNK))
            _read(sealed(packed(forged), version))
