"""Regular expressions against `re.fullmatch` of the running Python."""

from __future__ import annotations

import json
import random
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import accepts, compare, compiled, random_regex

from sgc_ir.automata import regex_chars
from sgc_ir.automata.fsm_view import view
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.utf8 import Ranges
from sgc_ir.errors import ConstraintError

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "regex_cases.jsonl"
MAY_REFUSE = ("[lookaround]", "[may-refuse]", "[flag x]")

# Each pattern is judged on all texts of its line and on their neighbours.
OWN = [
    ("a^b|^ab", "ab b a"),
    ("(?m)a\n^b$\n?", "a\nb|a\nb\n|a b"),
    ("a$\n", "a\n|a|a\n\n"),
    ("a$", "a|a\n"),
    ("(?m)a$\nb", "a\nb|ab"),
    (r"a\Z\n?", "a|a\n"),
    (r"(?:^a|b)+", "ab|ba|a|bb|aa"),
    (r"(?:^|,)a(?:$|,a)", "a|,a|a,a|aa"),
    (r"\bfoo\b.*\bbar\b", "foo bar|foobar|foo,x,bar|foo xbar"),
    (r"\b\w{1,3}\b(?: \b\w{1,3}\b){0,2}", "a b c|abcd|abc ab|a b c d"),
    (r"(?:\B.)+", "|  |ab|-- -|a-"),
    (r"\B-?", "|-|a"),
    (r"(?:\b|x)*y", "y|xy|xxy| y"),
    (r"[a-z]+(?<!ing)", "sung|sing|ing|in"),
    (r"(?<=a)b|c", "c|b|ab"),
    (r"(?:a|b(?<=ab))+", "aab|abb|b|ab"),
    (r"(?:a{3}(?<=a{3}))+b", "aaab|aab|aaaaaab"),
    (r"(?<!a)(?<!b)c.(?<=cd|ce)", "cd|ce|cf"),
    (r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])\w{4,8}", "aB3x|aB3|abcd|ABCD1|aaaaAAAA1"),
    (r"(?:(?!END).)*END", "END|aEND|ENDEND|EN D END|ENENDEND"),
    (r"(?:(?=a|bb)[ab])*b?", "aab|abb|bab|abab|bb"),
    (r"(?:(?=.*z)a|b){2,3}z?", "abz|ab|bb|aaz|aaaz|bbbz"),
    (r"(?!(?!a))a", "a|b"),
    (r"(?!a(?=b))..", "ab|ac|bb"),
    (r"(?=(?:..)*$)(?=(?:...)*$)a*", "aaaaaa|aaa|aa||aaaaaaaaaaaa"),
    (r"(?:(?:(?=a)a?)*b?)*", "aab|ba||bb"),
    (r"x(?:[ab]1?|(?<!\d)\b){2}", "xa|x|x1|xab|x a|xa1"),
    (r"(?:a|$|b(?=c)){3}c?", "a|aa|aaa|abc|aac|"),
    (r"(?:a??b){1,2}?", "ab|b|abab|bab|aab"),
    (r"(?P<x>a|ab)(?:c|bcd)", "ac|abc|abcd|abbcd"),
    (r"(?i)straße", "STRAßE|straẞe|STRASSE|ſtraße"),
    (r"(?i)[k-s]+", "K|ſ|k|S|K"),
    (r"(?i)İ|ı", "i|I|İ|ı|i̇"),
    (r"(?ai)k", "K|K|k"),
    (r"(?i)[^k]", "K|K|k|j"),
    (r"(?i)ꭰ", "Ꭰ|ꭰ"),
    (r"(?i)\u03c3", "σ|ς|Σ"),
    (r"(?i:a(?-i:b))c", "Abc|ABc|abc|abC"),
    (r"(?x) a \  b # no", "a b|ab"),
    (r"(?s:.)(?-s:.)", "\na|a\n"),
    (r"[\N{BULLET}\x41-\103]+", "•ABC|D"),
    (r"\0\07\101\x41\u0041\U00000041", "\0\x07AAAA|0"),
    (r"[]\-^]+[^]]", "]-^a|]]"),
    (r"(?a:\w)\w", "aé|éa|ab"),
    (r"\d(?a:\d)", "٣3|3٣"),
    (r"\s+", " \x1c\x85\u3000|\u200b"),
    (r"(?:a{2,3}){2,3}", "aaaa|aaa|aaaaaaaaa|aaaaaaaaaa"),
    (r"(?:a{3}){1,2}", "aaa|aaaa|aaaaaa"),
    (r"(?:a?){3,5}(?:a*)*", "|aaaaaaaa"),
    (r"a?a?(?<=aa)b|a{0}a{0}$|a?a?\b", "aab|ab|a|aa|"),
    (r"a?a?a?aa{2,3}a*", "aaa|aa|aaaaaaaaaa"),
    (r"", "|a"),
    (r"|a", "|a"),
]


def refused(pattern: str) -> ConstraintError:
    with pytest.raises(ConstraintError) as caught:
        regex_automaton(pattern)
    return caught.value


@pytest.mark.parametrize(("pattern", "texts"), OWN)
def test_own_cases(pattern: str, texts: str) -> None:
    engine = re.compile(pattern)
    automaton = regex_automaton(pattern)
    for text in texts.split("|"):
        near = {text + extra for extra in ("", "a", "b", "\n", " ", "1")} | {text[1:], text[:-1]}
        for one in near:
            assert accepts(automaton, one) == (engine.fullmatch(one) is not None), one


