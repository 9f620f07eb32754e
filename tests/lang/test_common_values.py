"""Values that all rows of a batch have in common, and programs for such rows."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import echo

import sgc
from sgc.common_values import common_values, is_same
from sgc.testing import ScriptedBackend
from sgc_ir.ops import Op


@pytest.mark.parametrize(
    ("rows", "common"),
    [
        ([], {}),
        ([{"a": 1}], {}),
        ([{"a": 1, "b": 2}, {"a": 1, "b": 3}], {"a": 1}),
        ([{"a": 1}, None, {"a": 1}], {"a": 1}),
        ([{"a": 1}, {"a": True}], {}),
        ([{"a": 0.0}, {"a": -0.0}], {}),
        ([{"a": float("nan")}, {"a": float("nan")}], {"a": float("nan")}),
        ([{"a": [1, "x"]}, {"a": [1, "x"]}], {"a": [1, "x"]}),
        ([{"a": (1,)}, {"a": [1]}], {}),
        ([{"a": {"k": 1, "l": 2}}, {"a": {"l": 2, "k": 1}}], {}),  # it prints otherwise
    ],
)
def test_common_values(rows: list[Any], common: dict[str, Any]) -> None:
    found = common_values(rows)
    assert found.keys() == common.keys()
    assert all(is_same(found[name], value) for name, value in common.items())


def test_reading_stops_where_nothing_is_in_common() -> None:
    def rows() -> Any:
        yield {"a": 1}
        yield {"a": 2}
        raise AssertionError("read on")

    assert common_values(rows()) == {}


@sgc.function
def answer(s, document: str, question: str, style: str = "short", hints: list[str] = ("x",)):
    s += f"Document: {document}\n" + "".join(f"Hint {h} of {document}\n" for h in hints)
    s += f"Be {style.upper()}.\nQuestion: {question}\n" + sgc.gen("a", max_tokens=4)
    return [style, s["a"], len(hints)]


ROWS = [{"document": "D", "question": q, "hints": ["p", "q"]} for q in ("1", "2", "3")]


def test_common_arguments_are_constants_of_the_graph() -> None:
    program = answer.compile()
    found = program.for_rows({"document": "D", "style": "short", "hints": ["p", "q"]})
    texts = [n.attrs["text"] for n in found.graph.walk() if n.op is Op.CONSTANT_TEXT]
    args = [n for n in found.graph.walk() if n.op is Op.EXPR for n in n.attrs["args"]]
    assert "D" in "".join([*texts, *(a for a in args if isinstance(a, str))])
    names = {n.attrs["name"] for n in found.graph.graph.nodes if n.op is Op.ARGUMENT}
    assert names <= {"question", "hints"}
    assert found.parameter_names == program.parameter_names


def outcomes(program: Any, rows: list[Any], **options: Any) -> list[Any]:
    backend = ScriptedBackend(echo)
    states = program.run_batch(rows, backend=backend, **options)
    calls = sorted((c["node"], c["prompt"]) for c in backend.calls)
    return [(type(s.error()), s.error() or (s.value, s.text(), s.vars)) for s in states] + calls


def test_batches_give_what_their_rows_give_one_by_one() -> None:
    wrong = [*ROWS[:2], {"document": 7, "question": "q"}, ValueError("unreadable"), ("D", "4")]
    for rows in (ROWS, wrong, ROWS[:1]):
        found = outcomes(answer, rows)
        assert list(map(repr, found)) == list(map(repr, outcomes(answer, rows, mode="interpreted")))


def test_a_value_that_fails_fails_every_row_and_not_the_batch() -> None:
    @sgc.function
    def number(s, n: str, q: str, width: int):
        s.fork(width)
        s += q + sgc.gen("a", max_tokens=int(n))

    for n, width in (("x", 1), ("-3", 1), ("1", 0)):
        rows = [{"n": n, "q": q, "width": width} for q in "ab"]
        found, oracle = (outcomes(number, rows, mode=m)[:2] for m in ("compiled", "interpreted"))
        assert [kind is not type(None) for kind, _ in found] == [True, True]
        assert list(map(repr, found)) == list(map(repr, oracle))
