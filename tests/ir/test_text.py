"""The text form: how it looks, and what a reader is told about a mistake."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from ir.exact import frozen
from ir.samples import essay_judge, static_judge
from ir.strategies import any_text, constants

from sgc_ir.errors import ArtifactError
from sgc_ir.graph import MISSING, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op
from sgc_ir.quote import quote, quote_bytes, unquote, unquote_bytes
from sgc_ir.text import parse_program, print_node, print_program, value_text

LOOK = """\
program pair
outputs ("b",)
tools {"find": "pure"}
notes {"made by": "hand"}

graph pair(x: int | None, y: list[str] = ["a"], *, k = None) @"pair.py":3 {
  %0 = RoleBegin role="user" @4
  %1 = ConstantText text="say \\"hi\\"\\n" @4
  %2 = RoleEnd role="user"
  %3 = Fork ordinal=0 width=1 @"other file.py":9  # f0
  %4 = GetForkItem fork=%3 index=0 @5  # f0[0]
  %5 = Gen in %4 name="b" ordinal=0 max_tokens=8 stop=(".",) temperature=0.0 @5  # f0[0]/g0
  %6 = Branch cond=%5
  %7 = ConstantText if not %6 text="no"
  %8 = Loop over=([1, 2],) item_params=("v",) index_param=None captures={"c": %5} body pair.loop(v, c) {
    %0 = Argument name="v"
    %1 = Return value=(%0, None, -0.0, inf, b"\\x00a") vars={}
  }
  %9 = SubProgram callee="odd <name>" args={"q": %8} ordinal=0  # c0
  %10 = Return value=%8 vars={"b": %5}
}

graph "odd <name>"(q) {
  %0 = Return value=None vars={}
}
"""  # noqa: E501


def test_the_look_is_kept() -> None:
    assert print_program(parse_program(LOOK)) == LOOK


def test_what_the_look_says() -> None:
    program = parse_program(LOOK)
    graph = program.graph
    assert program.outputs == ("b",)
    assert graph.params == (
        Param("x", "int | None"),
        Param("y", "list[str]", ["a"]),
        Param("k", "", None, keyword_only=True),
    )
    assert graph.nodes[3].source == Source("other file.py", 9)
    assert graph.nodes[2].source == Source()
    assert graph.nodes[5].attrs["stop"] == (".",)
    assert graph.nodes[7].control == (6, False)
    body = graph.nodes[8].body
    assert body is not None
    assert body.params == (Param("v"), Param("c"))
    assert body.params[0].default is MISSING


def test_white_space_and_comments_mean_nothing() -> None:
    squeezed = " ".join(line.split("  # ")[0] for line in LOOK.split("\n"))
    assert parse_program(squeezed) == parse_program(LOOK)
    assert parse_program(LOOK.replace("\n", "\r\n# remark\n")) == parse_program(LOOK)


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("role=", "roll=", "7:18", "RoleBegin has no attribute roll; it has role"),
        ("Gen in", "Gem in", "12:8", "unknown op Gem; known are ConstantText"),
        ("%4 = Get", "%5 = Get", "11:3", "numbered in order, this one is %4"),
        ('name="b"', 'name=="b"', "12:23", "unexpected '='"),
        ('"user"', '"user', "7:23", "unexpected '\"'"),
        ("width=1", "width=1 width=2", "10:31", "a second attribute width"),
        ('graph "odd <name>"', "graph pair", "23:7", "a second graph 'pair'"),
        ('{"b": %5}', '{"b": %5, "b": 1}', "20:43", "a second key 'b'"),
        ('{"b": %5}', "{[]: %5}", "20:33", "cannot be a key"),
        ("hi", "h\\qi", "8:26", "unknown escape \\q"),
        ("-0.0", "9" * 5000, "17:34", "write the number as 0x"),
        ("program", "progam", "1:1", "unexpected 'p"),
    ],
)
def test_mistakes_are_shown_with_a_caret(old: str, new: str, place: str, words: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        parse_program(LOOK.replace(old, new, 1), name="pair.txt")
    first, line, caret = str(caught.value).split("\n")
    assert first.startswith(f"pair.txt:{place}: ")
    assert words in first
    column = int(place.split(":")[1])
    if column < 60:
        assert caret == " " * (4 + column - 1) + "^"
        assert line[4:] in LOOK.replace(old, new, 1).split("\n")[int(place.split(":")[0]) - 1]


@pytest.mark.parametrize("length", range(0, len(LOOK) - 2, 17))
def test_every_truncation_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError):
        parse_program(LOOK[:length])


def test_parsed_programs_are_verified() -> None:
    broken = LOOK.replace('RoleEnd role="user"', 'RoleEnd role="system"')
    with pytest.raises(ArtifactError, match="%2 RoleEnd: ends system, but user is open"):
        parse_program(broken)
    assert parse_program(broken, check=False).graph.nodes[2].attrs == {"role": "system"}


def test_samples_round_trip() -> None:
    for program in (essay_judge(), static_judge()):
        assert parse_program(print_program(program)) == program


@given(constants)
def test_values_round_trip(value: Any) -> None:
    assert frozen(parsed(value_text(value))) == frozen(value)


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001])
def test_each_nan_keeps_its_bits(bits: int) -> None:
    value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    assert math.isnan(value)
    assert frozen(parsed(value_text(value))) == frozen(value)


def test_values_are_written_as_in_python() -> None:
    value = (None, True, -3, 1e300, 1e16, [], {}, (), (1,), {"k": [b"\xff"]}, Ref(3))
    assert value_text(value) == (
        '(None, True, -3, 1e+300, 1e+16, [], {}, (), (1,), {"k": [b"\\xff"]}, %3)'
    )
    assert parsed("[1, 2,]") == [1, 2]
    assert parsed("{1: 2,}") == {1: 2}
    with pytest.raises(ArtifactError, match="type set"):
        value_text({1})


def parsed(text: str) -> Any:
    """The value that stands in a Return."""
    source = f"program m graph m() {{ %0 = Return value={text} vars={{}} }}"
    return parse_program(source, check=False).graph.nodes[0].attrs["value"]


@given(any_text)
def test_quoting_round_trips(text: str) -> None:
    quoted = quote(text)
    assert unquote(quoted) == text
    assert quoted.isprintable()
    quoted.encode("utf-8")


def test_bytes_are_quoted_byte_by_byte() -> None:
    data = bytes(range(256))
    assert quote_bytes(data).isascii()
    assert unquote_bytes(quote_bytes(data)) == data
    with pytest.raises(ValueError, match="no byte"):
        unquote_bytes('b"\\u1234"')


def test_one_node_can_be_printed_alone() -> None:
    node = Node(4, Op.GEN, 2, {"ordinal": 0, "name": "a"}, Source("p.py", 7), (1, True))
    assert print_node(node, "p.py") == '%4 = Gen in %2 if %1 name="a" ordinal=0 @7'


def test_misordered_parameters_cannot_be_printed() -> None:
    params = (Param("a", keyword_only=True), Param("b"))
    with pytest.raises(ArtifactError, match="b follows keyword-only"):
        print_program(Program("m", {"m": Graph("m", params)}))
