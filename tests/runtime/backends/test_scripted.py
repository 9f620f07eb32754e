"""The scripted backend: stops, limits, constraints, scores, samples, faults, log."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.backends.scripted_reply import finish_reply
from sgc_runtime.backends.scripted_rules import rule_of
from sgc_runtime.backends.scripted_scores import _tournament
from sgc_runtime.backends.scripted_tokens import TokenizerTokens, WordTokens
from sgc_runtime.executor.backend import Call, Media, Text


def finish(reply: str, **params: Any) -> CallResult:
    return finish_reply(reply, SamplingParams().override(params), WordTokens())


def ask(
    backend: ScriptedBackend, prompt: str, select: bool = False, **params: Any
) -> list[CallResult]:
    stream = backend.open()
    stream.append([Text(prompt)])
    call = Call("g0", "", 0, SamplingParams().override(params), (1,))
    if select:
        return [asyncio.run(stream.select(call))]
    return asyncio.run(stream.generate(call))


# -- stops and limits


@pytest.mark.parametrize(
    ("reply", "params", "text", "reason", "matched"),
    [
        ("one two", {}, "one two", "eos", None),
        ("one two three", {"max_tokens": 2}, "one two", "length", None),
        ("one two", {"max_tokens": 2}, "one two", "length", None),
        ("a. b\n c", {"stop": "b\n c"}, "a. ", "stop", "b\n c"),
        ("a; b, c", {"stop": [",", ";"]}, "a", "stop", ";"),
        ("a;b,c", {"stop": [",", ";"]}, "a", "stop", ";"),
        ("a b c", {"stop": "c", "max_tokens": 3}, "a b ", "stop", "c"),
        ("a b c", {"stop": "c", "max_tokens": 2}, "a b", "length", None),
        ("a; b; c", {"stop": ";", "min_tokens": 1}, "a; b", "stop", ";"),
        ("x12y", {"stop_regex": "[0-9]+"}, "x", "stop", "[0-9]+"),
        ("no stop", {"stop": "Z", "stop_regex": ["Q"]}, "no stop", "eos", None),
        ("", {}, "", "eos", None),
    ],
)
def test_a_gen_ends_at_the_earliest_end(
    reply: str, params: dict[str, Any], text: str, reason: str, matched: str | None
) -> None:
    result = finish(reply, **params)
    assert (result.text, result.finish_reason, result.matched) == (text, reason, matched)
    assert result.complete
    assert result.usage.completion_tokens == len(text.split())


class Letters:
    """A tokenizer with one token a letter."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