@pytest.mark.skipif(not CASES.exists(), reason="the handed cases are not beside the repository")
def test_handed_cases() -> None:
    exact, wrong = 0, []
    for line in CASES.read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        case = json.loads(line)
        try:
            automaton = regex_automaton(case["regex"])
        except ConstraintError as error:
            unsat = "[unsat]" in case["note"] and error.kind == "unsatisfiable"
            exact += unsat
            allowed = unsat or (
                error.kind == "unsupported" and any(tag in case["note"] for tag in MAY_REFUSE)
            )
            wrong += [] if allowed else [case["id"]]
            continue
        right = all(accepts(automaton, text) for text in case["accept"])
        right &= not any(accepts(automaton, text) for text in case["reject"])
        exact += right
        wrong += [] if right else [case["id"]]
    assert not wrong
    assert exact >= 170


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_patterns_agree_with_re(rng: random.Random) -> None:
    pattern = random_regex(rng, 2)
    if compiled(pattern) is not None:
        compare(pattern, rng, texts=15, samples=5)


@pytest.mark.long
def test_two_thousand_patterns_agree_with_re() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds: dict[str, int] = {}
    while sum(kinds.values()) < 2000:
        pattern = random_regex(rng)
        if compiled(pattern) is not None:
            kind = compare(pattern, rng)
            kinds[kind] = kinds.get(kind, 0) + 1
    print(kinds)
    assert kinds.get("limit", 0) <= 100, (seed, kinds)


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(a)\1", "back-reference"),
        (r"(?P<x>a)(?P=x)", "back-reference"),
        (r"(?i)(a)\1", "back-reference"),
        (r"(a)?(?(1)b|c)", "conditional pattern"),
        (r"(?>a+)b", "atomic group"),
        (r"a++b", "possessive quantifier"),
        (r"a(?<=^a)", "lookbehind that holds an assertion"),
        (r"(?<=[ab]{300})c", "lookbehind of more than 256"),
        (r"(?<=" + "(?:ab|cd)" * 9 + ")c", "lookbehind with more than 256"),
    ],
)
def test_what_is_not_supported_is_named(pattern: str, construct: str) -> None:
    error = refused(pattern)
    assert error.kind == "unsupported"
    assert construct in str(error)


@pytest.mark.parametrize(
    ("pattern", "message", "where"),
    [
        ("a(b", "missing ), unterminated subpattern", "position 1"),
        ("[a", "unterminated character set", "position 0"),
        ("a**", "multiple repeat", "position 2"),
        (r"\q", "bad escape", "position 0"),
        ("a{3,2}", "min repeat greater than max repeat", "position 2"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern", ""),
        ("a(?i)b", "global flags not at the start", "position 1"),
        ("a{99999999999999999999}", "repetition number is too large", ""),
    ],
)
def test_malformed_patterns_have_pythons_message(pattern: str, message: str, where: str) -> None:
    error = refused(pattern)
    assert error.kind == "malformed"
    assert message in str(error)
    assert error.where == where
    assert "\n" not in str(error)


_CLASSES = [
    r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"[\d_]", r"[^\w]", r"[^\s\d]", "[k-s]", "[^k]",
    "[a-zé-ü]", "ſ", "İ", "ı", "K", "[\\u0400-\\u052f]", "[^ß]", "µ", "[\\U00010400-\\U00010420]",
    "[Ა-Ჿ]", "[^\\d\\u1c80-\\u1c88]", "ΐ", "ﬅ", "[\\x00-\\U0010ffff]",
]  # fmt: skip


@pytest.mark.parametrize("letters", ["", "i", "a", "ia", "s"])
def test_classes_hold_exactly_the_characters_that_re_matches(letters: str) -> None:
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)
    for item in _CLASSES:
        pattern = f"(?{letters}){item}" if letters else item
        shown = view(regex_automaton(pattern))
        edges = [edge for edge in shown.edges if edge.source == 0]
        assert len(edges) == 1
        ranges = edges[0].chars or ((ord(edges[0].text), ord(edges[0].text)),)
        codes = np.array([ord(char) for char in re.findall(pattern, text)])
        breaks = np.flatnonzero(np.diff(codes) != 1)
        first, last = codes[np.append(0, breaks + 1)], codes[np.append(breaks, len(codes) - 1)]
        assert ranges == tuple(zip(first.tolist(), last.tolist())), pattern


def test_word_characters_are_those_of_this_unicode_version() -> None:
    def inside(ranges: Ranges, char: str) -> bool:
        return any(low <= ord(char) <= high for low, high in ranges)

    for code in range(0, 0x3000):
        char = chr(code)
        assert inside(regex_chars.word(0), char) == (char.isalnum() or char == "_")


def test_the_empty_text_has_no_border() -> None:
    assert refused(r"\b").kind == "unsatisfiable"
    automaton = regex_automaton(r"\B-?")
    assert accepts(automaton, "") == (sys.version_info >= (3, 14))
    assert accepts(automaton, "-")


def test_two_surrogates_are_no_character() -> None:
    automaton = regex_automaton(r"\ud83d\ude00|ok")
    assert texts_of(automaton, automaton.start, 5) == [b"ok"]


@pytest.mark.parametrize("pattern", ["[[a]", "[+--]", "[a&&b]", "[a~~b]", "[a||b]"])
def test_what_may_change_its_meaning_is_read_without_a_warning(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FutureWarning):
            re.compile(pattern)
        filters = list(warnings.filters)
        regex_automaton(pattern)
        assert warnings.filters == filters
