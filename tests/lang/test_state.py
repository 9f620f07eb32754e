"""The live state: order, variables, text, turns, scopes. Expected prompts are written out."""

from __future__ import annotations

import sgc
from sgc.lang.source import shown_file


def test_pieces_are_appended_in_order(interpret, prompts):
    def program(s, q):
        s += "A " + q + " " + sgc.gen("a") + " B"
        s.extend("C" + sgc.gen("b"))
        s += ["x", 1]
        s += {"k": None}
        s += 2.5
        s += None
        s += True
        s += sgc.gen("c")

    state = interpret(program, "word")
    assert state.error() is None
    assert prompts() == {
        "g0": "A word ",
        "g1": "A word  2 BC",
        "g2": "A word  2 BC 4['x', 1]{'k': None}2.5NoneTrue",
    }
    assert state.vars == {"a": " 2", "b": " 4", "c": " 7"}
    assert state.text().endswith("NoneTrue 7")


def test_a_list_is_appended_as_it_was(interpret, prompts):
    def program(s):
        items = ["a"]
        s += items
        s.set("kept", items)
        stops = ["x"]
        piece = sgc.gen("v", stop=stops)
        items.append("b")
        stops.append("y")
        s += piece
        return s["kept"]

    state = interpret(program)
    assert prompts() == {"g0": "['a']"}
    assert state.value == ["a"]


def test_a_read_gives_the_last_write_before_it(interpret):
    def program(s):
        s += "one" + sgc.gen("v")
        first = s["v"]
        s += " two" + sgc.gen("v")
        return first, s["v"]

    state = interpret(program)
    assert state.value == (" 1", " 3")
    assert state["v"] == " 3"


def test_unnamed_calls_count_per_stream(interpret):
    def inner(s):
        s += "d" + sgc.gen()

    inner_program = sgc.function(inner)

    def program(s):
        s += "a" + sgc.gen() + "b" + sgc.select(choices=["x", "y"])
        (f,) = s.fork(1)
        f += "c" + sgc.gen()
        s.call(inner_program)
        assert f["_1"] != s["_1"]
        return [s["_1"], s["_2"], s["_3"]], f["_1"]

    state = interpret(program)
    assert state.error() is None
    assert len(state.value[0]) == 3
    assert state.vars == {}
    assert "_3" in state
    assert "_4" not in state


def test_get_set_and_in(interpret):
    def program(s):
        s.set("x", {"deep": [1]})
        found = "x" in s, "nope" in s, s.get("nope"), s.get("nope", 3), s.get("x")
        s.set("x", 2)
        return found, s["x"], s.meta("x")

    state = interpret(program)
    assert state.value == ((True, False, None, 3, {"deep": [1]}), 2, {})
    assert state.vars == {"x": 2}


def test_unset_variable_names_itself_the_stream_and_the_line(interpret):
    def program(s):
        s += "a" + sgc.gen("there")
        s["nope"]

    error = interpret(program).error()
    assert isinstance(error, sgc.GenerationError)
    assert "'nope'" in str(error)
    assert "there" in str(error)
    assert error.source is not None
    assert error.source.startswith(shown_file(__file__))


def test_var_scope_captures_text_also_nested(interpret):
    def program(s):
        s += "before "
        with s.var_scope("outer"):
            s += "o"
            with s.var_scope("inner"):
                s += "i" + sgc.gen("g")
            s += "t"
        s += "after"
        return s["inner"], s["outer"]

    assert interpret(program).value == ("i 2", "oi 2t")


def test_text_messages_and_meta_wait(interpret):
    def program(s):
        s += sgc.user("hi")
        s += sgc.assistant("so" + sgc.gen("a", stop=["9"]) + "!")
        return s.text(), s.messages(), s.meta("a")["finish_reason"]

    text, messages, reason = interpret(program).value
    assert text.startswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nso ")
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["content"].startswith("so ")
    assert reason == "eos"


def test_loop_is_bounded_and_ends_silently(interpret):
    def program(s):
        seen = list(s.loop(max=3))
        for i in s.loop(max=5):
            if i == 1:
                break
        return seen, i, list(s.loop(max=0))

    assert interpret(program).value == ([0, 1, 2], 1, [])


def test_loop_refuses_a_bad_bound(interpret):
    def program(s):
        for _ in s.loop(max=-1):
            pass

    error = interpret(program).error()
    assert isinstance(error, sgc.CompileError)
    assert error.file == shown_file(__file__)


def test_stream_gives_pieces_that_make_the_text(backend, interpret):
    backend.reply = lambda prompt, params: " one two three"

    def program(s):
        s += "a" + sgc.gen("v")
        s.set("w", 5)
        return list(s.stream("v")), list(s.stream("w"))

    pieces, constant = interpret(program).value
    assert "".join(pieces) == " one two three"
    assert len(pieces) > 1
    assert constant == ["5"]


def test_stream_of_a_failed_gen_raises(interpret):
    def program(s):
        s += "FAIL" + sgc.gen("v")
        list(s.stream("v"))

    error = interpret(program).error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "g0"


def test_what_is_no_text_is_refused_with_its_line(interpret):
    @sgc.function
    def sub(s):
        s += "x"

    def handle(s):
        s += sub()

    def branch(s):
        s += s.fork(1)[0]

    def group(s):
        s += s.fork(1)

    def function(s):
        s += len

    for program, word in [(handle, "sub-program"), (branch, "branch"), (group, "branch"),
                          (function, "len")]:  # fmt: skip
        error = interpret(program).error()
        assert isinstance(error, sgc.CompileError), program
        assert word in str(error)
        assert error.file == shown_file(__file__)


def test_bytes_images_and_videos_reach_the_backend(backend, interpret):
    class Picture:
        mode = "RGB"

        def save(self, target, format):
            target.write(b"png bytes")

    def program(s):
        s += sgc.user(sgc.image(Picture()) + "what" + sgc.video(b"mp4", num_frames=3))
        s += sgc.assistant(sgc.gen("v"))

    assert interpret(program).error() is None
    media = backend.calls[0]["media"]
    assert [m.data for m in media] == [b"png bytes", b"mp4"]
    assert media[1].num_frames == 3


def test_a_state_is_not_iterable(interpret):
    def program(s):
        return list(s)

    error = interpret(program).error()
    assert type(error) is TypeError
    assert "a state cannot be iterated" in str(error)


def test_error_of_a_stream_does_not_take_it(interpret):
    seen = []

    def program(s):
        s += "fine" + sgc.gen("v")
        seen.append(s.error())
        s += "FAIL" + sgc.gen("v")
        seen.append(s.error())

    state = interpret(program)
    assert seen[0] is None
    assert seen[1] is state.error()
    assert isinstance(state.error(), sgc.GenerationError)
