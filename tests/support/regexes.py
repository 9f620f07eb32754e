"""Random regular expressions, texts for them, and `re` as the judge of both."""

from __future__ import annotations

import random
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError

ALPHABET = "ab1 _\néſ"
_CHARS = [
    "a",
    "b",
    "1",
    " ",
    "_",
    "é",
    r"\n",
    "ab",
    "ba",
    "s",
    r"\x61",
    r"\N{LATIN SMALL LETTER B}",
]
_SETS = [
    ".",
    r"\w",
    r"\d",
    r"\s",
    "[ab]",
    "[^a]",
    r"\W",
    r"\S",
    r"[^\n]",
    r"[\w\W]",
    "[b-é]",
    r"\D",
]
_PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?!)", "(?=)"]
_BEHIND = ["(?<=a)", "(?<!b)", "(?<=ab)", r"(?<!a|\d)", "(?<!.b)"]
_COUNTS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "{,2}", "{3,5}", "??"]
_GROUPS = ["(?:%s)", "(%s)", "(?i:%s)", "(?m:%s)", "(?s:%s)", "(?a:%s)", "(?-i:%s)", "(?x: %s )"]
_SECONDS = 0.5  # of processor time that `re` gets for one text


def random_regex(rng: random.Random, depth: int = 3) -> str:
    """A pattern of everything that is supported; a few of them `re` itself refuses."""
    parts = []
    for _ in range(rng.choice([1, 1, 2, 2, 3])):
        part = _part(rng, depth)
        if rng.random() < 0.35:
            alone = len(part) == 1 or part[0] in "[(" or (part[0] == "\\" and len(part) == 2)
            part = (part if alone else f"(?:{part})") + rng.choice(_COUNTS)
        parts.append(part)
    pattern = "".join(parts)
    if rng.random() < 0.25:
        pattern += "|" + random_regex(rng, depth - 1) if depth > 0 else "|" + _atom(rng, 0)
    return pattern


def _part(rng: random.Random, depth: int) -> str:
    if depth > 0 and rng.random() < 0.45:
        return rng.choice(_GROUPS) % random_regex(rng, depth - 1)
    return _atom(rng, depth)


def _atom(rng: random.Random, depth: int) -> str:
    share = rng.random()
    if share < 0.5:
        return rng.choice(_CHARS)
    if share < 0.75:
        return rng.choice(_SETS)
    if share < 0.85 or depth <= 0:
        return rng.choice(_PLACES + _BEHIND)
    return rng.choice(["(?=%s)", "(?!%s)"]) % random_regex(rng, depth - 1)


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(ALPHABET) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 8])))


def sample(automaton: Automaton, rng: random.Random, longest: int = 40) -> str | None:
    """A random legal text, or None where the walk did not end in time."""
    state, data = automaton.start, bytearray()
    free = rng.choice([2, 6, 12])
    while len(data) < longest:
        ways = automaton.ways(state)
        ending = automaton.is_accepting(state) and (len(data) >= free or rng.random() < 0.3)
        if ending or not ways:
            return data.decode()
        low, high, state = rng.choice(ways)
        data.append(rng.randint(low, high))
    return None


def sampled(automaton: Automaton, rng: random.Random, count: int, longest: int = 40) -> list[str]:
    """The texts of `count` walks, where they ended in time."""
    found = (sample(automaton, rng, longest) for _ in range(count))
    return [text for text in found if text is not None]


def mutated(text: str, rng: random.Random, letters: str = ALPHABET + "A") -> str:
    """`text` with one of `letters` put in, a character taken out or replaced, once or twice."""
    chars = list(text)
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(len(chars) + 1)
        if not chars or rng.random() < 0.4:
            chars.insert(place, rng.choice(letters))
        elif rng.random() < 0.5:
            chars.pop(place - 1)
        else:
            chars[place - 1] = rng.choice(letters)
    return "".join(chars)


def accepts(automaton: Automaton, text: str) -> bool:
    """Whether `text` is legal, byte by byte."""
    state = automaton.walk(automaton.start, text.encode())
    return state != DEAD and automaton.is_accepting(state)


class _TooSlow(Exception):
    pass


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _TooSlow


@contextmanager
def _bounded() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def truth(pattern: re.Pattern[str], text: str) -> bool | None:
    """What `re` says; None where it does not come back (it may take exponential time)."""
    try:
        with _bounded():
            return pattern.fullmatch(text) is not None
    except _TooSlow:
        return None


def compiled(pattern: str) -> re.Pattern[str] | None:
    """`re`'s pattern; None where `re` refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except re.error:
        return None


def compare(pattern: str, rng: random.Random, texts: int = 30, samples: int = 10) -> str:
    """Hold the automaton of `pattern` against `re` on random, sampled and mutated texts.

    Returns:
        "ok", or the kind of the error with which the pattern was refused.
    """
    engine = compiled(pattern)
    assert engine is not None
    tried = [random_text(rng) for _ in range(texts)]
    try:
        automaton = regex_automaton(pattern)
        legal = sampled(automaton, rng, samples)
        tried += [mutated(text, rng) for text in legal]
        judged = [(text, accepts(automaton, text)) for text in tried]
    except ConstraintError as error:
        if error.kind not in ("unsatisfiable", "limit"):
            raise
        kind, legal, judged = error.kind, [], []
        if kind == "unsatisfiable":
            judged = [(text, False) for text in tried]
    else:
        kind = "ok"
    for text in legal:
        assert truth(engine, text) is not False, (pattern, text, "is no match")
    for text, said in judged:
        assert truth(engine, text) in (said, None), (pattern, text, "automaton says", said)
    return kind
