"""Chats on the local engine: a call's prompt has the ids of transformers' `apply_chat_template`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.local import backend, tiny_folder
from support.tokenizer import plain_texts

import sgc
from benchmarks.common.transformers_tokenizer import default_model_tokenizer
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.models import DEFAULT_MODEL, resolve

# Plain turns; a default system turn; BOS and trimmed contents; no system role of its own.
KINDS = ("smollm", "qwen2", "llama-bpe", "mistral")
ANSWER = "the answer"
Message = dict[str, str]


@sgc.function
def chat(s: Any, messages: list[Message]) -> Any:
    for message in messages:
        s += getattr(sgc, message["role"])(message["content"])
    s += sgc.assistant(sgc.gen("answer", max_tokens=1, temperature=0))


@pytest.fixture(scope="module", params=KINDS)
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalBackend, Any]]:
    folder = tiny_folder(tmp_path_factory.mktemp(request.param), request.param)
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    with backend(folder) as made:
        yield made, theirs


def conversations(contents: Any) -> Any:
    """User and assistant take turns, behind a system turn or not; the last one is the user's."""
    system = st.lists(contents, max_size=1)
    turns = st.integers(0, 2).flatmap(
        lambda n: st.lists(contents, min_size=2 * n + 1, max_size=2 * n + 1)
    )
    return st.tuples(system, turns).map(
        lambda parts: [
            *({"role": "system", "content": text} for text in parts[0]),
            *(
                {"role": ("user", "assistant")[i % 2], "content": text}
                for i, text in enumerate(parts[1])
            ),
        ]
    )


@contextmanager
def noted_prompts() -> Iterator[list[list[int]]]:
    """The ids of each call's prompt."""
    seen: list[list[int]] = []
    generate = LocalStream.generate

    async def noting(stream: LocalStream, call: Any) -> Any:
        results = await generate(stream, call)
        num_kept = len(results[0].token_ids)
        seen.append(stream.ids[: len(stream.ids) - num_kept])
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStream, "generate", noting)
        yield seen


def prompt_ids(theirs: Any, messages: list[Message]) -> list[int]:
    """What transformers gives a model that is to answer `messages`."""
    opened: str = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    if opened == theirs.apply_chat_template(messages, tokenize=False):
        # The template opens no turn: what it writes before an answer comes with the answer.
        answered = [*messages, {"role": "assistant", "content": ANSWER}]
        opened = theirs.apply_chat_template(answered, tokenize=False).rpartition(ANSWER)[0]
        ids: list[int] = theirs.encode(opened, add_special_tokens=False)
        return ids
    ids = theirs.apply_chat_template(
        messages, tokenize=True, add_generation_prompt=True, return_dict=False
    )
    return ids


def check(local: LocalBackend, theirs: Any, messages: list[Message]) -> None:
    with noted_prompts() as seen:
        # A batch, since a node fails after its call where the template would trim the answer.
        chat.run_batch([{"messages": messages}], backend=local, mode="interpreted")
    assert seen == [prompt_ids(theirs, messages)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=conversations(plain_texts()))
def test_tiny_models(tiny: tuple[LocalBackend, Any], messages: list[Message]) -> None:
    check(*tiny, messages)


@pytest.fixture(scope="module")
def default_model() -> Iterator[tuple[LocalBackend, Any]]:
    theirs = default_model_tokenizer(resolve(DEFAULT_MODEL))
    with backend(DEFAULT_MODEL) as made:
        yield made, theirs


@pytest.mark.model
@pytest.mark.parametrize(
    "messages",
    [
        [("user", "What is 2024 minus 17?")],
        [("system", "You answer in one word."), ("user", "  Name a colour. \n")],
        [
            ("user", "Hi"),
            ("assistant", "Hello! 😀"),
            ("user", "C'est déjà l'été ?\n\n- un\n- deux"),
        ],
        [
            ("system", ""),
            ("user", "你好, what is that?"),
            ("assistant", "It"),
            ("user", "?"),
        ],
    ],
)
def test_the_default_model(
    default_model: tuple[LocalBackend, Any], messages: list[tuple[str, str]]
) -> None:
    check(*default_model, [{"role": role, "content": text} for role, text in messages])
