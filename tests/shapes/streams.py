"""Shapes 14 to 28: streams and roles."""

from __future__ import annotations

from shapes.catalog import shape

import sgc


@shape({"q": "T"})
def fork_and_read(s, q):
    s += "T " + q
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f" tip {i}:" + sgc.gen("tip", max_tokens=3)
    s += "\n1:" + forks[0]["tip"] + "2:" + forks[1]["tip"]
    s += sgc.gen("end", max_tokens=2)
    return [f["tip"] for f in forks]


@shape()
def fork_before_text(s):
    a, b = s.fork(2)
    a += "A" + sgc.gen("x", max_tokens=2)
    b += "B" + sgc.gen("x", max_tokens=2)
    s += a["x"] + b["x"] + sgc.gen("y", max_tokens=1)


@shape()
def fork_inside_a_fork(s):
    s += "root"
    outer = s.fork(2)
    for i, f in enumerate(outer):
        f += f" o{i}"
        inner = f.fork(2)
        for j, g in enumerate(inner):
            g += f" i{j}" + sgc.gen("v", max_tokens=2)
        inner.join()
        f += f["v"][0] + f["v"][1] + sgc.gen("w", max_tokens=1)
    outer.join()
    s += str(s["w"]) + str(s["v"]) + sgc.gen("z", max_tokens=1)


@shape()
def fork_of_one(s):
    s += "a"
    forks = s.fork(1)
    forks[0] += "b" + sgc.gen("v", max_tokens=1)
    forks.join()
    return s["v"], len(forks)


@shape(refused="width|fork")
def fork_of_none(s):
    s += "a"
    s.fork(0)


@shape({"n": 0}, fails="GenerationError")
def fork_of_run_time_none(s, n: int):
    s += "a"
    forks = s.fork(n)
    for f in forks:
        f += sgc.gen("v", max_tokens=1)
    return len(forks)


@shape()
def group_append(s):
    s += "p"
    forks = s.fork(3)
    forks += " all"
    forks += lambda i: f" no {i}"
    forks += [" x", " y", " z"]
    forks += sgc.gen("v", max_tokens=2)
    forks.join()
    return s["v"]


@shape()
def gather_two_variables(s):
    s += "p"
    s.set("mine", "kept")
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f"{i}" + sgc.gen("a", max_tokens=1) + sgc.gen("b", max_tokens=2)
        f.set("mine", "branch")
    forks.join("gather")
    s += str(s["a"]) + str(s["b"]) + s["mine"] + sgc.gen("c", max_tokens=1)


@shape()
def join_append(s):
    s += "p"
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f" [{i}]" + sgc.gen("a", max_tokens=1)
    forks.join("append")
    s += " after" + sgc.gen("c", max_tokens=1)
    return forks[0]["a"]


@shape()
def branch_that_nobody_reads(s):
    s += "p"
    forks = s.fork(2)
    forks[0] += "read" + sgc.gen("a", max_tokens=1)
    forks[1] += "unread" + sgc.gen("a", max_tokens=1)
    s += forks[0]["a"] + sgc.gen("c", max_tokens=1)


@shape({"n": 1}, {"n": 3})
def fork_with_argument_width(s, n: int):
    s += "tips:"
    forks = s.fork(n)
    for i, f in enumerate(forks):
        f += f" tip {i + 1}:" + sgc.gen("tip", max_tokens=2)
    s += "\n".join(f["tip"] for f in forks)
    s += sgc.gen("end", max_tokens=1)
    return n, [f["tip"] for f in forks]


@shape({"items": []}, {"items": ["only"]}, {"items": list("abcdefg")})
def fork_each_list_argument(s, items: list[str]):
    s += "each:"
    forks = s.fork_each(items)
    for f in forks:
        f += f" {f.item}:" + sgc.gen("v", max_tokens=2)
    forks.join()
    s += f"{len(items)} done" + sgc.gen("end", max_tokens=1)
    return [f["v"] for f in forks]


@shape({"items": ["x", "y", "z"]})
def fork_each_with_zip_and_enumerate(s, items: list[str]):
    s += "each:"
    forks = s.fork_each(items)
    for i, (f, d) in enumerate(zip(forks, items)):
        f += f" {i} {d} {f.item}" + sgc.gen("v", max_tokens=1)
    for f in forks:
        f += " second" + f["v"] + sgc.gen("w", max_tokens=1)
    best = sgc.vote([f["w"] for f in forks])
    for f in forks:
        f += best + sgc.gen("u", max_tokens=1)
    forks.join()
    return s["v"], s["w"], s["u"], best


