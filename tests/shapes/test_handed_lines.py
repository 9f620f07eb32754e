"""Every line of the two handed lists of shapes has programs here, which equal the interpreter.

The lists lie in `cases/` of the folder that SGC_SHARED names (default: `shared` beside the
repository); without them only the programs are checked.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from shapes import calls, failures, gallery, streams, texts  # noqa: F401 (the catalogue)
from shapes.catalog import SHAPES
from support.handed_control_flow import ALLOWED_TO_BE_REFUSED, LINES
from support.handed_shapes import OWN
from support.paths import Script, assert_equal_on_paths, outcome

import sgc
from sgc.compile import CompiledProgram
from sgc_ir.ops import Op
from sgc_ir.passes.manager import defaults, run_passes

SHARED = Path(os.environ.get("SGC_SHARED", Path(__file__).resolve().parents[3] / "shared"))
CONTROL = [pair for pairs in LINES.values() for pair in pairs]
COMPILED = [pair for pair in CONTROL if pair[0].name not in ALLOWED_TO_BE_REFUSED]
# line of the list of program shapes -> what shows it in the catalogue of this room
SHAPE_LINES: dict[int, str] = {
    1: "constants_argument_gen two_gens_in_a_row every_parameter",
    2: "fstring_argument fstring_variable_and_nested_spec fstring_specs",
    3: "plus_concat judge str_format",
    4: "text_methods",
    5: "arithmetic parameters_from_arguments",
    6: "same_text_twice_and_blanks unicode_text",
    7: "control_look_alikes",
    8: "parameters_from_arguments",
    9: "defaults arguments_named_like_options",
    10: "values_in_text",
    11: "variable_written_twice",
    12: "unnamed_gens",
    13: "gen_before_any_text no_text_at_all no_model_call",
    14: "fork_and_read",
    15: "fork_before_text fork_inside_a_fork fork_of_one fork_of_none",
    16: "group_append",
    17: "gather_two_variables join_append branch_that_nobody_reads",
    18: "fork_with_argument_width fork_each_list_argument",
    19: "parent_goes_on_while_children_run",
    20: "copy_as_context",
    21: "variables_across_a_fork",
    22: "var_scope",
    23: "two_forks_interleaved",
    24: "roles",
    25: "roles_in_odd_order",
    26: "fork_inside_a_role fork_between_roles raw_text_in_a_chat",
    27: "control_look_alikes",
    28: "messages_after_a_join",
    29: "sub_variable_text_and_value sub_called_twice sub_called_in_a_loop",
    30: "same_names_in_caller_and_callee",
    31: "call_continues_the_stream recursion_of_static_depth",
    32: "unused_sub_still_runs",
    33: "returns_string returns_nested returns_none _three list_of_branch_values",
    34: "bound_arguments",
    35: "two_runs_at_once",
    36: "select_many_choices equal_choices",
    37: "select_at_a_seam",
    38: "constraints json_schema_value",
    39: "three_samples",
    40: "stops",
    41: "a_gen_raises_in_one_branch",
    42: "unset_variable read_before_its_gen wrong_arguments",
    43: "if_on_an_argument if_on_a_variable while_on_a_variable range_of_a_variable",
    44: "foreign_function foreign_json int_with_a_base dictionary_of_a_symbol",
    45: "baked_in",
    46: "odd_functions",
}


def numbers(name: str) -> list[int]:
    path = SHARED / "cases" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return [int(n) for n in re.findall(r"^(\d+)\. ", path.read_text(), re.MULTILINE)]


def test_every_line_has_a_program() -> None:
    shown = {shape.name for shape in SHAPES} | set(OWN)
    assert {name for names in SHAPE_LINES.values() for name in names.split()} <= shown
    assert sorted(LINES) == numbers("control_flow.md")
    assert sorted(SHAPE_LINES) == numbers("program_shapes.md")


def name_of(value: Any) -> str:
    return getattr(value, "name", "")


@pytest.mark.parametrize(("program", "rows"), COMPILED, ids=name_of)
def test_control_flow_is_equal(program: sgc.Program, rows: tuple[dict[str, Any], ...]) -> None:
    assert_equal_on_paths(program, *rows, scripts=5)
    assert_equal_on_paths(program, rows[0], scripts=3, failing=5)


@pytest.mark.parametrize(("program", "rows"), COMPILED, ids=name_of)
def test_opt_in_passes_keep_the_results(
    program: sgc.Program, rows: tuple[dict[str, Any], ...]
) -> None:
    """Under --merge and --outputs: equal variables, return, text and messages."""
    compiled = program.compile()
    for names in (*defaults(), "merge"), ("dead",):
        graph, _ = run_passes(compiled.graph, names, check=True)
        changed = CompiledProgram(graph, compiled._tools.values())
        for number in range(2):
            live = outcome(program, dict(rows[0]), "interpreted", Script(number))
            other = outcome(changed, dict(rows[0]), "compiled", Script(number))
            assert {**other, "calls": None} == {**live, "calls": None}, names


@pytest.mark.parametrize("name", ALLOWED_TO_BE_REFUSED)
def test_what_may_be_refused_is_refused_by_name(name: str) -> None:
    [program] = [program for program, _ in CONTROL if program.name == name]
    with pytest.raises(sgc.CompileError, match=ALLOWED_TO_BE_REFUSED[name]) as caught:
        program.compile()
    assert caught.value.line is not None


def test_a_known_argument_leaves_no_branch() -> None:
    [(program, _)] = LINES[24]
    graph = program.bind(style="short").compile().graph
    assert not any(node.op is Op.BRANCH for node in graph.walk())


def test_the_impossible_choice_is_pruned_and_ten_ifs_are_linear() -> None:
    [(chosen, _)], [(ifs, _)] = LINES[2], LINES[3]
    gens = [n for n in chosen.compile().graph.walk() if n.op is Op.GEN]
    assert len(gens) == 4
    assert sum(n.op is Op.GEN for n in ifs.compile().graph.walk()) == 40


@pytest.mark.parametrize("name", OWN)
def test_lines_of_shapes_that_the_catalogue_lacks(name: str) -> None:
    OWN[name]()
