"""Conversations rendered turn by turn against the template's rendering of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime.executor.test_prompt import (
    CHATML,
    CHATML_DEFAULT_SYSTEM,
    LAST_TURN_THINKS,
    LLAMA3,
    MISTRAL,
    STRICT,
)

from sgc_runtime.backends.scripted_template import template_of
from sgc_runtime.executor.backend import ChatTemplate, Message
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.executor.prompt import Begin, End, Prompt, PromptError
from sgc_runtime.executor.rendering import Splice

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}"
    "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant/user/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
NUMBERED = (
    "{% for m in messages %}{% if loop.index == 3 %}third {% elif loop.index0 % 3 == 1 %}one "
    "{% endif %}{{ m['role'] }}: {{ m['content'] }} (of {{ messages[0]['role'] }})\n{% endfor %}"
)
SPLICED = {
    "chatml": (CHATML, Splice(1, 1)),
    "default system": (CHATML_DEFAULT_SYSTEM, Splice(1, 1)),
    "llama2": (LLAMA2, Splice(3, 2)),
    "llama3": (LLAMA3, Splice(1, 1)),
    "mistral": (MISTRAL, Splice(2, 1)),
    "gemma": (GEMMA, Splice(1, 2)),
    "strict": (STRICT, Splice(1, 2)),
    "numbered": (NUMBERED, Splice(5, 3)),
}
LOOP = "{% for m in messages %}"
WHOLE = {
    "last turn thinks": LAST_TURN_THINKS,
    "length": LOOP + "{{ loop.length }}{{ m['content'] }}{% endfor %}",
    "last role": LOOP + "{{ messages[-1]['role'] }}{{ m['content'] }}{% endfor %}",
    "neighbour": LOOP + "{{ messages[loop.index0 - 1]['role'] }}{{ m['content'] }}{% endfor %}",
    "previous": LOOP + "{{ loop.previtem['role'] }}{{ m['content'] }}{% endfor %}",
    "index": LOOP + "{{ loop.index }}. {{ m['content'] }}{% endfor %}",
    "loop handed on": LOOP + "{% set l = loop %}{{ l.last }}{{ m['content'] }}{% endfor %}",
    "state": "{% set ns = namespace(n=0) %}"
    + LOOP
    + "{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ m['content'] }}{% endfor %}",
    "count": "{{ messages | length }}" + LOOP + "{{ m['content'] }}{% endfor %}",
    "time": "{{ strftime_now('%d') }}" + LOOP + "{{ m['content'] }}{% endfor %}",
    "chance": LOOP + "{{ ['a', 'b'] | random }}{{ m['content'] }}{% endfor %}",
    "macro": "{% macro f(m) %}{{ m['content'] }}{% endmacro %}" + LOOP + "{{ f(m) }}{% endfor %}",
    "two loops": LOOP + "{{ m['role'] }}{% endfor %}" + LOOP + "{{ m['content'] }}{% endfor %}",
    "text behind": LOOP + "{{ m['content'] }}{% endfor %}the end",
    "choice of messages": "{% for m in messages if m['role'] == 'user' %}"
    "{{ loop.index0 % 2 == 0 }}{{ m['content'] }}{% endfor %}",
    "prompt inside": LOOP + "{% if add_generation_prompt %}!{% endif %}{{ m['content'] }}"
    "{% endfor %}",
    "stops": LOOP + "{{ m['content'] }}{% if m['role'] == 'system' %}{% break %}{% endif %}"
    "{% endfor %}",
    "short list": "{% for m in messages[:-1] %}{{ m['content'] }}{% endfor %}",
    "loop in a condition": "{% if messages[0]['role'] == 'user' %}" + LOOP + "{{ m['content'] }}"
    "{% endfor %}{% endif %}",
}


class Whole:
    """A template that does not say what it can leave out."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self.control_tokens = template.control_tokens

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        return self._template.render(messages, add_generation_prompt)


class Counting(ChatML):
    """ChatML that counts the messages it is shown."""

    def __init__(self) -> None:
        self.num_shown = 0

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        self.num_shown += len(messages)
        return super().render(messages, add_generation_prompt)


@pytest.mark.parametrize("name", SPLICED)
def test_what_a_template_need_not_see_is_found_out(name: str) -> None:
    source, splice = SPLICED[name]
    assert template_of(source).splice == splice  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WHOLE)
def test_templates_that_look_further_are_shown_everything(name: str) -> None:
    assert template_of(WHOLE[name]).splice is None  # type: ignore[attr-defined]


_TEXTS = st.sampled_from(["hi", " a b ", "", "<|im_end|>", "x\n", "<s>", "[INST]"])
_ROLES = st.sampled_from(["user", "assistant", "system"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), _ROLES, _TEXTS),
        st.tuples(st.just("gen"), _TEXTS, _TEXTS),
        st.tuples(st.just("raw"), _TEXTS),
        st.tuples(st.just("copy")),
        st.tuples(st.just("chat"), _TEXTS, st.sampled_from(["ok", "fine."])),
    ),
    max_size=14,
)


def play(steps: list[Any], template: ChatTemplate) -> list[Any]:
    """All that a backend would be given, and every refusal, step by step."""
    prompt = Prompt()
    seen: list[Any] = []
    for i, step in enumerate(steps):
        try:
            prompt = _do(prompt, step, template, f"g{i}")
            seen.append((list(prompt.unsent), prompt.text(template)))
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
            if not isinstance(error, PromptError):
                break
    return seen


def _do(prompt: Prompt, step: Any, template: ChatTemplate, node: str) -> Prompt:
    kind, *rest = step
    if kind == "copy":
        return prompt.copy()
    if kind == "raw":
        prompt.add_text(rest[0])
        return prompt
    if kind == "chat":
        _say(prompt, "user", rest[0])
        _generate(prompt, "", rest[1], template, node)
    elif kind == "gen":
        _generate(prompt, rest[0], rest[1], template, node)
    else:
        _say(prompt, *rest)
    return prompt


def _say(prompt: Prompt, role: str, text: str) -> None:
    prompt.add(Begin(role))
    prompt.add_text(text)
    prompt.add(End())


def _generate(prompt: Prompt, before: str, text: str, template: ChatTemplate, node: str) -> None:
    prompt.add(Begin("assistant"))
    prompt.add_text(before)
    try:
        prompt.flush(template)
        prompt.add_generated(text, node, template)
    finally:
        prompt.add(End())
    prompt.check_closed(template)


@pytest.mark.parametrize("name", SPLICED)
@settings(max_examples=40, deadline=None)
@given(steps=_STEPS)
def test_prompts_are_what_the_whole_rendering_makes_them(name: str, steps: list[Any]) -> None:
    template = template_of(SPLICED[name][0])
    assert play(steps, template) == play(steps, Whole(template))


@pytest.mark.parametrize("name", SPLICED)
def test_long_chats_are_what_the_whole_rendering_makes_them(name: str) -> None:
    template = template_of(SPLICED[name][0])
    steps = [("chat", f"question {i}", f"answer {i}.") for i in range(40)]
    seen = play(steps, template)
    assert seen == play(steps, Whole(template))
    assert len(seen) == 40


def test_a_long_chat_shows_the_template_few_messages_a_turn() -> None:
    template = Counting()
    num_turns = 500
    prompt = Prompt()
    for i in range(num_turns):
        _do(prompt, ("chat", f"q{i}", f"a{i}"), template, f"g{i}")
    assert template.num_shown < 20 * num_turns
