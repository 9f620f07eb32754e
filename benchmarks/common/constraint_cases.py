"""Regexes of the kinds that programs constrain a gen with, and texts that each of them matches.

They are written so that every library under test reads them alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """A constraint (a regex, or a JSON Schema as text), texts that meet it, and others."""

    name: str
    kind: str
    source: str
    texts: tuple[str, ...]
    illegal: tuple[str, ...] = ()


_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_MONTH_DAY = r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_WORD = r"[\w\d\s]{1,16}"
_ESCAPED = r'([^"\\\x00-\x1f\x7f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})'
_LABELS = "positive|negative|neutral|mixed|angry|happy|sad|surprised|afraid|disgusted"
_LITERALS = "|".join(
    f"{first} {second}"
    for first in "red green blue black white amber coral ivory olive teal".split()
    for second in (
        "anchor apple arrow badge basket beacon bell blade boat bottle bridge brush bucket "
        "button candle canvas carpet castle chair chest clock cloud coat coin comb compass "
        "crown cup curtain desk door drum engine fan feather fence flag flute fork fountain "
        "gate glove guitar hammer harp hat hinge horn jar kettle"
    ).split()
)
_CHARACTER = rf"""\{{
    "name": "{_WORD}",
    "house": "(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",
    "blood status": "(Pure-blood|Half-blood|Muggle-born)",
    "occupation": "(student|teacher|auror|ministry of magic|death eater|order of the phoenix)",
    "wand": \{{
        "wood": "{_WORD}",
        "core": "{_WORD}",
        "length": [0-9]{{1,2}}\.[0-9]{{0,2}}
    \}},
    "alive": "(Alive|Deceased)",
    "patronus": "{_WORD}",
    "bogart": "{_WORD}"
\}}"""
_CITY = rf"""\{{
  "name": "{_WORD}",
  "country": "{_WORD}",
  "latitude": [-+]?[0-9]*\.?[0-9]{{0,2}},
  "population": [-+]?[0-9]{{1,9}},
  "top 3 landmarks": \["{_WORD}", "{_WORD}", "{_WORD}"\]
\}}"""

_REGEXES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("ISO date", rf"[0-9]{{4}}-{_MONTH_DAY}", ("2024-02-29", "1999-12-31")),
    (
        "date-time, strict",
        rf"[0-9]{{4}}-{_MONTH_DAY}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,6}})?"
        r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
        ("2024-02-29T23:59:08Z", "2023-07-01T08:05:00.125+02:00"),
    ),
    (
        "e-mail with bounds",
        r"[a-zA-Z0-9._%+-]{1,64}@[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63}){0,3}\.[a-zA-Z]{2,24}",
        ("jane.doe+news@mail.example.org", "info@shop.de"),
    ),
    ("10 labels", f"({_LABELS})", ("neutral", "surprised", "disgusted")),
    (
        "500 literals",
        f"({_LITERALS})",
        ("coral kettle", "teal apple"),
    ),
    ("IPv4", rf"({_OCTET}\.){{3}}{_OCTET}", ("192.168.0.1", "8.8.4.255")),
    ("IPv6", r"([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}", ("2001:db8:0:42:0:8a2e:370:7334",)),
    (
        "UUID",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        ("123e4567-e89b-12d3-a456-426614174000",),
    ),
    (
        "phone",
        r"(\+[0-9]{1,3}[ -]?)?(\([0-9]{2,4}\)|[0-9]{2,4})[ -]?[0-9]{3,4}[ -]?[0-9]{3,4}",
        ("+49 (030) 1234 5678", "555-867-5309"),
    ),
    (
        "JSON number",
        r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
        ("-12.5e+10", "2140000", "0.03"),
    ),
    (
        "character object",
        _CHARACTER,
        (
            '{\n    "name": "Luna Lovegood",\n    "house": "Ravenclaw",\n'
            '    "blood status": "Pure-blood",\n    "occupation": "student",\n    "wand": {\n'
            '        "wood": "Unknown",\n        "core": "Dragon heart",\n'
            '        "length": 10.25\n    },\n    "alive": "Alive",\n    "patronus": "Hare",\n'
            '    "bogart": "Dark places"\n}',
        ),
    ),
    (
        "city object",
        _CITY,
        (
            '{\n  "name": "Lisbon",\n  "country": "Portugal",\n  "latitude": 38.72,\n'
            '  "population": 545796,\n  "top 3 landmarks": ["Belem Tower", "Castelo", '
            '"Praca Comercio"]\n}',
        ),
    ),
    (
        "citation",
        r"[A-Z][a-z]{1,20}, [A-Z]\.( [A-Z]\.)? \((19|20)[0-9]{2}\)\. [A-Za-z0-9 ,:-]{5,120}\. "
        r"[A-Z][A-Za-z &]{3,60}, [0-9]{1,3}\([0-9]{1,2}\), [0-9]{1,4}-[0-9]{1,4}\.",
        (
            "Dijkstra, E. W. (1959). A note on two problems in connexion with graphs. "
            "Numerische Mathematik, 1(1), 269-271.",
        ),
    ),
    (".{1,200}", r".{1,200}", ("The quick brown fox jumps over the lazy dog, twice; naïve café.",)),
    (
        "JSON string, group{1,200}",
        rf'"{_ESCAPED}{{1,200}}"',
        ('"She said \\"no\\" and left.\\nThe door\\u2019s open: 日本語, naïve."',),
    ),
    (
        "sentences",
        r"([A-Z][a-z,' ]{10,150}[.!?] ?){1,5}",
        ("It was late in the year, and the harbour slept. Nobody spoke of the storm!",),
    ),
    (
        "ReAct step",
        r"Thought: [^\n]{1,300}\nAction: (search|lookup|finish)\[[^\]\n]{1,100}\]\n",
        (
            "Thought: I need to find out which river crosses the town.\n"
            "Action: search[River crossing Verona]\n",
        ),
    ),
    (
        "Markdown list",
        r"(- [^\n]{1,120}\n){3,7}",
        ("- Buy flour, eggs and milk\n- Call **Ines** about the boat\n- Read chapter 4\n",),
    ),
    (
        "function call",
        r"[a-z_][a-z0-9_]{0,30}\(([a-z_][a-z0-9_]{0,15}=(\"[^\"\n]{0,60}\"|-?[0-9]{1,10})"
        r"(, [a-z_][a-z0-9_]{0,15}=(\"[^\"\n]{0,60}\"|-?[0-9]{1,10})){0,5})?\)",
        ('get_weather(city="San Francisco", days=3, unit="celsius")',),
    ),
    (
        "URL",
        r"https?://[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,4}(:[0-9]{2,5})?(/[a-zA-Z0-9._~%-]{0,60})"
        r"{0,6}(\?[a-zA-Z0-9._~%=&-]{0,80})?",
        ("https://docs.example.org:8080/guide/getting-started.html?lang=en&v=2",),
    ),
    ("CJK {1,60}", r"[一-鿿]{1,60}", ("人工智能正在改变世界",)),
    (
        "one free line",
        r"[^\n]*\n",
        ("Anything at all may stand here, even 42% of a 日本語 line.\n",),
    ),
    ("grade", r"[A-D][+-]?", ("B+", "A")),
    (
        "multiple choice + text",
        r"Answer: \([A-E]\)\nReason: .{20,400}",
        ("Answer: (C)\nReason: Water boils at a lower temperature where the pressure is lower.",),
    ),
)


def regex_cases() -> list[Case]:
    """The 24 regexes; their texts match in Python."""
    for name, pattern, texts in _REGEXES:
        assert all(re.fullmatch(pattern, text) for text in texts), name
    return [Case(name, "regex", pattern, texts) for name, pattern, texts in _REGEXES]


def schema_cases(folder: Path) -> Iterator[Case]:
    """The schemas of `jsonschema/maskbench_sample.jsonl` under `folder` that have valid instances,
    written as compact JSON is not: `, ` and `: ` between items."""
    file = folder / "jsonschema" / "maskbench_sample.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines():
        item: dict[str, Any] = json.loads(line)
        texts: dict[bool, list[str]] = {True: [], False: []}
        for test in item["tests"]:
            texts[bool(test["valid"])].append(json.dumps(test["data"], ensure_ascii=False))
        if texts[True]:
            legal, illegal = tuple(texts[True][:3]), tuple(texts[False][:3])
            yield Case(item["id"], "schema", json.dumps(item["schema"]), legal, illegal)
