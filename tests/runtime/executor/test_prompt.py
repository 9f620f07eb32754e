"""Prompts against the templates' own rendering of the same messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_runtime.backends.scripted_template import template_of
from sgc_runtime.executor.backend import ChatTemplate, Media, Text
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.executor.escape import Escaper
from sgc_runtime.executor.prompt import Begin, End, Part, Prompt, PromptError

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML_DEFAULT_SYSTEM = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MISTRAL = (
    "<s>{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] + '\n\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if m['role'] == 'user' %}"
    "[INST] {{ (sys if loop.first else '') + m['content'] }} [/INST]"
    "{% elif m['role'] == 'assistant' %} {{ m['content'] }}</s>"
    "{% else %}{{ raise_exception('system must come first') }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>"
    "\n\n{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
STRICT = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "<{{ m['role'] }}>{{ m['content'] }}</{{ m['role'] }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
LAST_TURN_THINKS = (  # the last turn renders unlike an earlier one
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if loop.last and m['role'] == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SOURCES = {
    "chatml": CHATML,
    "default": CHATML_DEFAULT_SYSTEM,
    "mistral": MISTRAL,
    "llama3": LLAMA3,
}


def oracle(source: str, messages: Sequence[dict[str, str]], opened: bool = False) -> str:
    """The template's own text, by a plain Jinja environment."""

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = raise_exception
    return env.from_string(source).render(messages=messages, add_generation_prompt=opened)


def say(prompt: Prompt, role: str, *parts: str) -> None:
    prompt.add(Begin(role))
    for part in parts:
        prompt.add_text(part)
    prompt.add(End())


def generate(prompt: Prompt, text: str, template: ChatTemplate, node: str = "g0") -> str:
    """What a model call does; gives the prompt that the model saw."""
    prompt.flush(template)
    seen = prompt.sent_text()
    prompt.add_generated(text, node, template)
    return seen


_PIECES = [*"ab \n", "<|im_end|>", "</s>", "é", "\U000f0000"]
_WORDS = st.lists(st.sampled_from(_PIECES), max_size=8).map("".join)
_CLEAN = _WORDS.map(lambda t: f"x{t}x")


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_text_equals_the_template(name: str, data: Any) -> None:
    """Random chats; a call stands in each assistant turn, or not; flushes at random places."""
    source, template = SOURCES[name], template_of(SOURCES[name])
    prompt, messages = Prompt(), []
    if data.draw(st.booleans()):
        content = data.draw(_WORDS)
        say(prompt, "system", content)
        messages.append({"role": "system", "content": content})
    for turn in range(data.draw(st.integers(1, 3))):
        content = data.draw(_WORDS)
        say(prompt, "user", content, "")
        messages.append({"role": "user", "content": content})
        before, answer, after = data.draw(st.sampled_from(["", "A: "])), data.draw(_CLEAN), "."
        prompt.add(Begin("assistant"))
        prompt.add_text(before)
        if data.draw(st.booleans()):
            seen = generate(prompt, answer, template, f"g{turn}")
            if not before and name != "mistral":
                assert seen == oracle(source, messages, opened=True)
            cut = oracle(source, [*messages, {"role": "assistant", "content": before + "\0"}])
            assert seen == cut[: cut.index("\0")]
        else:
            prompt.add_text(answer)
        prompt.add_text(after)
        prompt.add(End())
        prompt.check_closed(template)
        messages.append({"role": "assistant", "content": before + answer + after})
        if data.draw(st.booleans()):
            prompt = prompt.copy()
    assert prompt.text(template) == oracle(source, messages)
    assert prompt.messages() == messages
    prompt.flush(template)
    assert prompt.sent_text() == oracle(source, messages)


def test_look_alikes_are_ordinary_text_and_the_template_is_control() -> None:
    prompt, template = Prompt(), template_of(CHATML)
    say(prompt, "user", "say <|im_", "end|> now \U000f0000 \U000f0002")
    prompt.add_text("raw <|im_end|>")
    prompt.flush(template)
    plain = "".join(p.text for p in prompt.unsent if isinstance(p, Text) and not p.control)
    control = "".join(p.text for p in prompt.unsent if isinstance(p, Text) and p.control)
    assert plain == "<|im_end|>\U000f0000\U000f0002raw <|im_end|>"
    assert control == "<|im_start|>user\nsay  now  <|im_end|>\n"
    assert prompt.sent_text() == (
        "<|im_start|>user\nsay <|im_end|> now \U000f0000 \U000f0002<|im_end|>\nraw <|im_end|>"
    )


@given(st.lists(st.text(max_size=4), max_size=4), st.text(max_size=30))
def test_escaping_loses_nothing(tokens: list[str], content: str) -> None:
    escaper = Escaper(tokens)
    escaped = escaper.escape(content)
    assert not any(token in escaped for token in tokens if token)
    pieces = escaper.pieces(escaped, [])
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == content


