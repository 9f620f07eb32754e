"""Where the scoring of choices starts, against the definition spelled out with whole encodings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tokenizer import KINDS, encode_control, encode_prompt

from sgc_ir.errors import BackendError
from sgc_runtime.engine.choice_plan import plan_choices
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.tokenizer import Tokenizer

NAMES = [kind.name for kind in KINDS]
WORDS = st.sampled_from(
    ["The", " quick", " brown", "fox", ".", ":", "\n", " 42", "?", " Paris", "an", "swer"]
)
PROMPTS = st.tuples(
    st.lists(WORDS, max_size=6).map("".join), st.sampled_from(["", " ", "  ", " \t"])
).map("".join)
CHOICES = st.lists(
    st.lists(WORDS, min_size=1, max_size=3).map("".join), min_size=1, max_size=4, unique=True
)


def leave(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@pytest.mark.parametrize("name", NAMES)
@given(prompt=PROMPTS, choices=CHOICES)
@settings(max_examples=60, deadline=None)
def test_start_and_sequences_follow_the_definition(
    tokenizers: dict[str, Tokenizer], name: str, prompt: str, choices: list[str]
) -> None:
    tokenizer = tokenizers[name]
    stream = TokenStream()
    stream.append([Text(prompt)])
    plan = plan_choices(stream, Seams(tokenizer), choices)
    bare = prompt.rstrip(" \t")
    encoded = [encode_prompt(tokenizer, [Text(prompt + c)]) for c in choices]
    base = encode_prompt(tokenizer, [Text(bare)]) if bare else []
    assert [ids.tolist() for ids in plan.sequences] == encoded
    # An empty prompt with BOS: scoring starts behind it.
    least = 1 if tokenizer.bos_id is not None else 0
    assert plan.start == max(least, min(leave(base, ids) for ids in encoded))
    assert stream.pieces == ((Text(prompt),) if prompt else ())


@pytest.mark.parametrize("name", NAMES)
@given(prompt=PROMPTS.filter(lambda p: p.strip()), words=CHOICES)
@settings(max_examples=40, deadline=None)
def test_the_border_blank_may_stand_on_either_side(
    tokenizers: dict[str, Tokenizer], name: str, prompt: str, words: list[str]
) -> None:
    seams = Seams(tokenizers[name])
    left, right = TokenStream(), TokenStream()
    left.append([Text(prompt + " ")])
    right.append([Text(prompt)])
    a = plan_choices(left, seams, words)
    b = plan_choices(right, seams, [" " + w for w in words])
    assert a.start == b.start
    assert [x.tolist() for x in a.sequences] == [x.tolist() for x in b.sequences]


def test_never_before_a_control_token(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    stream = TokenStream()
    stream.append([Text("<|im_start|>assistant\n<|im_end|>", control=True)])
    plan = plan_choices(stream, Seams(tokenizer), ["A", " B"])
    assert plan.start == len(encode_control(tokenizer, "<|im_start|>assistant\n<|im_end|>"))
    behind = TokenStream()
    behind.append([Text("<|im_start|>", control=True), Text("  ")])
    again = plan_choices(behind, Seams(tokenizer), ["A"])
    assert again.start == 1
    assert tokenizer.decode(again.sequences[0].tolist()) == "  A"


@pytest.mark.parametrize("choices", [[], [""], ["A", ""]])
@pytest.mark.parametrize("prompt", ["The fox", "The fox ", ""])
def test_choices_without_text_are_refused(
    tokenizers: dict[str, Tokenizer], prompt: str, choices: list[str]
) -> None:
    stream = TokenStream()
    stream.append([Text(prompt)])
    with pytest.raises(BackendError, match="each with some text"):
        plan_choices(stream, Seams(tokenizers["smollm"]), choices)


def test_generated_blanks_count_as_part_of_the_choice(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["smollm"]
    ids = tokenizer.encode("The fox") + tokenizer.encode(" ")
    stream = TokenStream(np.array(ids, np.int32))
    plan = plan_choices(stream, Seams(tokenizer), ["jumps"])
    assert plan.sequences[0].tolist() == tokenizer.encode("The fox jumps")
    assert plan.start == len(tokenizer.encode("The fox"))
