"""Programs called by programs: handles, concurrency, counters, errors."""

from __future__ import annotations

import asyncio

import pytest

import sgc


@sgc.function
def sub(s, topic, words: int = 1):
    s += f"{topic}:" + sgc.gen("v", max_tokens=words)
    return s["v"].strip()


def test_a_handle_reads_like_a_finished_state(interpret, prompts):
    def program(s):
        s += "main " + sgc.gen("v")
        h = sub("cats")
        return (h["v"], h.value, h.text(), h.messages(), h.meta("v")["finish_reason"],
                "v" in h, "w" in h, h.get("w", 0), h.error(), s["v"])  # fmt: skip

    state = interpret(program)
    assert state.value == (" 1", "1", "cats: 1", [], "length", True, False, 0, None, " 1")
    assert prompts() == {"g0": "main ", "c0/g0": "cats:"}


def test_independent_sub_programs_overlap():
    waiting = 0

    @sgc.tool(effect="pure", name="handle_tests_meet")
    async def meet():
        """Ends only when all ten wait at the same time."""
        nonlocal waiting
        waiting += 1
        while waiting < 10:
            await asyncio.sleep(0.005)
        return "x"

    @sgc.function
    def met(s):
        return sgc.call(meet)

    def program(s):
        return [h.value for h in [met() for _ in range(10)]]

    state = sgc.function(program).run(mode="interpreted")
    assert state.value == ["x"] * 10


def test_sub_programs_that_call_each_other_do_not_wait_for_threads(interpret):
    @sgc.function
    def countdown(s, n):
        s += f"{n}" + sgc.gen("v")
        return [n, *(countdown(n - 1).value if n else [])]

    assert interpret(countdown, 30).value == list(range(30, -1, -1))


def test_an_unread_sub_program_still_runs_and_its_failure_counts(interpret, backend):
    def fine(s):
        sub("unread")
        s += "x"

    def failing(s):
        sub("FAIL")
        s += "x"

    assert interpret(fine).error() is None
    assert [call["prompt"] for call in backend.calls] == ["unread:"]
    error = interpret(failing).error()
    assert isinstance(error, sgc.GenerationError)
    assert (error.program, error.node) == ("sub", "c0/g0")


def test_counters_and_paths_of_calls(interpret, prompts):
    def program(s):
        sub("a")
        (f,) = s.fork(1)
        f.call(outer)
        sub("b")
        s.call(outer)

    @sgc.function
    def outer(s):
        sub("in " + str(len(s.text())))
        s += "o" + sgc.gen("v")

    assert interpret(program).error() is None
    assert set(prompts()) == {
        "c0/g0",
        "f0[0]/c0/g0",
        "f0[0]/g0",
        "c1/g0",
        "c2/g0",
        "g0",
    }


def test_call_continues_stream_counters_and_variables(interpret, prompts):
    @sgc.function
    def more(s, question, *, tail="?"):
        s += question + tail + sgc.gen("answer")
        return s["answer"]

    def program(s):
        s += "start " + sgc.gen("answer")
        first = s["answer"]
        second = s.call(more, "next", tail="!")
        return first, second, s["answer"]

    state = interpret(program)
    assert state.value == (" 1", " 2", " 2")
    assert prompts() == {"g0": "start ", "g1": "start  1next!"}


def test_arguments_are_copies(interpret):
    @sgc.function
    def takes(s, items):
        items.append("own")
        return items

    def program(s, items):
        mine = ["a"]
        h = takes(mine)
        mine.append("late")
        items.clear()
        return h.value, mine

    rows = [1, 2]
    assert interpret(program, rows).value == (["a", "own"], ["a", "late"])
    assert rows == [1, 2]


def test_names_of_caller_and_callee_are_separate(interpret):
    def program(s):
        s += "mine here" + sgc.gen("v")
        h = sub("one")
        return s["v"], h["v"]

    assert interpret(program).value == (" 2", " 1")


def test_wrong_arguments_fail_at_the_call(interpret):
    def missing(s):
        sub()

    def unknown(s):
        sub("x", nope=1)

    def wrong_type(s):
        sub("x", words="three")

    def not_a_program(s):
        s.call(len, "x")

    for program, kind, words in [
        (missing, sgc.InputError, "missing argument topic"),
        (unknown, sgc.InputError, "unknown argument nope"),
        (wrong_type, sgc.InputError, "argument words: expected int"),
        (not_a_program, sgc.CompileError, "give a program made by @sgc.function"),
    ]:
        error = interpret(program).error()
        assert isinstance(error, kind), program
        assert words in str(error)


def test_a_program_outside_of_a_program_says_how_to_run_it():
    with pytest.raises(sgc.SgcError, match=r"sub\.run"):
        sub("x")


def test_streams_cannot_be_returned(interpret):
    def branch(s):
        return s.fork(1)[0]

    def inside(s):
        return {"f": [s.fork(1)[0]]}

    def whole(s):
        return s.fork(2)

    for program in (branch, inside, whole):
        error = interpret(program).error()
        assert isinstance(error, sgc.CompileError), program
        assert f"{program.__name__} returns a branch" in str(error)


def test_a_returned_handle_is_the_finished_sub_program(interpret):
    def program(s):
        return [sub("x"), sub("y z", words=2)]

    first, second = interpret(program).value
    assert first["v"] == " 1"
    assert first.value == "1"
    assert second.text() == "y z: 2"
    assert second.error() is None
    assert first.usage.prompt_tokens == 1
    assert second.usage.prompt_tokens == 2


def test_usage_and_error_of_a_handle_count_its_branches(interpret):
    @sgc.function
    def wide(s, word):
        s.fork_each(["a", word]).__iadd__(sgc.gen("v"))

    def program(s):
        fine = wide("b")
        return fine.usage.completion_tokens, fine.error()

    seen = []

    def program_with_failure(s):
        seen.append(failing().error())

    @sgc.function
    def failing(s):
        s.fork(1)[0].extend("FAIL" + sgc.gen("v"))

    assert interpret(program).value == (2, None)
    state = interpret(program_with_failure)
    assert isinstance(state.error(), sgc.GenerationError)
    assert seen == [state.error()]
    assert state.value is None


def test_a_handle_belongs_to_its_program(interpret):
    kept = []

    def program(s):
        kept.append(sub("x"))

    assert interpret(program).error() is None
    with pytest.raises(sgc.SgcError, match="outside"):
        kept[0].value  # noqa: B018
