"""DSPy programs on an sgc backend: what they ask, what comes back, what is refused."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from support.suite_runs import builtin_rows

from sgc.testing import ScriptedBackend
from sgc_ir.errors import InputError
from sgc_ir.params import SamplingParams

pytest.importorskip("dspy", reason="DSPy is not installed (pip install 'sgc[dspy]')")

import dspy

from sgc.integrations.dspy import SgcLM, schema_of


class Judge(dspy.Signature):  # type: ignore[misc]
    """Judge a sentence."""

    sentence: str = dspy.InputField()
    mood: Literal["glad", "sad"] = dspy.OutputField()
    words: int = dspy.OutputField()


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BaseLM's forward, until DSPy 3.5
        yield


def scripted(text: str) -> ScriptedBackend:
    return ScriptedBackend(lambda prompt, params: text)


def test_a_call_is_one_chat_turn_of_the_backend() -> None:
    backend = scripted(" Hello there")
    lm = SgcLM(backend, max_tokens=7)
    answer = lm(
        messages=[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    )
    assert answer == [" Hello there"]
    (call,) = backend.calls
    assert "Be kind." in call["prompt"]
    assert call["prompt"].endswith("<|im_start|>assistant\n")
    assert (call["params"]["max_tokens"], call["params"]["temperature"]) == (7, 0.0)
    assert lm.history[-1]["usage"]["completion_tokens"] == 2


def test_fields_of_a_signature_bind_the_reply() -> None:
    def reply(prompt: str, params: SamplingParams) -> str:
        assert params.json_schema is not None
        return '{"mood": "glad", "words": 3}'

    backend = ScriptedBackend(reply)
    with dspy.context(lm=SgcLM(backend), adapter=dspy.JSONAdapter()):
        result = dspy.Predict(Judge)(sentence="All is well")
    assert (result.mood, result.words) == ("glad", 3)
    schema = backend.calls[0]["params"]["json_schema"]
    assert schema["properties"]["mood"]["enum"] == ["glad", "sad"]
    assert schema["properties"]["words"]["type"] == "integer"


def test_a_reply_that_breaks_the_fields_is_an_error_and_not_mended() -> None:
    with (
        dspy.context(lm=SgcLM(scripted('{"mood": "angry"}')), adapter=dspy.JSONAdapter()),
        pytest.raises(Exception, match="angry"),
    ):
        dspy.Predict(Judge)(sentence="All is well")


def test_several_samples_and_calls_of_several_threads() -> None:
    backend = ScriptedBackend(lambda prompt, params: f" {len(prompt) % 7}")
    lm = SgcLM(backend)
    assert lm("Say a number", n=3, temperature=1.0) == [lm("Say a number")[0]] * 3
    program = dspy.Predict("question -> answer")
    asked = [dspy.Example(question="q" * n).with_inputs("question") for n in range(1, 9)]
    fields = ScriptedBackend(
        lambda prompt, params: f"[[ ## answer ## ]]\n{prompt.count('q')}\n[[ ## completed ## ]]"
    )
    with dspy.context(lm=SgcLM(fields)):
        pairs = [(program, example) for example in asked]
        results = dspy.Parallel(num_threads=4, disable_progress_bar=True)(pairs)
    counts = [int(result.answer) for result in results]
    assert [count - counts[0] for count in counts] == list(range(8))


def test_a_call_can_be_awaited_and_a_copy_keeps_the_backend() -> None:
    backend = scripted(" yes")
    lm = SgcLM(backend).copy(temperature=0.5)
    assert asyncio.run(lm.acall("Is it?")) == [" yes"]
    assert backend.calls[0]["params"]["temperature"] == 0.5


def test_another_rollout_has_another_seed() -> None:
    lm = SgcLM(scripted("a"), temperature=1.0)
    _, first = lm._call("Hi", None, {"rollout_id": 1})
    _, second = lm._call("Hi", None, {"rollout_id": 2})
    assert first["seed"] != second["seed"]


def test_what_it_cannot_do_is_refused() -> None:
    lm = SgcLM(scripted("a"))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"prompt": "Hi", "tools": [1]}, "has no tools"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "of tool"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text only"),
    ]
    for call, message in refused:
        with pytest.raises(InputError, match=message):
            lm.forward(**call)
    with pytest.raises(InputError, match="pydantic model"):
        schema_of("xml")


def test_forms_of_schemas() -> None:
    assert schema_of({"type": "json_object"}) == {"type": "object"}
    schema = {"type": "object", "properties": {}}
    assert (
        schema_of({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}) == schema
    )


def test_a_dspy_program_answers_the_rag_suite() -> None:
    pytest.importorskip("bm25s", reason="bm25s is not installed (pip install 'sgc[eval]')")
    from benchmarks.dspy_rag import answers, figures

    rows = builtin_rows("rag", limit=4)
    right = {row.arguments["question"]: row.expected["answers"][0] for row in rows[1:]}

    def reply(prompt: str, params: SamplingParams) -> str:
        assert params.json_schema is not None
        answer = next((a for q, a in right.items() if q in prompt), None)
        return json.dumps({"reasoning": "It says so.", "answer": answer})  # null breaks the schema

    backend = ScriptedBackend(reply)
    given = answers(rows, backend, threads=2)
    assert given == [None, *right.values()]
    assert figures(rows, given) == {"rows": 4, "failed": 1, "exact_match": 0.75, "f1": 0.75}
    shown = [row.arguments["passages"][0] for row in rows]
    assert all(any(text in call["prompt"] for call in backend.calls) for text in shown)
