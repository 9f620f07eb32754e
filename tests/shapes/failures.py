"""Shapes 41 to 46 and further refusals: what fails, and what must be refused by name."""

from __future__ import annotations

import json
import re

from shapes.catalog import shape

import sgc


@shape(fails="GenerationError")
def a_gen_raises_in_one_branch(s):
    s += "p"
    forks = s.fork(2)
    forks[0] += "FAIL here" + sgc.gen("v", max_tokens=1)
    forks[1] += "fine" + sgc.gen("v", max_tokens=1)
    s += forks[1]["v"] + forks[0]["v"] + sgc.gen("end", max_tokens=1)


@shape(fails="GenerationError")
def an_unread_branch_fails(s):
    s += "p"
    forks = s.fork(2)
    forks[0] += "FAIL here" + sgc.gen("v", max_tokens=1)
    s += "goes on" + sgc.gen("end", max_tokens=1)


@shape(refused="not set")
def unset_variable(s):
    s += "a" + s["nope"]


@shape(refused="not set")
def read_before_its_gen(s):
    s += "a" + s["v"] + sgc.gen("v", max_tokens=1)


@shape({"flag": True}, {"flag": False}, {"flag": ""})
def if_on_an_argument(s, flag):
    if flag:
        s += "yes"
    s += sgc.gen("v", max_tokens=1)


@shape()
def if_on_a_variable(s):
    s += sgc.gen("v", max_tokens=1)
    if s["v"] == "yes":
        s += "yes"
    else:
        s += "no"


@shape()
def while_on_a_variable(s):
    s += sgc.gen("v", max_tokens=1)
    i = 0
    while s["v"] != "stop" and i < 2:
        s += sgc.gen("v", max_tokens=1)
        i += 1


@shape()
def range_of_a_variable(s):
    s += "a" + sgc.gen("n", dtype=int)
    for _ in range(int(s["n"])):
        s += sgc.gen("v", max_tokens=1)


@shape({"xs": ["a", "b"]}, {"xs": []})
def gens_into_one_stream_over_a_list(s, xs: list[str]):
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)


@shape({"xs": ["a", "b"]}, {"xs": []})
def carried_state_over_a_list(s, xs: list[str]):
    total = ""
    for x in xs:
        total = total + x
    s += total + sgc.gen("v", max_tokens=1)


@shape()
def condition_with_a_partial_operand(s):
    s += sgc.gen("v", max_tokens=1)
    s += str(s["v"] and int("1" + s["v"] + "x"[:0]) if s["v"] == "zz" else "ok")
    s += sgc.gen("w", max_tokens=1)


@shape({"x": "abc"}, refused=r"sgc\.call|bind")
def foreign_function(s, x):
    m = re.search("b", x)
    s += str(m is not None) + sgc.gen("v", max_tokens=1)


@shape({"x": "[1]"}, refused=r"sgc\.call|bind")
def foreign_json(s, x):
    s += str(json.loads(x)) + sgc.gen("v", max_tokens=1)


@shape({"x": "ff"}, refused="int")
def int_with_a_base(s, x):
    s += str(int(x, 16)) + sgc.gen("v", max_tokens=1)


@shape({"x": "a"})
def dictionary_of_a_symbol(s, x):
    s += {"a": "A"}[x] + sgc.gen("v", max_tokens=1)


@shape({"x": "a"}, refused="isinstance")
def type_question(s, x):
    s += str(isinstance(x, str)) + sgc.gen("v", max_tokens=1)


@shape()
def handler_around_a_gen(s):
    try:
        s += "FAIL" + sgc.gen("v", max_tokens=1)
        s += s["v"]
    except sgc.GenerationError:
        s += "\nhandled"
    s += sgc.gen("w", max_tokens=1)
    return s["w"]


@shape(refused="role")
def nested_roles(s):
    with s.user():
        s += "a"
        s += sgc.assistant("b")


@shape(refused="lacks|has no|not set|branch")
def gather_lacks_a_variable(s):
    s += "p"
    forks = s.fork(2)
    forks[0] += sgc.gen("v", max_tokens=1)
    forks.join()
    return s["v"]


@shape(refused="joined|join")
def append_after_join(s):
    s += "p"
    forks = s.fork(2)
    for f in forks:
        f += sgc.gen("v", max_tokens=1)
    forks.join()
    forks[0] += "late"


@shape(refused="choices")
def samples_with_choices(s):
    s += sgc.gen("v", n=2, choices=["a", "b"])


@shape(refused="constraint|regex")
def two_constraints(s):
    s += sgc.gen("v", regex="a", dtype=int)


@shape(refused="regex")
def broken_regex(s):
    s += sgc.gen("v", regex="(")


@shape({"x": 5}, fails="GenerationError")
def bad_run_time_parameter(s, x):
    s += "a" + sgc.gen("v", temperature=x, max_tokens=-x)


@shape({"i": 7, "l": ["a"]}, fails="IndexError")
def index_out_of_range(s, i: int, l: list[str]):  # noqa: E741
    s += l[i] + sgc.gen("v", max_tokens=1)


@shape({"k": None}, fails="GenerationError")
def choices_that_are_none_when_it_runs(s, k):
    s += "a" + sgc.select("v", k)


@shape({"q": ["x"]}, refused="in place")
def run_time_list_changed_under_two_names(s, q):
    r = q
    q += ["n"]
    s += str(r) + sgc.gen("v", max_tokens=1)


@shape({"first": [], "second": ["b"]}, fails="GenerationError")
def one_branch_joins_no_items(s, first: list[str], second: list[str]):
    s += "p"
    forks = s.fork(2)
    for f, items in zip(forks, (first, second)):
        inner = f.fork_each(items)
        for g in inner:
            g += g.item + sgc.gen("u", max_tokens=1)
        inner.join()
    forks.join()
    return "done"


@shape({"items": []}, {"items": ["a"]}, refused="depends on the number of branches")
def default_of_a_variable_joined_from_perhaps_no_items(s, items: list[str]):
    forks = s.fork_each(items)
    for f in forks:
        f += f.item + sgc.gen("u", max_tokens=1)
    forks.join()
    return s.get("u", "none"), "u" in s


@shape({"n": 3, "items": ["a"]}, refused="depends on the number of branches")
def default_of_a_variable_that_some_branches_have(s, n: int, items: list[str]):
    forks = s.fork(n)
    for f, item in zip(forks, items):
        f += item + sgc.gen("u", max_tokens=1)
    return [f.get("u", "none") for f in forks]


@shape({"items": []}, {"items": ["a"]}, refused="whether their parent had it")
def gathered_over_a_variable_that_may_be_unset(s, items: list[str]):
    forks = s.fork_each(items)
    for f in forks:
        f += f.item + sgc.gen("v", max_tokens=1)
    forks.join()
    pair = s.fork(2)
    for f in pair:
        f += "x" + sgc.gen("v", max_tokens=1)
    pair.join()


@sgc.function
def gathers(s, items: list[str]):
    forks = s.fork_each(items)
    for f in forks:
        f += f.item + sgc.gen("u", max_tokens=1)
    forks.join()


@shape({"items": []}, fails="GenerationError")
def variable_that_a_sub_program_did_not_set(s, items: list[str]):
    h = gathers(items)
    return h["u"]


@shape(refused="became text")
def gen_inside_of_an_f_string(s):
    s += f"Answer: {sgc.gen('v', max_tokens=1)}"


@shape({"q": "x"}, refused="list")
def list_that_holds_a_gen(s, q):
    s += ["a", sgc.gen("v", max_tokens=1), q]