@shape({"dims": ["clarity", "style"], "essay": "Long text."})
def judge(s, essay: str, dims: list[str] = ("a", "b", "c")):
    s += sgc.system("You grade essays.")
    s += sgc.user("Essay:\n" + essay)
    forks = s.fork(len(dims))
    for f, d in zip(forks, dims):
        f += sgc.user(f"Judge its {d} in one sentence.")
        f += sgc.assistant(sgc.gen("judgment", max_tokens=8, stop="\n"))
    s += sgc.user("Judgments:\n" + "\n".join(f["judgment"] for f in forks) + "\nGrade it.")
    s += sgc.assistant(sgc.select("grade", ["A", "B", "C", "D"]))
    return s["grade"]


@shape({"n": 2, "more": ["p", "q", "r"]}, {"n": 3, "more": ["p"]})
def run_time_fork_zipped_with_another_list(s, n: int, more: list[str]):
    s += "z"
    forks = s.fork(n)
    for f, m in zip(forks, more):
        f += m + sgc.gen("v", max_tokens=1)
    for f in forks:
        f += " next" + sgc.gen("w", max_tokens=1)
    return [f["w"] for f in forks]


@shape({"n": 2})
def nested_run_time_forks(s, n: int):
    s += "r"
    outer = s.fork(n)
    for i, f in enumerate(outer):
        f += f" o{i}"
        inner = f.fork(2)
        for j, g in enumerate(inner):
            g += f" i{j}" + sgc.gen("v", max_tokens=1)
        f += inner[0]["v"] + inner[1]["v"] + sgc.gen("w", max_tokens=1)
    return [f["w"] for f in outer]


@shape({"xs": ["a", "b"], "ys": ["1", "2", "3"]})
def run_time_fork_inside_run_time_fork(s, xs: list[str], ys: list[str]):
    s += "r"
    outer = s.fork_each(xs)
    for f in outer:
        f += f.item
        inner = f.fork_each(ys)
        for g in inner:
            g += f.item + g.item + sgc.gen("v", max_tokens=1)
        inner.join()
        f += ",".join(f["v"]) + sgc.gen("w", max_tokens=1)
    outer.join()
    return s["w"], s["v"]


@shape({"n": 3})
def run_time_group_append(s, n: int):
    s += "p"
    forks = s.fork(n)
    forks += " all"
    forks += lambda i: f" no {i}"
    forks += sgc.gen("v", max_tokens=2)
    forks.join("append")
    s += " end" + sgc.gen("w", max_tokens=1)
    return forks[0]["v"]


@shape()
def parent_goes_on_while_children_run(s):
    s += "p"
    forks = s.fork(2)
    forks[0] += "a" + sgc.gen("v", max_tokens=1)
    s += " parent" + sgc.gen("own", max_tokens=2)
    forks[1] += "b" + sgc.gen("v", max_tokens=1)
    s += forks[1]["v"] + sgc.gen("end", max_tokens=1)


@shape({"q": "x"})
def copy_as_context(s, q):
    s += "p " + q
    with s.copy() as t:
        t += " aside" + sgc.gen("side", max_tokens=2)
    s += t["side"] + sgc.gen("own", max_tokens=1)
    return t["side"]


@shape()
def variables_across_a_fork(s):
    s += "p" + sgc.gen("before", max_tokens=1)
    s.set("x", "parent")
    forks = s.fork(2)
    s.set("x", "later")
    forks[0].set("y", "only 0")
    forks[0] += forks[0]["before"] + forks[0]["x"] + forks[0]["y"] + sgc.gen("v", max_tokens=1)
    forks[1] += forks[1]["x"] + str("y" in forks[1]) + sgc.gen("v", max_tokens=1)
    s += s["x"] + str("v" in s) + s.get("nope", "default")
    s += sgc.gen("end", max_tokens=1)


@shape({"q": "in"})
def var_scope(s, q):
    s += "before"
    with s.var_scope("outer"):
        s += "o " + q
        with s.var_scope("inner"):
            s += "i" + sgc.gen("g", max_tokens=2)
        s += " tail"
    s += s["inner"] + "|" + s["outer"] + sgc.gen("end", max_tokens=1)
    return s["outer"]


@shape()
def two_forks_interleaved(s):
    s += "p"
    a = s.fork(2)
    b = s.fork(2)
    for i in range(2):
        a[i] += f"a{i}" + sgc.gen("v", max_tokens=1)
        b[i] += f"b{i}" + a[i]["v"] + sgc.gen("v", max_tokens=1)
    s += b[0]["v"] + b[1]["v"] + sgc.gen("end", max_tokens=1)


