"""Shapes 29 to 40: programs in programs, tools, choices, constraints, samples."""

from __future__ import annotations

import asyncio
from typing import Any

from shapes.catalog import shape

import sgc


@sgc.function
def expand(s, topic, words=2):
    s += f"Expand {topic}:"
    s += sgc.gen("v", max_tokens=words)
    return s["v"].strip().upper()


@sgc.function
def twice(s, topic):
    s += "twice " + topic
    h = expand(topic + "!", words=1)
    s += h["v"] + sgc.gen("v", max_tokens=1)
    return h.value, s["v"]


@sgc.function
def turn(s, question):
    s += sgc.user(question)
    s += sgc.assistant(sgc.gen("answer", max_tokens=2))
    return s["answer"]


@sgc.function
def countdown(s, n):
    s += f"{n} "
    if n > 0:
        h = countdown(n - 1)
        s += h["v"]
    s += sgc.gen("v", max_tokens=1)


@sgc.tool(effect="pure")
def shout(text: str, times: int = 1) -> str:
    return text.upper() * times


@sgc.tool(effect="repeatable")
def lookup(key: str) -> dict[str, Any]:
    return {"key": key, "hits": [len(key), key[::-1]]}


@sgc.tool(effect="irreversible")
async def record(text: str) -> int:
    await asyncio.sleep(0)
    return len(text)


@shape({"t": "cats"})
def sub_variable_text_and_value(s, t):
    h = expand(t)
    s += "main " + h["v"] + "|" + h.text() + "|" + h.value
    s += sgc.gen("a", max_tokens=1)
    return h.meta("v")["finish_reason"]


@shape({"t": "cats"})
def sub_called_twice(s, t):
    a = expand(t)
    b = expand("dogs", words=3)
    s += a["v"] + b["v"] + sgc.gen("a", max_tokens=1)


@shape()
def sub_called_in_a_loop(s):
    handles = [expand(f"topic {i}", words=i + 1) for i in range(3)]
    s += "\n".join(h["v"] for h in handles)
    s += sgc.gen("a", max_tokens=1)
    return [h.value for h in handles]


@shape({"topics": ["a", "b", "c"]}, {"topics": []})
def sub_called_over_a_list_argument(s, topics: list[str]):
    handles = [expand(t) for t in topics]
    s += "\n".join(f"{i}. {h['v']}" for i, h in enumerate(handles))
    s += sgc.gen("a", max_tokens=1)
    last = expand("last")
    s += last["v"] + sgc.gen("b", max_tokens=1)
    return [h.value for h in handles]


@shape({"topics": ["a", "b", "c"]})
def sub_values_appended_to_a_list(s, topics: list[str]):
    found = []
    for t in topics:
        h = expand(t)
        found.append(h["v"])
    s += " ".join(found) + sgc.gen("a", max_tokens=1)
    return found


@shape()
def same_names_in_caller_and_callee(s):
    s += "mine" + sgc.gen("v", max_tokens=1)
    h = expand("x")
    s += h["v"] + s["v"] + sgc.gen("w", max_tokens=1)
    return s["v"], h["v"]


@shape({"q": "first?"})
def call_continues_the_stream(s, q):
    s += sgc.system("sys")
    a = s.call(turn, q)
    b = s.call(turn, question="and " + a)
    s += sgc.user("done " + s["answer"])
    s += sgc.assistant(sgc.gen("z", max_tokens=1))
    return a, b


@shape()
def recursion_of_static_depth(s):
    h = countdown(3)
    s += h["v"] + sgc.gen("a", max_tokens=1)


@shape({"t": "x"})
def unused_sub_still_runs(s, t):
    expand(t)
    s += "main" + sgc.gen("a", max_tokens=1)


@shape({"t": "x"})
def sub_in_sub(s, t):
    h = twice(t)
    s += h["v"] + h.value[0] + sgc.gen("a", max_tokens=1)
    return h.value


@shape({"t": "x"})
def sub_inside_branches(s, t):
    s += "p"
    forks = s.fork(2)
    for i, f in enumerate(forks):
        h = expand(f"{t} {i}")
        f += h["v"] + sgc.gen("w", max_tokens=1)
    forks.join()
    return s["w"]


@shape({"n": 2})
def sub_inside_run_time_branches(s, n: int):
    s += "p"
    forks = s.fork(n)
    for i, f in enumerate(forks):
        h = expand(f"b {i}")
        f += h["v"] + sgc.gen("w", max_tokens=1)
    tail = expand("tail")
    s += tail["v"] + sgc.gen("end", max_tokens=1)
    return [f["w"] for f in forks]


