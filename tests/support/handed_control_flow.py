"""A program, or several, for each numbered line of the handed list of control flow."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sgc

LINES: dict[int, list[tuple[sgc.Program, tuple[dict[str, Any], ...]]]] = {}


def line(number: int, *rows: dict[str, Any]) -> Callable[[Callable[..., Any]], sgc.Program]:
    """Make a program that shows what a line of the list asks for."""

    def wrap(fn: Callable[..., Any]) -> sgc.Program:
        program = sgc.function(fn)
        LINES.setdefault(number, []).append((program, rows or ({},)))
        return program

    return wrap


@sgc.tool(effect="pure")
def most_frequent(words: list[str]) -> str:
    return max(sorted(set(words)), key=words.count)


@sgc.tool(effect="irreversible")
def send(text: str) -> str:
    return f"sent {text}"


@sgc.tool(effect="repeatable")
def look_up(text: str) -> str:
    return "yes" if len(text) % 2 else "no"


@line(1, {"essay": "An essay."})
def essay_judge(s, essay: str):
    s += essay + sgc.select("related", ["yes", "no"])
    if s["related"] == "no":
        return "unrelated"
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f"Judge {i}:" + sgc.gen("judgment", max_tokens=3)
    forks.join()
    s += "\n".join(s["judgment"]) + sgc.select("grade", ["A", "B", "C"])
    return s["grade"]


@line(2)
def four_choices(s):
    s += "pick" + sgc.select("c", ["a", "b", "c", "d"])
    if s["c"] == "a":
        s += "1" + sgc.gen("v")
    elif s["c"] == "b":
        s += "2" + sgc.gen("v")
    elif s["c"] == "c":
        s += "3" + sgc.gen("v")
    elif s["c"] == "d":
        s += "4" + sgc.gen("v")
    else:
        s += sgc.gen("impossible")
    return s["v"]


@line(3)
def independent_ifs(s):
    for i in range(10):
        s += f"q{i}" + sgc.gen(f"q{i}", max_tokens=1)
        if s[f"q{i}"] == "yes":
            s += "y" + sgc.gen(f"a{i}", max_tokens=1)
        else:
            s += "n" + sgc.gen(f"a{i}", max_tokens=1)
        s += sgc.gen(f"after{i}", max_tokens=1)
    return [s[f"a{i}"] for i in range(10)]


@line(4)
def nested_four_deep(s):
    s += sgc.gen("a")
    if s["a"] != "7":
        s += sgc.gen("b")
        if s["b"] != "7":
            s += sgc.gen("c")
            if s["c"] != "7":
                s += sgc.gen("d")
                if s["d"] != "7":
                    return "four"
                return "three"
            return "two"
        return "one"
    return "none"


@line(5)
def short_circuit(s):
    s += sgc.gen("a") + "b" + sgc.gen("b") + "c" + sgc.gen("c")
    a, b, c = s["a"], s["b"], s["c"]
    if (a == "yes" and b != "no") or not c.startswith("y"):
        s += "then" + sgc.gen("d")
    return s.get("d", "none")


@line(6)
def conditional_text(s):
    s += sgc.select("v", ["A", "B"])
    s += f"It is {'good' if s['v'] == 'A' else 'bad'}." + sgc.gen("w")


@line(7)
def match_literals(s):
    s += sgc.gen("v")
    match s["v"]:
        case "yes" | "no" as word:
            s += word + sgc.gen("w")
        case "7":
            return 7
        case other:
            return other
    return s["w"]


@line(8)
def react(s):
    for i in range(8):
        s += f"step {i}" + sgc.select("action", ["search", "finish"])
        if s["action"] == "finish":
            break
        s += sgc.gen("thought", max_tokens=2)
    else:
        s += "out of steps"
    s += sgc.gen("answer")
    return i


@line(9)
def continue_and_inner_break(s):
    found = []
    for i in range(3):
        s += f"{i}" + sgc.gen("v", max_tokens=1)
        if s["v"] == "no":
            continue
        for j in range(2):
            s += f".{j}" + sgc.gen("w", max_tokens=1)
            if s["w"] == "yes":
                break
            found.append(s["w"])
        found.append(i)
    return found


@line(10)
def bounded_whiles(s):
    n = 0
    while n < 4:
        s += sgc.gen("v", max_tokens=1)
        n += 2 if s["v"] == "yes" else 1
    for _ in s.loop(max=20):
        s += "again" + sgc.gen("w", max_tokens=1)
        if s["w"] != "no":
            break
    return n


@line(10)
def unbounded_while(s):  # refused
    s += sgc.gen("v")
    while s["v"] != "yes":
        s += sgc.gen("v")


@line(11, {"items": ["a", "b", "c"]}, {"items": []})
def state_from_item_to_item(s, items: list[str]):
    summary = "nothing"
    for item in items:
        s += f"So far {summary}; then {item}." + sgc.gen("sum", max_tokens=2)
        summary = s["sum"]
    return summary


@line(12)
def generated_bound(s):
    s += "how many" + sgc.gen("n", dtype=int)
    for i in s.loop(max=s["n"]):
        s += f"{i}" + sgc.gen("v", max_tokens=1)
    total = 0
    for i in range(min(s["n"], 6)):
        total += i
    return total


@line(13)
def accumulating(s):
    words, text, count, table = [], "", 0, {}
    for key in ("x", "y", "z"):
        s += key + sgc.gen("v", max_tokens=1)
        words.append(s["v"])
        text += s["v"] + ";"
        if s["v"] == "yes":
            count += 1
            table[key] = s["v"]
    s += f"{text} {count} {len(words)} {sorted(table)}" + sgc.gen("end")
    return words, text, count, table


@line(14)
def arms_in_branches(s):
    s += "start" + sgc.gen("go")
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f"b{i}" + sgc.gen("v", max_tokens=1)
        if f["v"] == "yes":
            f += "more" + sgc.gen("w", max_tokens=1)
        else:
            f.set("w", "none")
    if s["go"] == "no":
        pair = s.fork(2)
        for f in pair:
            f += "arm" + sgc.gen("u", max_tokens=1)
        pair.join()
    forks.join()
    return s["w"], s.get("u", "no fork")


@line(15)
def one_arm_with_default(s):
    s += sgc.gen("a")
    if s["a"] == "yes":
        s += sgc.gen("v")
    return s.get("v", "default")


@line(16)
def set_in_both_arms(s):
    s += sgc.gen("a")
    if s["a"] == "yes":
        s += "1" + sgc.gen("v")
    else:
        s += "2" + sgc.select("v", ["x", "y"])
    s += s["v"] + sgc.gen("end")
    return s.meta("v")["finish_reason"] if s["a"] == "yes" else s["v"]


@sgc.function
def judged(s, text):
    s += text + sgc.gen("ok", max_tokens=1)
    if s["ok"] == "yes":
        s += "why" + sgc.gen("why")
        return "good"
    return s["ok"]


@sgc.function
def deeper(s, depth: int):
    s += f"d{depth}" + sgc.gen("v", max_tokens=1)
    if depth == 0 or s["v"] == "yes":
        return depth
    return deeper(depth - 1).value


@line(17)
def sub_programs_in_arms(s):
    s += sgc.gen("a")
    if s["a"] == "yes":
        s += judged("one").value
    return s.text(), deeper(4).value


@line(18)
def tools_decide(s):
    s += sgc.gen("a")
    if sgc.call(look_up, s["a"]) == "yes":
        s += sgc.call(send, s["a"])
    return sgc.call(look_up, s.text())


@line(19)
def until_valid(s):
    for _ in range(3):
        s += "number:" + sgc.gen("n", max_tokens=1)
        if s["n"].strip().isdigit():
            break
    return s["n"]


@line(20)
def majority(s):
    forks = s.fork(5)
    for i, f in enumerate(forks):
        f += f"vote {i}" + sgc.gen("v", max_tokens=1)
    votes = [f["v"] for f in forks]
    return sgc.call(most_frequent, votes), sgc.vote(votes)


@line(21)
def beam(s):
    s += "think"
    kept = list(s.fork(3))
    for depth in range(3):
        for f in kept:
            f += f"{depth}:" + sgc.gen("step", max_tokens=2) + sgc.select("score", ["1", "2", "3"])
        best = sorted(kept, key=lambda f: f["score"], reverse=True)[:2]
        kept = [g for f in best for g in f.fork(2)]
    best[0] += "answer" + sgc.gen("answer")
    return best[0]["answer"], [f.text() for f in best]


@line(22, {"allowed": ["yes", "a"]}, {"allowed": []})
def comparisons(s, allowed: list[str]):
    s += sgc.gen("score", dtype=int) + "w" + sgc.gen("w")
    found = []
    if int(s["score"]) >= 3:
        found.append("high")
    if len(s["w"]) > 1:
        found.append("long")
    if s["w"] in ("yes", "no"):
        found.append("static")
    if s["w"] in allowed:
        found.append("allowed")
    s += ",".join(found) + sgc.gen("end")
    return found


@line(23)
def handled(s):
    try:
        s += "try" + sgc.gen("v")
        s += s["v"]
    except sgc.GenerationError:
        s += "sorry"
    s += sgc.gen("w")
    return s["w"]


@line(24, {"style": "short"})
def known_argument(s, style: str):
    if style == "short":
        s += "Briefly:" + sgc.gen("v")
    else:
        s += "At length:" + sgc.gen("v", max_tokens=50)
    return s["v"]


_CALLS = [0]


@line(25)
def differs_when_traced_twice(s):  # refused
    _CALLS[0] += 1
    if _CALLS[0] % 2:
        s += "odd"
    s += sgc.gen("v")


ALLOWED_TO_BE_REFUSED = {
    "unbounded_while": "no bound on this loop",
    "differs_when_traced_twice": "changes a list from outside while it is traced",
}