@shape({"q": "hi"})
def roles(s, q):
    s += sgc.system("Be brief.")
    s += sgc.user("One: " + q)
    s += sgc.assistant("Sure. " + sgc.gen("a", stop="\n"))
    with s.user():
        s += "Two: "
        s += q
        s += "!"
    with s.assistant():
        s += sgc.gen("b", max_tokens=3)
        s += " and "
        s += sgc.gen("c", max_tokens=2)
    return s.messages(), s.text()


@shape({"q": "hi"})
def roles_in_odd_order(s, q):
    s += sgc.assistant("I begin.")
    s += sgc.user(q)
    s += sgc.user(q + " again")
    s += sgc.assistant(sgc.gen("a", max_tokens=2))
    s += sgc.assistant(sgc.gen("b", max_tokens=2))


@shape({"q": "hi"})
def fork_inside_a_role(s, q):
    s += sgc.system("sys")
    with s.user():
        s += "open " + q
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += f" branch {i}" + sgc.gen("v", max_tokens=2)
        s += " parent " + forks[0]["v"] + forks[1]["v"]
    s += sgc.assistant(sgc.gen("a", max_tokens=2))
    return s.messages()


@shape({"q": "hi"})
def fork_between_roles(s, q):
    s += sgc.user(q)
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += sgc.assistant(f"{i}" + sgc.gen("v", max_tokens=2))
        f += sgc.user("more")
        f += sgc.assistant(sgc.gen("w", max_tokens=2))
    forks.join("append")
    s += sgc.user("end")
    s += sgc.assistant(sgc.gen("z", max_tokens=1))
    return s.messages()


@shape({"q": "hi"})
def raw_text_in_a_chat(s, q):
    s += "raw start "
    s += sgc.user(q)
    s += "raw middle" + sgc.gen("a", max_tokens=2)
    s += sgc.assistant(sgc.gen("b", max_tokens=2))


@shape({"path": "picture.png"})
def media(s, path):
    s += sgc.user(sgc.image(path) + "What is it?")
    s += sgc.assistant(sgc.gen("a", max_tokens=2))
    s += sgc.user(sgc.image(b"\x89PNGbytes") + sgc.video("clip.mp4", 4) + "And these?")
    s += sgc.assistant(sgc.gen("b", max_tokens=2))
    return s.messages()


@shape({"first": [], "second": []}, {"first": ["a"], "second": ["b", "c"]})
def joins_over_perhaps_no_items_inside_of_branches(s, first: list[str], second: list[str]):
    s += "p"
    forks = s.fork(2)
    for f, items in zip(forks, (first, second)):
        inner = f.fork_each(items)
        for g in inner:
            g += g.item + sgc.gen("u", max_tokens=1)
        inner.join()
        f += "after" + sgc.gen("w", max_tokens=1)
    forks.join()
    return s["w"]


@shape({"n": 3, "items": []}, {"n": 2, "items": ["a", "b"]})
def joins_over_perhaps_no_items_three_deep(s, n: int, items: list[str]):
    forks = s.fork(n)
    for f in forks:
        pair = f.fork(2)
        for g in pair:
            inner = g.fork_each(items)
            for h in inner:
                h += h.item + sgc.gen("u", max_tokens=1)
            inner.join()
            g += sgc.gen("w", max_tokens=1)
        pair.join()
        f += "q" + sgc.gen("x", max_tokens=1)
    forks.join()
    return s["w"]


@shape({"n": 3})
def default_of_a_variable_that_all_branches_have(s, n: int):
    forks = s.fork(n)
    for f in forks:
        f += sgc.gen("u", max_tokens=1)
    before = [f.get("u", "none") for f in forks]
    forks.join()
    return before, s.get("u"), "u" in s


@shape()
def fork_each_of_a_constant_empty_list(s):
    s += "p"
    forks = s.fork_each([])
    for f in forks:
        f += sgc.gen("v", max_tokens=1)
    forks.join()
    s += str("v" in s) + sgc.gen("w", max_tokens=1)
    return len(forks), [f["v"] for f in forks]


@sgc.function
def once_more(s, t):
    s += t + sgc.gen("v", max_tokens=1)


@shape({"p": "a"})
def branches_of_known_number_over_a_run_time_list(s, p: str):
    forks = s.fork_each(sorted([p]))
    for f, y in zip(forks, ["m"]):
        f += y + sgc.gen("w", max_tokens=1)
        once_more(f.item + y)
    for f in forks:
        f += "2" + sgc.gen("x", max_tokens=1)
    h = once_more("end")
    s += h["v"] + sgc.gen("z", max_tokens=1)


@shape({"xs": ["a"]}, refused="constant length in step with a run-time list")
def fork_over_no_items_in_step_with_a_list(s, xs: list[str]):
    forks = s.fork_each([])
    for f, x in zip(forks, xs):
        f.fork(2)
        f += x
