"""What graphs tell of the life of their prompts, for graphs small enough to be told by hand."""

from __future__ import annotations

from typing import Any

from sgc_ir.analysis.hints import GraphHints, graph_hints
from sgc_ir.analysis.hints_report import report
from sgc_ir.analysis.static_prefix import Piece
from sgc_ir.graph import ROOT_STREAM, Node
from sgc_ir.params import SamplingParams
from sgc_ir.text import parse_program


def bound(node: Node) -> int | None:
    most = node.attrs.get("max_tokens", 100)
    return most if isinstance(most, int) else None


def hints(text: str, name: str = "main") -> GraphHints:
    program = parse_program(text)
    return graph_hints(program, bound)[id(program.graphs[name])]


def body_hints(text: str) -> GraphHints:
    program = parse_program(text)
    (body,) = [node.body for node in program.walk() if node.body is not None]
    return graph_hints(program, bound)[id(body)]


FORK = """
program main
graph main(x: str) {
  %0 = Argument name="x"
  %1 = ConstantText text="Head. "
  %2 = Expr fn="+" args=("Of ", %0)
  %3 = Expr fn="text" args=(%2,) append=True
  %4 = Fork ordinal=0 width=2
  %5 = GetForkItem fork=%4 index=0
  %6 = GetForkItem fork=%4 index=1
  %7 = Gen in %5 name="a" ordinal=0 max_tokens=10
  %8 = Gen in %6 name="a" ordinal=0 max_tokens=30
  %9 = Gen in %6 name="b" ordinal=1 max_tokens=5
  %10 = Expr fn="text" args=(%9,) append=True
  %11 = Gen name="c" ordinal=0 max_tokens=7
  %12 = Return value=None vars={}
}
"""


def test_readers_and_times_of_branches() -> None:
    found = hints(FORK)
    told: dict[int, Any] = {at: tuple(call) for at, call in found.calls.items()}
    assert told == {
        7: (0, None, (20,)),  # branch 1 goes on at 30
        8: (1, 0, (0,)),
        9: (0, None, (0,)),  # the stream itself goes on
        11: (0, None, ()),
    }
    assert tuple(found.forks[4]) == (3, 0, 1)
    assert {at: s.calls for at, s in found.streams.items()} == {ROOT_STREAM: 4, 5: 1, 6: 2}
    assert not any(s.open for s in found.streams.values())


def test_static_prefixes_go_on_in_branches_and_end_where_rows_differ() -> None:
    found = hints(FORK)
    head = (Piece("text", "Head. "), Piece("text", "Of "))
    assert {s.prefix for s in found.streams.values()} == {head}
    constant = FORK.replace('args=("Of ", %0)', 'args=("Of ", "all")')
    assert hints(constant).streams[5].prefix == (*head, Piece("text", "all"))


def test_a_tool_makes_times_unknown_and_arms_count_both() -> None:
    found = hints("""
program main
tools {"t": "pure"}
graph main() {
  %0 = Gen name="a" ordinal=0 max_tokens=3
  %1 = Branch cond=%0
  %2 = Call if %1 tool="t" effect="pure" args=() ordinal=1
  %3 = Expr if %1 fn="text" args=(%2,) append=True
  %4 = Gen if %1 name="b" ordinal=2 max_tokens=3
  %5 = Gen if not %1 name="c" ordinal=1 max_tokens=3
  %6 = Gen name="d" ordinal=3 max_tokens=3
  %7 = Return value=None vars={}
}
""")
    # Arms count as if they came one after the other, so all of them wait for the tool.
    assert [found.calls[at][:2] for at in (0, 4, 5, 6)] == [(3, None), (2, 0), (1, 0), (0, None)]


LOOP = """
program main
graph main(items: list[str]) {
  %0 = Argument name="items"
  %1 = ConstantText text="Head. "
  %2 = Fork ordinal=0 items=%0
  %3 = Loop over=(%2,) item_params=("k",) index_param="i" captures={"f": %2} body b(i, k, f) {
    %0 = Argument name="i"
    %1 = Argument name="f"
    %2 = GetForkItem fork=%1 index=%0
    %3 = ConstantText in %2 text="Item: "
    %4 = Gen in %2 name="a" ordinal=0 max_tokens=9
    %5 = Return value=None vars={}
  }
  %4 = Join fork=%2 mode="gather"
  %5 = Variable name="a" of=%4
  %6 = Expr fn="text" args=(%5,) append=True
  %7 = Gen name="b" ordinal=0
  %8 = Return value=None vars={}
}
"""


def test_branches_that_a_loop_walks() -> None:
    outer, body = hints(LOOP), body_hints(LOOP)
    assert outer.streams[ROOT_STREAM][:2] == (1, 1)  # the loop is open until its length is known
    assert tuple(outer.forks[2]) == (0, 1, 1)
    assert body.captured == {"f": (1, 0)}
    assert tuple(body.calls[4]) == (0, None, (0,))
    assert body.streams[2].prefix == (Piece("text", "Head. "), Piece("text", "Item: "))


def test_branches_with_calls_elsewhere_are_not_known() -> None:
    gen = '  %3 = GetForkItem fork=%2 index=0\n  %4 = Gen in %3 name="z" ordinal=1\n'
    head, loop = LOOP.split("  %3 = Loop")
    loop, rest = loop.split("  %4 = Join")
    assert rest
    used = f"{head}{gen}  %5 = Loop{loop}  %6 = Return value=None vars={{}}\n}}\n"
    assert body_hints(used).calls[4].readers is None


def test_a_loop_in_its_stream_reads_its_own_calls() -> None:
    body = body_hints("""
program main
graph main() {
  %0 = Loop over=(("x", "y"),) item_params=("k",) index_param="i" captures={} body b(i, k) {
    %0 = Argument name="k" append=True
    %1 = Argument name="i"
    %2 = Gen name="a" ordinal=%1 max_tokens=9
    %3 = Return value=None vars={}
  }
  %1 = Return value=None vars={}
}
""")
    assert tuple(body.calls[2]) == (None, 0, ())
    assert body.streams[ROOT_STREAM].calls == 1


def test_the_report() -> None:
    assert (
        report(parse_program(FORK), SamplingParams(max_tokens=50))
        == """\
main begins with 'Head. Of ' (9); it generates 0 to 52 tokens
  node      variable    tokens   read again by  next use  constant beginning
  f0        2 branches  0 to 45  4                        9 characters
  f0[0]/g0  a           0 to 10  nobody                   9 characters
  f0[1]/g0  a           0 to 30  1              at once   9 characters
  f0[1]/g1  b           0 to 5   nobody                   9 characters
  g0        c           0 to 7   nobody                   9 characters
"""
    )
    assert (
        report(parse_program(LOOP), SamplingParams(max_tokens=50))
        == """\
main begins with 'Head. ' (6); it generates 0 to 50 tokens, and what the run decides
  node      variable  tokens     read again by         next use  constant beginning
  f0        branches  0 or more  what the run decides            6 characters
  f0[*]/g0  a         0 to 9     nobody                          12 characters
  g0        b         0 to 50    nobody                          6 characters
"""
    )


def test_the_report_says_what_is_generated_for_certain() -> None:
    text = FORK.replace("max_tokens=30", "max_tokens=30 min_tokens=4 n=2")
    lines = report(parse_program(text), SamplingParams(max_tokens=50)).splitlines()
    assert lines[0].endswith("it generates 8 to 82 tokens")
    assert lines[2].split()[:6] == ["f0", "2", "branches", "8", "to", "75"]