class Bytes:
    """A tokenizer with one token a byte, as of a byte-level vocabulary."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


def test_a_tokenizer_counts_and_its_ids_can_stop() -> None:
    tokens = TokenizerTokens(Letters())
    cut = finish_reply("abcd", SamplingParams(max_tokens=3), tokens)
    assert (cut.text, cut.usage.completion_tokens) == ("abc", 3)
    stopped = finish_reply("abcd", SamplingParams(stop_token_ids=(ord("c"),)), tokens)
    assert (stopped.text, stopped.finish_reason, stopped.matched) == ("ab", "stop", ord("c"))
    held = finish_reply("abcb", SamplingParams(stop_token_ids=(98,), min_tokens=2), tokens)
    assert held.text == "abc"


@given(st.text(max_size=12))
def test_tokens_concatenate_to_the_text(text: str) -> None:
    for tokens in (WordTokens(), TokenizerTokens(Letters()), TokenizerTokens(Bytes())):
        if isinstance(tokens, TokenizerTokens) and any("\ud800" <= c < "\ue000" for c in text):
            continue
        split = [token.text for token in tokens.split(text)]
        assert "".join(split) == text
        words = isinstance(tokens, WordTokens)
        assert tokens.count(text) == len([t for t in split if t.strip() or not words])


# -- constraints

GREETING = 'start: "hello" " " NAME\nNAME: /[a-z]{3}/'


@pytest.mark.parametrize(
    ("reply", "params", "text", "reason", "complete"),
    [
        ("123", {"regex": "[0-9]{2}"}, "12", "constraint", True),
        ("yes, sure", {"regex": "yes|no"}, "yes", "constraint", True),
        ("42", {"regex": "[0-9]+"}, "42", "eos", True),
        ("ab cd ef", {"regex": "[a-z ]+;", "max_tokens": 2}, "ab cd", "length", False),
        ("ab cd ef", {"regex": "[a-z ]+", "max_tokens": 2}, "ab cd", "length", True),
        ("ab\ncd", {"regex": "[a-z\n]+", "stop": "\n"}, "ab", "stop", True),
        ("", {"regex": ""}, "", "constraint", True),
        ("a\nb", {"regex": "(?i)A.B", "stop": "never"}, None, "broken", None),
        ("12 apples", {"regex": "[0-9]+"}, None, "broken", None),
        ("1", {"regex": "[0-9]{2}"}, None, "broken", None),
        ("42 apples", {"dtype": "int"}, "42", "stop", True),
        ("-7\n", {"dtype": "int"}, "-7", "stop", True),
        ("7", {"dtype": "int"}, "7", "eos", True),
        ("7.5", {"dtype": "int"}, None, "broken", None),
        (" 7", {"dtype": "int"}, None, "broken", None),
        ("3.25 x", {"dtype": "float"}, "3.25", "stop", True),
        ("3. x", {"dtype": "float"}, None, "broken", None),
        ("True story", {"dtype": "bool"}, "True", "constraint", True),
        ("true", {"dtype": "bool"}, None, "broken", None),
        ('"a \\" b" c', {"dtype": "str"}, '"a \\" b"', "constraint", True),
        ('"a', {"dtype": "str"}, None, "broken", None),
        ('"a b c"', {"dtype": "str", "max_tokens": 2}, '"a b', "length", False),
        ('{"a": 1} etc', {"json_schema": {"required": ["a"]}}, '{"a": 1}', "constraint", True),
        ('{"b": 1}', {"json_schema": {"required": ["a"]}}, None, "broken", None),
        ('{"a": 1', {"json_schema": {}}, None, "broken", None),
        ("[NaN]", {"json_schema": {}}, None, "broken", None),
        ("12", {"json_schema": {"type": "integer"}}, "12", "eos", True),
        ('{"a": [1, 2]}', {"json_schema": {}, "max_tokens": 1}, '{"a":', "length", False),
        ("a+a)", {"grammar": 'start: "a" ("+" "a")*'}, None, "broken", None),
        ("a+a", {"grammar": 'start: "a" ("+" "a")*'}, "a+a", "eos", True),
        ("(a)b", {"grammar": 'start: "(" start ")" | "a"'}, "(a)", "constraint", True),
        (
            "hello you",
            {"grammar": 'start: "hello" " " NAME\nNAME: /[a-z]{3}/'},
            "hello you",
            "constraint",
            True,
        ),
        (
            "hello you",
            {"grammar": 'start: "hello" " " NAME\nNAME: /[a-z]{3}/', "max_tokens": 1},
            "hello",
            "length",
            False,
        ),
        (
            "hellX you",
            {"grammar": 'start: "hello" " " "you"', "max_tokens": 1},
            None,
            "broken",
            None,
        ),
        ("hel", {"grammar": 'start: "hello"'}, None, "broken", None),
    ],
)
def test_constraints(
    reply: str, params: dict[str, Any], text: str | None, reason: str, complete: bool | None
) -> None:
    if text is None:
        with pytest.raises(BackendError, match="breaks"):
            finish(reply, **params)
        return
    result = finish(reply, **params)
    assert (result.text, result.finish_reason, result.complete) == (text, reason, complete)


@pytest.mark.parametrize(
    "params",
    [
        {"regex": r"(a)\1"},
        {"regex": "a(?!)"},
        {"grammar": "start: nothing"},
        {"json_schema": {"properties": {"a": {"format": "x"}}}},
        {"json_schema": False},
    ],
)
def test_constraints_that_cannot_be_used_fail_the_call(params: dict[str, Any]) -> None:
    with pytest.raises(ConstraintError):
        finish("a", **params)


def test_blanks_and_order_of_names_are_free_in_replies() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}
    for reply in ('{"a":1,"b":2}', '{"b": 2, "a": 1}', '{\n "a" : 1}'):
        assert finish(reply, json_schema=schema).text == reply


def test_replies_keep_to_patterns_that_python_cannot_read() -> None:
    schema = {"type": "string", "pattern": r"^\p{L}+$"}
    assert finish('"é"', json_schema=schema).text == '"é"'
    with pytest.raises(BackendError, match="breaks") as caught:
        finish('"1"', json_schema=schema)
    assert len(str(caught.value)) < 400


_PATTERNS = [
    "a*b",
    "(ab|a)c?",
    "[^b]{1,2}",
    "a|ab|abc",
    "(a|b)*c",
    "\\d+",
    "[a-b]{2}|c",
    "a?",
    "\\w{2}\\s",
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(_PATTERNS), st.text("abc1 é", max_size=5))
def test_a_regex_is_followed_as_far_as_it_goes(pattern: str, reply: str) -> None:
    """Against trying all continuations of up to three characters."""
    compiled = re.compile(pattern)
    tails = [""]
    for _ in range(3):
        tails += [tail + c for tail in tails for c in "abc1 é" if len(tail) < 3]
    tails = list(dict.fromkeys(tails))

    def viable(text: str) -> bool:
        return any(compiled.fullmatch(text + tail) for tail in tails)

    ends = [n for n in range(len(reply) + 1) if viable(reply[:n])]
    rule = rule_of(SamplingParams(regex=pattern))
    assert rule is not None
    limit = rule.limit(reply)
    assert limit.end == max(ends)
    kept = reply[: limit.end]
    can_go_on = any(compiled.fullmatch(kept + tail) for tail in tails if tail)
    assert limit.complete == (compiled.fullmatch(kept) is not None and not can_go_on)


# -- calls


def test_the_log_has_calls_in_dispatch_order_with_resolved_parameters() -> None:
    backend = ScriptedBackend(lambda p, params: "x; y", delay=lambda p: 0.02 if p == "a" else 0.0)

    async def both() -> None:
        calls = []
        for i, prompt in enumerate(["a", "b"]):
            stream = backend.open()
            stream.append([Text(prompt), Media("image", "i.png")] if i else [Text(prompt)])
            params = SamplingParams().override({"stop": ";", "max_tokens": 9})
            calls.append(stream.generate(Call(f"g{i}", "", 0, params, (1,))))
        await asyncio.gather(*calls)

    asyncio.run(both())
    first, second = backend.calls
    assert set(first) == {"kind", "node", "stream", "prompt", "params", "result"}
    assert (first["node"], first["kind"], first["prompt"]) == ("g0", "gen", "a")
    assert first["result"] == "x"
    assert first["params"] == {**SamplingParams().to_dict(), "stop": [";"], "max_tokens": 9}
    assert second["prompt"] == "b<image>"
    assert second["media"] == [Media("image", "i.png")]


def test_samples_ask_once_each_and_the_prompt_counts_once() -> None:
    count = iter(range(9))
    backend = ScriptedBackend(lambda p, params: f"r{next(count)} x")
    results = ask(backend, "two words", n=3)
    assert [r.text for r in results] == ["r0 x", "r1 x", "r2 x"]
    assert [r.usage.prompt_tokens for r in results] == [2, 0, 0]
    assert len(backend.calls) == 1
    assert backend.calls[0]["result"] == ["r0 x", "r1 x", "r2 x"]


def test_faults_and_delays() -> None:
    backend = ScriptedBackend(
        lambda p, _: "x",
        fail=lambda p: TimeoutError("slow") if p == "bad" else None,
        delay=lambda p: 0.05,
    )
    began = time.perf_counter()
    assert ask(backend, "good")[0].text == "x"
    assert time.perf_counter() - began >= 0.05
    with pytest.raises(TimeoutError, match="slow"):
        ask(backend, "bad")
    assert [c["result"] for c in backend.calls] == ["x", None]
    with pytest.raises(BackendError, match="str"):
        ask(ScriptedBackend(lambda p, _: 3), "p")  # type: ignore[arg-type,return-value]


def test_a_failed_call_leaves_the_prompt_as_it_was() -> None:
    fails = iter([RuntimeError("once"), None])
    backend = ScriptedBackend(lambda p, _: "x", fail=lambda p: next(fails))

    async def main() -> None:
        stream = backend.open()
        stream.append([Text("p")])
        call = Call("g0", "", 0, SamplingParams(), (1,))
        with pytest.raises(RuntimeError):
            await stream.generate(call)
        await stream.generate(call)

    asyncio.run(main())
    assert [c["prompt"] for c in backend.calls] == ["p", "p"]


def test_forks_go_their_own_way() -> None:
    backend = ScriptedBackend(lambda p, _: f"<{p}>")

    async def main() -> None:
        stream = backend.open()
        stream.append([Text("p")])
        other = stream.fork()
        other.append([Text("q")])
        for s in (stream, other):
            await s.generate(Call("g0", "", 0, SamplingParams(), (1,)))
        assert (await stream.generate(Call("g1", "", 0, SamplingParams(), (1,))))[
            0
        ].text == "<p<p>>"

    asyncio.run(main())
    assert [c["prompt"] for c in backend.calls] == ["p", "pq", "p<p>"]


# -- choices


def test_select_takes_the_best_score_and_the_first_on_ties() -> None:
    backend = ScriptedBackend(lambda p, _: "", select=lambda p, choices: [len(c) for c in choices])
    (result,) = ask(backend, "pick", select=True, choices=["a", "bb", "cc"])
    assert result.text == "bb"
    assert result.meta["scores"] == [1.0, 2.0, 2.0]
    assert result.usage.scored_tokens == 3
    assert result.usage.prompt_tokens == 1
    assert backend.calls[0]["kind"] == "select"
    assert backend.calls[0]["params"]["choices"] == ["a", "bb", "cc"]
    with pytest.raises(BackendError, match="2 scores for 3"):
        ask(
            ScriptedBackend(lambda p, _: "", select=lambda p, c: [1, 2]),
            "p",
            select=True,
            choices=["a", "b", "c"],
        )


@pytest.mark.parametrize(
    "method",
    ["token_length_normalized", "greedy_token_selection", "unconditional_likelihood_normalized"],
)
def test_made_up_scores_do_not_depend_on_reply_nor_on_where_the_blank_stands(method: str) -> None:
    def scores(prompt: str, choices: list[str], reply: str) -> list[float]:
        backend = ScriptedBackend(lambda p, _: reply)
        (result,) = ask(backend, prompt, select=True, choices=choices, method=method)
        found: list[float] = result.meta["scores"]
        assert result.text == choices[found.index(max(found))]
        return found

    after_blank = scores("Answer: ", ["red", "blue sky", "green"], "x")
    assert after_blank == scores("Answer: ", ["red", "blue sky", "green"], "y")
    assert after_blank == scores("Answer:", [" red", " blue sky", " green"], "y")
    assert after_blank != scores("Other: ", ["red", "blue sky", "green"], "x")


def test_greedy_token_selection_goes_position_by_position() -> None:
    # the first position decides although the mean of the second is better
    assert _tournament([[-1.0, -9.0], [-2.0, -0.1]]) == [2.0, 0.0]
    # tie at the first position; the shorter one is padded with its mean
    assert _tournament([[-1.0], [-1.0, -3.0]]) == [2.0, 1.0]


# -- templates


def test_templates() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert ScriptedBackend(lambda p, _: "").chat_template.render(messages, True) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    source = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{% endfor %}"
    template = ScriptedBackend(lambda p, _: "", chat_template=source).chat_template
    assert template.render(messages) == "[user]hi<|end|>"
    assert "<|end|>" in template.control_tokens
    assert ScriptedBackend(lambda p, _: "", chat_template=template).chat_template is template


@given(st.lists(st.text(alphabet="ab \n\u2003", max_size=4), max_size=8))
def test_words_are_counted_on_as_they_are_counted_at_once(pieces: list[str]) -> None:
    tokens, text, known = WordTokens(), "", 0
    for piece in pieces:
        at, text = len(text), text + piece
        known = tokens.count_on(text, at, known)
        assert known == tokens.count(text)
