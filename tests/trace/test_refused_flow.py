"""Refusals of what differs from path to path, from pass to pass, or from branch to branch."""

from __future__ import annotations

import io

import pytest
from support.refusals import Case, Program, assert_refused, noting

import sgc

CASES: list[Case] = []
refused = noting(CASES)


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return False


@sgc.function
def sub(s, topic):
    s += topic + sgc.gen("v", max_tokens=1)


@refused("`x` is not set on every path; set it before")
def local_set_in_one_arm(s, p: bool):
    if p:
        x = "a"
    s += x  # here


@refused(r"variable 'v' is not set on every path; set it before, or use s.get\(.v., default\)")
def variable_set_in_one_arm(s, p: bool):
    if p:
        s += sgc.gen("v")
    s += s["v"]  # here


@refused("`t` is a different stream, function or object on each path; move the use into the arms")
def another_stream_on_each_path(s, p: bool):
    forks = s.fork(2)
    t = forks[0]
    if p:
        t = forks[1]
    t += "x"  # here


@refused("`out` is a list that has another name too on one path.*copy it on both")
def alias_on_one_path(s, p: bool):
    base: list[str] = []
    out: list[str] = []
    if p:
        out = base
    out.append("x")  # here
    return base


@refused(r"another chat turn is open on each path after this \(user or none\)")
def turn_left_open_in_one_arm(s, p: bool):
    turn = s.user()
    if p:  # here
        turn.__enter__()


@refused("an unnamed gen or select behind arms.*give it a name")
def unnamed_behind_uneven_arms(s, p: bool):
    if p:
        s += sgc.gen()
    s += sgc.gen()  # here


@refused("an iterator is used in one arm")
def iterator_in_an_arm(s, p: bool):
    it = iter(["a", "b"])
    if p:
        s += next(it)  # here


@refused("an iterator that a loop has left on some paths only")
def iterator_left_on_some_paths(s):
    it = iter(["a", "b"])
    for x in it:
        s += x + sgc.gen("v")
        if s["v"] == "yes":
            break
    return next(it)  # here


@refused("one of the run's on one path and one of the program's own on another")
def raised_again_whoever_raised(s, p: bool):
    try:  # here
        s += sgc.gen("v", max_tokens=1)
        s += s["v"]
        if p:
            raise ValueError("own")
    except Exception:
        s += "no"
        raise


@refused("a value of this dict is set on some paths only")
def display_of_a_key_on_some_paths(s, p: bool):
    d = {}
    if p:
        d["a"] = 2
    return {"a": 1, **d}  # here


@refused(r"`\*\*` of a run-time value")
def run_time_keywords(s, x):
    return dict(**x)  # here


@refused("this branch was put in an order that the run decides")
def moved_branch(s):
    forks = list(s.fork(2))
    for f in forks:
        f += sgc.gen("n", dtype=int)
    best = max(forks, key=lambda f: f["n"])
    return best["n"], forks[0]["n"]  # here


@refused("a set has another content on each path")
def set_changed_in_one_arm(s, p: bool):
    seen = set()
    if p:  # here
        seen.add("a")


@refused("exit is code that is not compiled")
def foreign_manager_left_on_some_paths(s, p: bool):
    with io.StringIO():  # here
        if p:
            return "left"


@refused("no bound on this loop; write `for _ in s")
def while_on_a_generated_value(s):
    s += sgc.gen("v")
    while s["v"] != "yes":  # here
        s += sgc.gen("v")


@refused("`n` becomes a list from outside of the loop at line .*copy it")
def list_from_outside_carried(s, xs: list[str]):
    row: list[str] = []
    n = ["first"]
    for _ in xs:
        n = row
    return n  # here


@refused(r"no bound on this loop; write `for _ in s\.loop\(max=N\)")
def while_without_bound(s, x):
    while x < 3:  # here
        x += 1


@refused("`last` is first set in a pass of the loop at line .*set it before the loop")
def local_of_a_loop_read_behind_it(s, xs: list[str]):
    for x in xs:
        last = x
    s += last  # here