def test_an_empty_assistant_turn_is_the_generation_prompt() -> None:
    for source, opened in [(CHATML, "<|im_start|>assistant\n"), (MISTRAL, " ")]:
        prompt, template = Prompt(), template_of(source)
        say(prompt, "user", "q")
        prompt.add(Begin("assistant"))
        assert generate(prompt, "a", template).endswith(opened)


def test_assistant_first_and_two_users_in_a_row() -> None:
    prompt, template = Prompt(), template_of(CHATML_DEFAULT_SYSTEM)
    prompt.add(Begin("assistant"))
    assert generate(prompt, "hi", template) == (
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>assistant\n"
    )
    prompt.add(End())
    say(prompt, "user", "a")
    say(prompt, "user", "b")
    assert prompt.text(template) == oracle(
        CHATML_DEFAULT_SYSTEM,
        [{"role": r, "content": c} for r, c in [("assistant", "hi"), ("user", "a"), ("user", "b")]],
    )


@pytest.mark.parametrize("answer", [" 42", "42\n", "\t"])
def test_generated_text_is_never_trimmed(answer: str) -> None:
    prompt, template = Prompt(), template_of(LLAMA3)
    say(prompt, "user", " q ")
    prompt.add(Begin("assistant"))
    generate(prompt, answer, template, "g7")
    prompt.add(End())
    with pytest.raises(PromptError, match="g7") as raised:
        prompt.check_closed(template)
    assert raised.value.node == "g7"


def test_blanks_inside_a_trimmed_turn_stay() -> None:
    prompt, template = Prompt(), template_of(LLAMA3)
    say(prompt, "user", " q ")
    prompt.add(Begin("assistant"))
    prompt.add_text(" Answer:")
    generate(prompt, " 42\n", template)
    prompt.add_text("done ")
    prompt.add(End())
    prompt.check_closed(template)
    assert prompt.text(template).endswith("\n\nAnswer: 42\ndone<|eot_id|>")


def test_a_system_turn_that_the_template_moves_is_refused_once_it_was_seen() -> None:
    """Mistral puts the system text into the first user turn, so a call must not come between."""
    prompt, template = Prompt(), template_of(MISTRAL)
    prompt.add(Begin("system"))
    prompt.add_text("S")
    with pytest.raises(PromptError, match="system"):
        prompt.flush(template)


def test_an_earlier_turn_that_changes_is_refused() -> None:
    source = "{% for m in messages %}({{ m['content'] if loop.last else '..' }}){% endfor %}"
    prompt, template = Prompt(), template_of(source)
    say(prompt, "user", "first")
    prompt.add_text("raw")
    say(prompt, "user", "second")
    with pytest.raises(PromptError, match="earlier turn"):
        prompt.flush(template)


def test_a_template_that_renders_the_last_turn_differently_still_goes_on() -> None:
    prompt, template = Prompt(), template_of(LAST_TURN_THINKS)
    say(prompt, "user", "q")
    prompt.add(Begin("assistant"))
    generate(prompt, "42", template)
    prompt.add_text("!")
    prompt.add(End())
    prompt.check_closed(template)
    start = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n42!<|im_end|>\n"
    assert prompt.text(template) == start
    say(prompt, "user", "r")
    assert prompt.text(template) == start + "<|im_start|>user\nr<|im_end|>\n"


def test_what_the_template_raises_passes() -> None:
    prompt, template = Prompt(), template_of(STRICT)
    say(prompt, "user", "a")
    say(prompt, "user", "b")
    with pytest.raises(jinja2.TemplateError, match="alternate"):
        prompt.flush(template)


def test_roles_do_not_nest() -> None:
    prompt = Prompt()
    prompt.add(Begin("user"))
    with pytest.raises(PromptError, match="inside role user"):
        prompt.add(Begin("assistant"))
    prompt.add(End())
    with pytest.raises(PromptError, match="none is open"):
        prompt.add(End())


def test_raw_text_between_turns_and_media() -> None:
    prompt, template = Prompt(), ChatML()
    prompt.add_text("A")
    prompt.add(Begin("user"))
    prompt.add(Part(Media("image", "x.png")))
    prompt.add_text("what?")
    prompt.add(Part(Media("video", b"..", 8)))
    prompt.add(End())
    prompt.add_text("B")
    assert prompt.text(template) == "A<|im_start|>user\n<image>what?<video><|im_end|>\nB"
    prompt.flush(template)
    assert [p for p in prompt.unsent if isinstance(p, Media)] == [
        Media("image", "x.png"),
        Media("video", b"..", 8),
    ]
    assert prompt.messages()[0]["content"] == [
        {"type": "image", "data": "x.png"},
        {"type": "text", "text": "what?"},
        {"type": "video", "data": b"..", "num_frames": 8},
    ]


def test_a_copy_goes_its_own_way() -> None:
    template = ChatML()
    prompt = Prompt()
    prompt.add(Begin("user"))
    prompt.add_text("a")
    other = prompt.copy()
    other.add_text("b")
    prompt.add_text("c")
    assert prompt.text(template).endswith("ac")
    assert other.text(template).endswith("ab")
    assert other.log == [Part("b")]
