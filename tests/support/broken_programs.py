"""Five programs with one part each that is not compiled."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from urllib.parse import quote

import sgc

NOTES = Path(tempfile.mkdtemp(prefix="sgc-test-")) / "notes.txt"


@sgc.function
def cleaned(s, question: str):
    """A regular expression on a generated text."""
    s += sgc.system("You answer in one line.")
    s += sgc.user(question)
    s += sgc.assistant(sgc.gen("draft", max_tokens=8))
    plain = re.sub(r"[^a-z ]", "", s["draft"])
    s += sgc.user(f"Shorten: {plain}")
    s += sgc.assistant(sgc.gen("short", max_tokens=4))
    forks = s.fork(2)
    for f, tone in zip(forks, ("kind", "cold"), strict=True):
        f += sgc.user(f"Say it in a {tone} way.")
        f += sgc.assistant(sgc.gen("said", max_tokens=4))
    forks.join()
    return plain, s["short"], s["said"]


@sgc.function
def parsed(s, question: str):
    """JSON that may be malformed, in a `try`."""
    s += f"Q: {question}\nJSON: "
    s += sgc.gen("answer", max_tokens=6, stop="\n")
    s += "\nCheck: " + sgc.select("check", ["fine", "odd"])
    try:
        found = json.loads(s["answer"])
    except ValueError:
        found = None
    steps = []
    for step in ("who", "what", "when", "where"):
        s += f"\n{step}: " + sgc.gen(step, max_tokens=3, stop="\n")
        if s[step]:
            steps.append(s[step].upper())
        s += " ok"
    s += "\nFound: " + str(found)
    s += sgc.gen("end", max_tokens=3)
    return {"found": found, "steps": steps, "check": s["check"]}


@sgc.function
def logged(s, question: str):
    """A file that is written and read while the program runs."""
    s += sgc.user(question)
    s += sgc.assistant(sgc.gen("first", max_tokens=5))
    note = s["first"] + "!"
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += sgc.user(f"View {i}")
        f += sgc.assistant(sgc.gen("view", max_tokens=3))
    views = [f["view"] for f in forks]
    kept = NOTES.write_text(note)
    s += sgc.user(f"{kept} characters kept. " + " / ".join(views))
    s += sgc.assistant(sgc.gen("last", max_tokens=5))
    if s["last"].startswith("alpha"):
        s += sgc.user("Go on.")
        s += sgc.assistant(sgc.gen("more", max_tokens=2))
    return note, views, s["last"]


@sgc.function
def about(s, name: str):
    s += f"About {name}: " + sgc.gen("about", max_tokens=4)
    if "yes" in s["about"]:
        return "known " + s["about"]
    return s["about"]


@sgc.function
def linked(s, names: list[str]):
    """A library call on generated text, beside sub-programs."""
    handles = [about(name) for name in names]
    s += "Names:\n"
    for name, h in zip(names, handles, strict=True):
        s += f"- {name}: {h.value}\n"
    s += "Best: " + sgc.gen("best", max_tokens=2, stop="\n")
    link = "https://example.org/" + quote(s["best"])
    s += f"\nSee {link}. Why? " + sgc.gen("why", max_tokens=5)
    s += "\nSure? " + sgc.select("sure", ["yes", "no"])
    if s["sure"] == "no":
        s += "\nInstead: " + sgc.gen("other", max_tokens=2)
    return link, s["sure"], [h["about"] for h in handles]


@sgc.function
def ranked(s, topic: str):
    """A sort by a key that calls a library."""
    s += f"Ideas on {topic}.\n"
    forks = s.fork(4)
    for i, f in enumerate(forks):
        f += f"Idea {i}: " + sgc.gen("idea", max_tokens=4)
        f += " Score: " + sgc.gen("score", dtype="int")
    ideas = [(f["idea"], f["score"]) for f in forks]
    best = sorted(ideas, key=lambda idea: (re.sub("[aeiou]", "", idea[0]), idea[1]))
    s += "Best first: " + "; ".join(idea for idea, _ in best)
    forks.join()
    total = sum(s["score"])
    if total > 4:
        s += f"\nTotal {total}. " + sgc.gen("end", max_tokens=3)
    return best, total


ROWS: dict[sgc.Program, list[dict[str, object]]] = {
    cleaned: [{"question": q} for q in ("Why?", "What now?", "FAIL")],
    parsed: [{"question": q} for q in ("a", "bb", "ccc", "FAIL it")],
    logged: [{"question": q} for q in ("x", "yy", "zzz")],
    linked: [{"names": n} for n in (["Ann"], ["Bo", "Cy"], [], ["FAIL"])],
    ranked: [{"topic": t} for t in ("tea", "rain", "stone")],
}
