"""Chat templates give the text and the ids of transformers' `apply_chat_template`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError, TemplateError
from support.tokenizer import KINDS, Pair, encode_prompt, plain_texts, tricky_texts

from sgc_ir.errors import ModelError
from sgc_runtime.executor.backend import Message, Text
from sgc_runtime.tokenizer.chat import JinjaChatTemplate

WITH_TEMPLATE = [kind.name for kind in KINDS if kind.template is not None]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def conversations(contents: Any) -> Any:
    roles = st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=5)
    with_system = st.tuples(st.booleans(), roles).map(lambda t: ["system"] * t[0] + t[1])
    return with_system.flatmap(
        lambda names: st.tuples(
            *[st.fixed_dictionaries({"role": st.just(n), "content": contents}) for n in names]
        ).map(list)
    )


def rendered_pieces(template: JinjaChatTemplate, messages: list[Message]) -> list[Text]:
    """The rendering, the contents in it as ordinary text."""
    marks = {f"\ue000{i}\ue001": str(m["content"]) for i, m in enumerate(messages)}
    marked = [{**m, "content": mark} for m, mark in zip(messages, marks)]
    rendered = template.render(marked, add_generation_prompt=True)
    parts = re.split("(\ue000[0-9]+\ue001)", rendered)
    return [Text(marks.get(part, part), control=part not in marks) for part in parts]


@pytest.mark.parametrize("name", WITH_TEMPLATE)
@QUICK
@given(messages=conversations(tricky_texts()), prompt=st.booleans())
def test_rendering_equals_transformers(
    pairs: dict[str, Pair], name: str, messages: list[Message], prompt: bool
) -> None:
    pair = pairs[name]
    try:
        expected = pair.theirs.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=prompt
        )
    except TemplateError as error:
        with pytest.raises(type(error), match=str(error)):
            pair.ours.chat_template.render(messages, prompt)
        return
    assert pair.ours.chat_template.render(messages, prompt) == expected


@pytest.mark.parametrize("name", WITH_TEMPLATE)
@QUICK
@given(messages=conversations(plain_texts().map(str.strip)))
def test_prompt_ids_equal_transformers(
    pairs: dict[str, Pair], name: str, messages: list[Message]
) -> None:
    pair = pairs[name]
    if name == "gemma":
        messages = [m for m in messages if m["role"] != "system"]
    expected = pair.theirs.apply_chat_template(
        messages, tokenize=True, add_generation_prompt=True, return_dict=False
    )
    assert encode_prompt(pair.ours, rendered_pieces(pair.ours.chat_template, messages)) == expected


@pytest.mark.parametrize("name", WITH_TEMPLATE)
@QUICK
@given(content=tricky_texts().map(str.strip))
def test_look_alikes_in_contents_leave_the_turns_as_they_are(
    pairs: dict[str, Pair], name: str, content: str
) -> None:
    ours = pairs[name].ours
    ids, plain = (
        encode_prompt(ours, rendered_pieces(ours.chat_template, [{"role": "user", "content": c}]))
        for c in (content, "x")
    )
    controls = [[i for i in seen if i in ours.control_ids] for seen in (ids, plain)]
    if "\ufffd" not in content:
        assert controls[0] == controls[1]


def test_a_model_without_template_says_so(pairs: dict[str, Pair]) -> None:
    with pytest.raises(ModelError, match="has no chat template: "):
        pairs["gpt2"].ours.chat_template.render([{"role": "user", "content": "x"}])


def test_control_tokens_are_known_to_the_executor(pairs: dict[str, Pair]) -> None:
    assert {*pairs["qwen2"].ours.chat_template.control_tokens} == {
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    }


def render(source: str, **message: Any) -> str:
    variables = {"bos_token": "<s>"}
    return JinjaChatTemplate(source, variables).render([{"role": "user", **message}])


def test_the_environment_is_transformers() -> None:
    assert render("{{ bos_token }}{{ eos_token }}", content="") == "<s>"
    assert render("{% if tools %}x{% else %}{{ tools is none }}{% endif %}", content="") == "True"
    assert render("{{ messages | tojson }}", content="<é>") == (
        '[{"role": "user", "content": "<é>"}]'
    )
    assert render("{{ strftime_now('%Y') | length }}", content="") == "4"
    assert render("  {% for m in messages %}\n{% break %}{% endfor %}\nx", content="") == "x"
    assert render("{{ 'name' in messages[0] }}", content="", name=None) == "False"
    assert render("{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x }}", content="") == "a"
    assert render("{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}", content="") == "2"


def test_templates_run_in_a_sandbox() -> None:
    for source in (
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{{ namespace(_a=1) }}",
    ):
        with pytest.raises(SecurityError):
            render(source, content="")


def test_what_a_template_raises_passes_through() -> None:
    with pytest.raises(TemplateError, match="no such role"):
        render("{{ raise_exception('no such role') }}", content="")


def test_a_template_that_is_no_jinja_is_refused_with_its_line() -> None:
    with pytest.raises(ModelError, match="line 2"):
        render("a\n{% for %}", content="")


def test_no_messages_are_no_text() -> None:
    assert JinjaChatTemplate("{{ messages[0].content }}", {}).render([]) == ""