@shape()
def returns_string(s):
    s += "a"
    return "constant"


@shape()
def returns_nested(s):
    s += "a" + sgc.gen("v", max_tokens=1)
    forks = s.fork(2)
    for f in forks:
        f += sgc.gen("w", max_tokens=1)
    return {"v": s["v"], "list": [f["w"] for f in forks], "t": (1, None, s["v"].strip())}


@shape()
def returns_none(s):
    s += "a" + sgc.gen("v", max_tokens=1)


@sgc.function
def _three(s, a, b, c=3):
    s += f"{a} {b} {c}"
    s += sgc.gen("v", max_tokens=1)


bound_one = shape({"a": 1}, {"a": 2, "c": "x"})(_three.bind(b="bound"))


@shape({"x": "hey"})
def tools_in_order(s, x: str):
    s += "t " + sgc.call(shout, x, times=2)
    a = sgc.call(lookup, x)
    sgc.call(record, "first")
    n = sgc.call(record, "second" + a["key"])
    s += f"{a['hits'][0]} {n} " + sgc.gen("v", max_tokens=1)
    s += sgc.call(shout, s["v"]) + sgc.gen("w", max_tokens=1)
    return a, n


@shape({"xs": ["a", "bb"]})
def tools_over_a_list(s, xs: list[str]):
    found = [sgc.call(lookup, x) for x in xs]
    s += " ".join(str(r["hits"][0]) for r in found) + sgc.gen("v", max_tokens=1)
    return found


@shape()
def select_many_choices(s):
    s += "Pick" + sgc.select("c", [f"choice {i}" for i in range(500)])
    s += sgc.select("p", ["a", "ab", "abc"]) + sgc.select("one", ["only"])
    s += s["c"] + sgc.gen("g", max_tokens=1)
    return s.meta("p")["scores"]


@shape(refused="equal|twice|distinct|duplicate")
def equal_choices(s):
    s += sgc.select("c", ["a", "b", "a"])


@shape()
def select_methods(s):
    s += sgc.user("Q")
    s += sgc.assistant(sgc.select("a", [" yes", " no"], method="greedy_token_selection"))
    s += "ends in a space "
    s += sgc.select("b", ["yes", "no"], method="unconditional_likelihood_normalized")
    s += sgc.gen("c", choices=["x", "y z"])
    return s["a"], s["b"], s["c"]


@shape()
def constraints(s):
    s += "r" + sgc.gen("r", regex=r"[0-9]{3}")
    s += "i" + sgc.gen("i", dtype=int)
    s += "f" + sgc.gen("f", dtype="float")
    s += "b" + sgc.gen("b", dtype=bool)
    s += "s" + sgc.gen("t", dtype=str)
    s += "g" + sgc.gen("g", grammar='start: NUM "+" NUM\nNUM: /[0-9]/')
    s += f"{s['i'] + 1} {s['f'] * 2} {not s['b']} {s['t'].upper()}"
    s += sgc.gen("z", max_tokens=1)
    return s["i"], s["f"], s["b"], s["t"]


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
}


@shape()
def json_schema_value(s):
    s += "j" + sgc.gen("j", json_schema=SCHEMA, max_tokens=64)
    s += f"{s['j']['name']} is {s['j']['age'] + 1}: {', '.join(s['j']['tags'])}"
    s += sgc.gen("z", max_tokens=1)
    return s["j"]


@shape()
def three_samples(s):
    s += "n" + sgc.gen("v", n=3, temperature=1.0, max_tokens=2)
    s += "|" + s["v"][2] + "|" + ",".join(s["v"])
    s += sgc.gen("w", max_tokens=1, n=2, seed=5)
    return s["v"], s["w"], len(s["v"])


@shape()
def stops(s):
    s += "a" + sgc.gen("a", stop=["er", "END"])
    s += "b" + sgc.gen("b", stop="never met", max_tokens=4)
    s += "c" + sgc.gen("c", stop_regex=r"[0-9]+")
    return [s.meta(v)["finish_reason"] for v in ("a", "b", "c")]


@shape({"k": 2})
def bounded_loop(s, k: int):
    for i in s.loop(max=3):
        s += f"step {i}" + sgc.gen(f"v{i}", max_tokens=1)
    return s["v2"]