@refused("each pass gives the same list")
def same_list_in_every_pass(s, xs: list[str]):
    row = []
    return [(x, row) for x in xs]  # here


@refused("has another name too on one path.*copy it on both")
def shared_list_as_one_of_two_values(s, p: bool):
    base = ["a"]
    x = base if p else ["b"]  # here
    base.append("c")
    return x


@refused("fork or list of constant length in step with a run-time list.*fork_each")
def constant_fork_zipped_with_a_list(s, xs: list[str]):
    for f, x in zip(s.fork(2), xs, strict=False):  # here
        f += x


@refused("branch is changed that is not the one of this pass")
def one_branch_in_every_pass(s, n: int):
    forks = s.fork(n)
    for _ in range(n):
        forks[0] += "x"  # here


@refused("branch is changed that is not the one of this pass")
def branch_of_a_run_time_index(s, n: int):
    forks = s.fork(n)
    forks[n - 1] += "x"  # here


@refused("read from another branch while the passes write it")
def first_branch_read_while_all_are_written(s, n: int):
    forks = s.fork(n)
    for f in forks:  # here
        f += sgc.gen("v") + forks[0].get("v", "none")


@refused("which of the branches this is")
def branch_compared_with_the_first(s, n: int):
    forks = s.fork(n)
    return [f is forks[0] for f in forks]  # here


@refused("which of the handles this is")
def handle_compared_with_the_first(s, xs: list[str]):
    handles = [sub(x) for x in xs]
    return [h is handles[0] for h in handles]  # here


@refused("joined")
def append_after_a_run_time_join(s, n: int):
    forks = s.fork(n)
    for f in forks:
        f += sgc.gen("v")
    forks.join()
    forks[0] += "late"  # here


@refused("unnamed gen")
def unnamed_gen_in_one_branch(s, n: int):
    forks = s.fork(n)
    forks[0] += sgc.gen()  # here


@refused("list of run-time length is deleted")
def item_deleted_from_a_list_of_run_time_length(s, xs: list[str]):
    found = [x + "." for x in xs]
    del found[0]  # here
    return found


@refused("read in a loop over run-time values inside of a `try`.*put the `try` into the loop")
def handler_around_a_loop(s, xs: list):
    forks = s.fork_each(xs)
    for f in forks:
        f += sgc.gen("v")
    try:
        for f in forks:  # here
            f += f["v"] + sgc.gen("w")
    except sgc.GenerationError:
        return []


@refused("in a `with` block inside of a `try`.*put the `try` into the block")
def handler_around_a_manager(s):
    s += sgc.gen("v")
    try:
        with Manager():  # here
            return s["v"]
    except sgc.GenerationError:
        return ""


@refused("`.args` of an error that the run raises is not compiled; an error has reason, program")
def arguments_of_an_error(s):
    s += sgc.gen("v")
    try:
        return s["v"]
    except sgc.GenerationError as e:
        return e.args  # here


@refused("var_scope in a program whose `try` takes what the run raises")
def piece_beside_a_handler(s):
    s += sgc.gen("v")
    with s.var_scope("piece"):  # here
        s += "a"
    try:
        return s["v"]
    except sgc.GenerationError:
        return ""


@refused("read it of all branches before they are put in an order")
def unread_variable_of_a_chosen_branch(s):
    forks = s.fork(2)
    for f in forks:
        f += sgc.gen("v") + sgc.gen("w")
    try:
        best = max(forks, key=lambda f: f["v"])
        s += best["w"]  # here
    except sgc.GenerationError:
        s += "none"


@refused("variable 'v' is not set in the stream of unset_read.*s.get")
def unset_read(s):
    return s["v"]  # here


@refused("variable 'v' is not set in branch")
def unset_read_in_a_run_time_branch(s, n: int):
    forks = s.fork(n)
    return [f["v"] for f in forks]  # here


@refused("variable 'nope' is not set in sub; set there: v")
def unset_read_of_a_handle(s):
    return sub("x")["nope"]  # here


@pytest.mark.parametrize(("fn", "words"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_refused_with_line_expression_and_advice(fn: Program, words: str) -> None:
    assert_refused(fn, words)
