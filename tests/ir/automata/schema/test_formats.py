"""Formats of strings against the checkers that `jsonschema` finds installed."""

from __future__ import annotations

import json
import random

import pytest
from ir.automata.schema.schema_texts import random_text
from jsonschema import Draft202012Validator
from support.regexes import accepts

from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.automata.schema.formats import FORMATS, WIDE
from sgc_ir.errors import ConstraintError

CHECKER = Draft202012Validator.FORMAT_CHECKER

# (texts of the format, texts that are none), by the standards and the checkers.
TEXTS = {
    "date": ("2024-02-29 1999-12-31 0001-01-01", "2023-02-29 2024-13-01 24-01-01 2024-1-1"),
    "time": ("10:00:00Z 23:59:59.999+05:30 00:00:00-23:59", "24:00:00Z 10:60:00Z 10:00:00 10:00Z"),
    "date-time": ("2024-02-29T10:00:00Z 1985-04-12T23:20:50.52Z", "2024-02-30T10:00:00Z 2024"),
    "duration": ("P1D PT36H P1Y2M3DT4H5M6S P4W P1M PT1S", "P 1D PT P1S P1W2D P1Y2W"),
    "email": ("a@b a.b+c@example.org x_1@a-b.c", "a @b a@ .a@b a..b@c"),
    "hostname": ("a example.org x-1.a2 3.com", "-a a- a..b a_b .a"),
    "ipv4": ("0.0.0.0 255.255.255.255 10.1.2.3", "256.0.0.1 1.2.3 1.2.3.4.5 01.2.3.4 1.2.3.a"),
    "ipv6": (
        ":: ::1 1:2:3:4:5:6:7:8 1::8 fe80::1:2 ::ffff:1.2.3.4 1:2:3:4:5:6:1.2.3.4 ABCD::",
        "1:2:3:4:5:6:7 1::2::3 12345:: :1 1: ::1.2.3 1:2:3:4:5:6:7:8:9",
    ),
    "uuid": (
        "0b1f6a2e-0000-4000-8000-00000000000a 0B1F6A2E-0000-4000-8000-00000000000A",
        "0b1f6a2e000040008000000000000000 0b1f6a2e-0000-4000-8000-00000000000",
    ),
    "uri": (
        "http://a.b/c?d=e#f urn:isbn:0 mailto:a@b http://[::1]:80/ a: http://u:p@h/%20 file:///x",
        "a //a/b http://a/^ http://a/%2 1a:b http://[::1 http://a#b#c",
    ),
    "uri-reference": ("a ../b?c#d //a/b http://a # ? a/b:c", "^ %2 a#b#c 1:b"),
    "uri-template": ("a{b}c {+x,y*,z:3} {?a.b} http://a/{b}", "{ a{ {a {} {a:0} {^a} }"),
    "json-pointer": ("/a/b /~0~1 / /a//b", "a /~ /~2 a/b"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_passes_the_checker(name: str) -> None:
    if name not in CHECKER.checkers:
        pytest.skip(f"no package is installed that checks {name}")
    automaton, rng = schema_automaton({"type": "string", "format": name}), random.Random(name)
    for length in (10, 30, 90) * 80:
        text = json.loads(random_text(automaton, rng, length))
        assert CHECKER.conforms(text, name), text


@pytest.mark.parametrize("name", FORMATS)
def test_known_texts(name: str) -> None:
    automaton = schema_automaton({"type": "string", "format": name})
    right, wrong = (texts.split() for texts in TEXTS[name])
    for text in right:
        assert accepts(automaton, json.dumps(text)), text
    for text in wrong:
        assert not accepts(automaton, json.dumps(text)), text
    if name in CHECKER.checkers:
        assert all(CHECKER.conforms(text, name) for text in right)


@pytest.mark.parametrize("name", WIDE)
def test_what_is_not_of_a_format_fails_the_checker(name: str) -> None:
    automaton = schema_automaton({"type": "string", "not": {"format": name}})
    rng = random.Random(name)
    for _ in range(60):
        text = json.loads(random_text(automaton, rng, 40))
        assert not CHECKER.conforms(text, name), text
    for text in TEXTS[name][0].split():
        assert not accepts(automaton, json.dumps(text)), text


@pytest.mark.parametrize(("name", "bits"), [("int32", 31), ("int64", 63)])
def test_widths_of_integers_are_kept(name: str, bits: int) -> None:
    automaton = schema_automaton({"type": "integer", "format": name})
    for number in (0, 2**bits - 1, -(2**bits)):
        assert accepts(automaton, str(number))
    for number in (2**bits, -(2**bits) - 1, 10**30):
        assert not accepts(automaton, str(number))
    assert accepts(schema_automaton({"format": name}), '"a text"')


@pytest.mark.parametrize("name", ["float", "double", "byte", "binary", "password"])
def test_formats_that_openapi_only_annotates(name: str) -> None:
    assert accepts(schema_automaton({"type": ["string", "number"], "format": name}), '"é"')


@pytest.mark.parametrize("name", ["idn-email", "iri", "regex", "phone", "uint8", "Date", ""])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"items": {"format": name}})
    assert (caught.value.kind, caught.value.where) == ("unsupported", "#/items/format")
