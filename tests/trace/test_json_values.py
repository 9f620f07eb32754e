"""Values of `json_schema` in compiled programs: parsed objects whose types the schema tells."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgc
from sgc.testing import ScriptedBackend
from sgc.trace.form import BOOL, NUM, STR, UNKNOWN, Form
from sgc.trace.schema_form import form_of_schema, values_of_schema
from sgc_ir.ops import Op


class Person(pydantic.BaseModel):
    name: str
    age: int
    tags: list[str]
    nick: str = ""


@dataclasses.dataclass
class Point:
    x: int
    y: float


@sgc.function
def about(s, q: str):
    s += q + sgc.gen("p", json_schema=Person, max_tokens=64)
    s += f" {s['p']['name']} is {s['p']['age']:02d}, soon {s['p']['age'] + 1}"
    s += " old" if s["p"]["age"] > 30 and "b" in s["p"]["tags"] else " young"
    s += "".join(f" <{tag.upper()}>" for tag in s["p"]["tags"])
    s += sgc.gen("at", json_schema=Point, json_style="compact")
    s += sgc.gen("list", json_schema={"type": "array", "items": {"type": "string"}})
    branches = s.fork_each(s["list"])
    for branch in branches:
        branch += f"about {branch.item}" + sgc.gen("r", stop=".")
    s += "|".join(branch["r"] for branch in branches)
    return {"sum": s["at"]["x"] + s["at"]["y"], "p": s["p"], "nick": s["p"].get("nick", "none")}


def reply(prompt: str, params: sgc.SamplingParams) -> str:
    names = (params.json_schema or {}).get("properties", {})
    if "name" in names:
        age = 31 if "old" in prompt else 5
        return json.dumps({"name": "Ann", "age": age, "tags": ["a", "b"]})
    if "x" in names:
        return '{"x":1,"y":2.5}'
    return '["u", "v"]' if params.json_schema else f"r{len(prompt)}. x\n"


@pytest.mark.parametrize("q", ["old", "young"])
def test_fields_are_used_alike_in_both_modes_and_from_an_artefact(q: str, tmp_path: Path) -> None:
    about.compile().save(tmp_path / "about.sgc")
    states = [
        about.run(q=q, backend=ScriptedBackend(reply), mode="compiled"),
        about.run(q=q, backend=ScriptedBackend(reply), mode="interpreted"),
        sgc.load(tmp_path / "about.sgc").run(q=q, backend=ScriptedBackend(reply)),
    ]
    assert len({state.text() for state in states}) == 1
    for state in states:
        assert state.value["p"] == {
            "name": "Ann",
            "age": 31 if q == "old" else 5,
            "tags": ["a", "b"],
        }
        assert (state.value["sum"], state.value["nick"]) == (3.5, "none")
    assert f" {q} <A> <B>" in states[0].text()


def test_the_graph_holds_plain_json() -> None:
    gens = [n.attrs for n in about.compile().graph.graph.nodes if "json_schema" in n.attrs]
    expected = [
        {**pydantic.TypeAdapter(source).json_schema(), "additionalProperties": False}
        for source in (Person, Point)
    ]
    assert [attrs["json_schema"] for attrs in gens[:2]] == expected
    assert [type(attrs["json_schema"]) for attrs in gens] == [dict] * 3
    assert gens[1]["json_style"] == "compact"


def test_a_style_without_a_schema_is_refused() -> None:
    @sgc.function
    def alone(s):
        s += sgc.gen("x", json_style="compact")

    with pytest.raises(sgc.CompileError, match="gen: json_style goes with json_schema; drop it"):
        alone.compile()


def test_a_style_goes_with_a_schema_that_only_the_run_knows() -> None:
    @sgc.function
    def styled(s, schema):
        s += sgc.gen("x", json_schema=schema, json_style="compact")

    backend = ScriptedBackend(lambda prompt, params: "[1]")
    assert styled.run(schema=True, backend=backend, mode="interpreted")["x"] == [1]
    with pytest.raises(sgc.SgcError, match="json_style goes with json_schema"):
        styled.run(schema=None, backend=backend, mode="interpreted")


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string"}, STR),
        ({"type": "integer"}, NUM),
        ({"type": ["string", "null"]}, UNKNOWN),
        ({"enum": ["a", "b"]}, STR),
        ({"enum": ["a", 1]}, UNKNOWN),
        ({"const": True}, BOOL),
        (True, UNKNOWN),
        ({"anyOf": [{"type": "string"}]}, UNKNOWN),
        ({"type": "array", "items": {"type": "boolean"}}, Form("list", BOOL)),
        ({"type": "array", "prefixItems": [{"type": "boolean"}]}, Form("list")),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            Form("dict", fields=(("a", STR),)),
        ),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "number"}}}, NUM),
        ({"$ref": "#/$defs/x"}, UNKNOWN),
    ],
)
def test_forms(schema: Any, form: Form) -> None:
    assert form_of_schema(schema) == form


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["x", "y"]}, ("x", "y")),
        ({"const": "x", "type": "string"}, ("x",)),
        ({"type": "boolean"}, (False, True)),
        ({"enum": [True]}, (True,)),
        ({"enum": [1, 2]}, None),  # 1.0 is valid as well
        ({"type": ["boolean", "null"]}, None),
        ({"enum": []}, None),
        ("{}", None),
    ],
)
def test_values_that_a_schema_lists(schema: Any, values: Any) -> None:
    assert values_of_schema(schema) == values


@sgc.function
def mood(s):  # type: ignore[no-untyped-def]
    s += "mood: " + sgc.gen("mood", json_schema={"enum": ["good", "bad"]})
    if s["mood"] == "good":
        return 1
    if s["mood"] == "bad":
        return 2
    s += sgc.gen("never")
    return 3


@pytest.mark.parametrize(("said", "value"), [('"good"', 1), ('"bad"', 2), ('"other"', None)])
def test_what_a_schema_leaves_out_is_no_path(said: str, value: int | None) -> None:
    backend = ScriptedBackend(lambda prompt, params: said)
    for mode in ("interpreted", "compiled"):
        (state,) = mood.run_batch([{}], backend=backend, mode=mode)
        assert (state.error() is None, state.value) == (value is not None, value)
    assert [n.op for n in mood.compile().graph.graph.nodes].count(Op.GEN) == 1


def test_recursive_schemas_end() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert form_of_schema(tree).kind == "dict"
    assert form_of_schema({"$ref": "#"}) == UNKNOWN


_types = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
_schemas = st.recursive(
    st.builds(lambda kind: {"type": kind}, _types) | st.just({"enum": ["x", "y"]}),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(
            lambda p: {"type": "object", "properties": p, "required": sorted(p)},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
    ),
    max_leaves=6,
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.0) | st.sampled_from(["x", "y"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(_schemas, _values)
def test_valid_values_have_the_form(schema: Any, value: Any) -> None:
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert _has(value, form_of_schema(schema))


def _has(value: Any, form: Form) -> bool:
    kinds = {"str": str, "num": (int, float), "bool": bool, "none": type(None), "dict": dict}
    if form.kind == "list":
        return isinstance(value, list) and all(_has(v, form.item or UNKNOWN) for v in value)
    if form.kind and not isinstance(value, kinds[form.kind]):  # type: ignore[arg-type]
        return False
    return all(name in value and _has(value[name], inner) for name, inner in form.fields)


@sgc.function
def asked(s, schema: dict, item: dict):
    s += sgc.gen("a", json_schema=schema)
    s += sgc.gen("b", json_schema={"type": "array", "items": item}, json_style="compact")
    return s["a"], s["b"]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_schemas_may_be_known_to_the_run_only(mode: str) -> None:
    seen: list[Any] = []

    def reply_to(prompt: str, params: sgc.SamplingParams) -> str:
        seen.append(params.json_schema)
        return "[7]" if params.json_style else '{"n": 1}'

    schema, item = {"properties": {"n": {"type": "integer"}}}, {"type": "integer"}
    backend = ScriptedBackend(reply_to)
    state = asked.run(schema=schema, item=item, backend=backend, mode=mode)
    assert state.value == ({"n": 1}, [7])
    assert seen == [schema, {"type": "array", "items": item}]
    with pytest.raises(sgc.GenerationError, match="#/items/type: a type is one of"):
        asked.run(schema=schema, item={"type": "whole"}, backend=backend, mode=mode)
