"""`--resume`: what is kept, what runs again and what is refused."""

from __future__ import annotations

import json
import linecache
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import Result, Sgc
from support.resuming import PROGRAM, Bench, refused

import sgc


def test_a_good_run_leaves_no_journal(bench: Bench) -> None:
    assert bench.run().code == 0
    assert sorted(path.name for path in bench.folder.glob("*out*")) == ["out.jsonl"]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_failed_rows_run_again_and_finished_nodes_do_not(bench: Bench, mode: str) -> None:
    assert bench.run("--mode", mode).code == 0
    unbroken = bench.read()
    bench.broken = {"second Bo"}
    failed = bench.run("--mode", mode)
    assert failed.code == 1
    assert bench.journal.exists()
    bench.broken = set()
    resumed = bench.run("--mode", mode, "--resume")
    assert (resumed.code, bench.read()) == (0, unbroken)
    assert [prompt.split(":")[-2] for prompt in bench.prompts] == [" 9 words follow second Bo"]
    assert not bench.journal.exists()
    assert "sgc: resuming; 2 of 3 rows had finished" in resumed.err


def test_names_of_nodes_that_ran_before_are_not_called_unknown(bench: Bench) -> None:
    flags = ("--mode", "interpreted", "--deadline", "TYPO=60")
    told = "deadline of TYPO: no node or tool that ran has that name"
    bench.broken = {"second Bo"}
    assert told in bench.run(*flags).err
    bench.broken = set()
    resumed = bench.run(*flags, "--resume")
    assert (resumed.code, told in resumed.err) == (0, False)


def test_finished_rows_keep_their_bytes(bench: Bench) -> None:
    bench.broken = {"Cy"}
    assert bench.run().code == 1
    first, second, _ = bench.read().splitlines()
    bench.broken = set()
    bench.backend.reply = lambda prompt, params: " another model"
    assert bench.run("--resume").code == 0
    assert bench.read().splitlines()[:2] == [first, second]
    assert "another model" in bench.read().splitlines()[2]


def test_rows_behind_a_gap_come_into_order(bench: Bench) -> None:
    assert bench.run().code == 0
    unbroken = bench.read()
    bench.broken = {"Ada"}
    assert bench.run("--parallel", "1").code == 1
    bench.write("out.jsonl", "".join(reversed(bench.read().splitlines(keepends=True))) + "torn {")
    bench.broken = set()
    assert bench.run("--resume").code == 0
    assert bench.read() == unbroken


def test_resume_fails_again_and_keeps_the_journal(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    before = bench.read()
    assert bench.run("--resume").code == 1
    assert bench.read() == before
    assert bench.journal.exists()


# -- refusals


def test_resume_without_a_journal(bench: Bench) -> None:
    refused(bench.run("--resume"), "there is no journal out.jsonl.journal")
    assert not bench.journal.exists()


def test_options_that_do_not_fit(bench: Bench, sgc_cli: Sgc) -> None:
    refused(bench.run("--resume", "--no-journal"), "--no-journal")
    refused(bench.run("--rerun", "0:g1"), "--rerun without --resume")
    refused(sgc_cli("run", "work.py", "--arg", "name=Ada", "--resume"), "--output")


def change_program(bench: Bench) -> None:
    bench.write("work.py", PROGRAM.replace("second", "next"))


def change_rows(bench: Bench) -> None:
    bench.write("rows.jsonl", bench.read("rows.jsonl").replace("Cy", "Di"))


def change_tool(bench: Bench) -> None:
    bench.write("my_tools.py", bench.read("my_tools.py").replace("n + 1", "n + 2"))


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_another_tool_is_refused(bench: Bench, mode: str) -> None:
    program = PROGRAM.replace("import sgc", "import sgc\nfrom my_tools import add", 1)
    bench.write("work.py", program.replace("second {name}", "second {name}{sgc.call(add, 1)}"))
    tool = "import sgc\n@sgc.tool(effect='pure')\ndef add(n):\n    return n + 1\n"
    bench.write("my_tools.py", tool)
    bench.broken = {"Bo"}
    assert bench.run("--mode", mode).code == 1
    change_tool(bench)
    sys.modules.pop("my_tools", None)
    linecache.clearcache()
    refused(bench.run("--mode", mode, "--resume"), "tool add is another one")


HELPED = """
import logging
import sgc
from helper import words

log = logging.getLogger("work")

@sgc.tool(effect="irreversible")
def pay():
    return 1

@sgc.function
def work(s, name: str):
    log.debug("row")
    s += f"First {name}:" + sgc.gen("a", max_tokens=3)
    s += words() + str(sgc.call(pay))
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("helper.py", "one", "two", "program is another one"),
        ("work.py", "return 1", "return 2", "tool pay is another one"),
    ],
)
def test_an_object_of_unknown_kind_hides_no_other_change(
    bench: Bench, file: str, old: str, new: str, told: str
) -> None:
    bench.write("helper.py", 'def words():\n    return "one"\n')
    bench.write("work.py", HELPED)
    bench.broken = {"Bo"}
    assert bench.run("--mode", "interpreted").code == 1
    bench.write(file, bench.read(file).replace(old, new))
    sys.modules.pop("helper", None)
    linecache.clearcache()
    refused(bench.run("--mode", "interpreted", "--resume"), told)


def test_an_irreversible_tool_is_known_before_the_first_row(bench: Bench) -> None:
    bench.write("helper.py", 'def words():\n    return "one"\n')
    bench.write("work.py", HELPED)
    sys.modules.pop("helper", None)
    refused(bench.run("--mode", "interpreted", "--retries", "pay=1"), "pay, which is irreversible")
    assert bench.prompts == []


def change_nothing(bench: Bench) -> None:
    pass


CHANGES: list[tuple[Callable[[Bench], None], tuple[str, ...], str]] = [
    (change_program, (), "program is another one"),
    (change_rows, (), "inputs is another one"),
    (change_nothing, ("--seed", "7"), "seed was 0 and is 7"),
    (change_nothing, ("--temperature", "0.5"), "temperature was 1.0 and is 0.5"),
    (change_nothing, ("--stop", "x"), "stop was [] and is ['x']"),
    (change_nothing, ("--full-text",), "--full-text was False and is True"),
    (change_nothing, ("--mode", "interpreted"), "mode was 'compiled' and is 'interpreted'"),
]


@pytest.mark.parametrize(("change", "flags", "words"), CHANGES)
def test_another_run_is_refused_by_what_differs(
    bench: Bench, change: Callable[[Bench], None], flags: tuple[str, ...], words: str
) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    output, journal = bench.read(), bench.journal.read_bytes()
    change(bench)
    refused(bench.run("--resume", *flags), "of another run", words)
    assert (bench.read(), bench.prompts) == (output, [])
    assert bench.journal.read_bytes() == journal


def test_another_backend_and_version_are_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    monkeypatch.setattr(bench.backend, "name", "other", raising=False)
    refused(bench.run("--resume"), "backend was 'scripted' and is 'other'")
    monkeypatch.undo()
    monkeypatch.chdir(bench.folder)
    monkeypatch.setattr("sgc.cli.fingerprint._version", lambda: "99")
    refused(bench.run("--resume"), "version of sgc was")


def test_a_comment_in_a_compiled_program_changes_nothing(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run("--mode", "compiled").code == 1
    bench.broken = set()
    bench.write("work.py", "# more words\n\n" + PROGRAM)
    assert bench.run("--mode", "compiled", "--resume").code == 0


def test_settings_that_change_no_result_may_differ(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    bench.broken = set()
    flags = ("--parallel", "1", "--row-deadline", "60", "--retries", "2", "--quiet")
    resumed = bench.run("--resume", *flags)
    assert (resumed.code, resumed.err) == (0, "")


def test_a_new_run_does_not_overwrite_finished_work(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    output = bench.read()
    for flags in ((), ("--no-journal",)):
        refused(bench.run(*flags), "2 rows finished", "--resume", "move it away")
    assert bench.read() == output
    bench.journal.unlink()
    assert bench.run().code == 1


@pytest.mark.parametrize("flags", [(), ("--no-journal",)])
def test_a_new_run_takes_the_place_of_one_in_which_nothing_finished(
    bench: Bench, flags: tuple[str, ...]
) -> None:
    bench.broken = {"First"}
    assert bench.run().code == 1
    bench.broken = set()
    assert bench.run("--seed", "3", *flags).code == 0
    assert not bench.journal.exists()


@pytest.mark.parametrize("text", ["my own notes", "SQLite format 3\0 and then nothing of it"])
def test_another_file_in_its_place_is_left_alone(bench: Bench, text: str) -> None:
    bench.journal.write_text(text)
    for flags in ((), ("--resume",), ("--no-journal",)):
        refused(bench.run(*flags), "out.jsonl.journal is damaged", "move it away")
        assert bench.journal.read_text() == text


def test_a_database_that_is_no_journal(bench: Bench) -> None:
    with sqlite3.connect(bench.journal) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    refused(bench.run(), "is no journal")


def test_a_journal_of_another_format(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run().code == 1
    with sqlite3.connect(bench.journal) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    refused(bench.run("--resume"), "format 99")


def test_an_empty_journal_is_of_a_run_that_never_began(bench: Bench) -> None:
    bench.journal.write_bytes(b"")
    refused(bench.run("--resume"), "run without --resume")
    assert bench.run().code == 0


def test_no_journal_leaves_none(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run("--no-journal").code == 1
    assert not bench.journal.exists()


def test_output_that_is_no_file_keeps_none(bench: Bench, sgc_cli: Sgc) -> None:
    sgc.set_default_backend(bench.backend)
    assert sgc_cli("run", "work.py", "--arg", "name=Ada", "-o", "/dev/null").code == 0
    assert not Path("/dev/null.journal").exists()


def test_the_journal_must_not_be_an_input(bench: Bench) -> None:
    bench.journal.write_text(bench.read("rows.jsonl"))
    refused(bench.run(inputs="out.jsonl.journal"), "is the input")


@pytest.mark.parametrize("name", ["out.jsonl.journal", "out.jsonl.journal-wal"])
def test_the_journal_must_not_be_the_record(bench: Bench, name: str) -> None:
    refused(bench.run("--record", name), "is the record")
    refused(bench.run("--stats", name), "is the statistics")
    assert not bench.read()
    assert not bench.read(name)


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_another_constant_of_a_module_is_refused(bench: Bench, mode: str) -> None:
    bench.write("constants.py", "FIRST = 'First'\n")
    text = PROGRAM.replace("import sgc\n", "import sgc\nfrom constants import FIRST\n", 1)
    bench.write("work.py", text.replace('f"First ', 'f"{FIRST} '))
    bench.broken = {"second Bo"}
    assert bench.run("--mode", mode).code == 1
    bench.broken = set()
    bench.write("constants.py", "FIRST = 'The first'\n")
    sys.modules.pop("constants", None)
    refused(bench.run("--mode", mode, "--resume"), "program is another one")


# -- records


@pytest.mark.parametrize("flags", [(), ("--resume",)])
def test_a_refused_run_makes_no_record(bench: Bench, flags: tuple[str, ...]) -> None:
    bench.write("out.jsonl.journal", "no journal at all")
    refused(bench.run("--record", "calls", *flags), "no journal")
    assert not (bench.folder / "calls").exists()


def test_a_refused_run_leaves_its_record_alone(bench: Bench) -> None:
    bench.broken = {"Bo"}
    assert bench.run("--record", "calls").code == 1
    recorded = bench.read("calls")
    assert recorded.count("\n") > 4
    refused(bench.run("--record", "calls"), "2 rows finished")
    assert bench.read("calls") == recorded


def test_a_replayed_run_resumes_on_the_same_record_only(bench: Bench) -> None:
    assert bench.run("--record", "calls").code == 0
    unbroken, recorded = bench.read(), bench.read("calls")
    kept = [line for line in recorded.splitlines(keepends=True) if "second Bo" not in line]
    bench.write("calls", "".join(kept))
    assert bench.run("--replay", "calls").code == 1
    bench.write("calls", recorded)
    refused(bench.run("--resume", "--replay", "calls"), "--replay is another one")
    bench.write("calls", "".join(kept))
    assert bench.run("--resume", "--replay", "calls").code == 1
    bench.journal.unlink()
    bench.write("calls", recorded)
    assert bench.run("--replay", "calls").code == 0
    assert bench.read() == unbroken


def test_a_resumed_recorded_run_makes_a_whole_record(bench: Bench) -> None:
    bench.broken = {"second Bo"}
    assert bench.run("--record", "calls").code == 1
    bench.broken = set()
    assert bench.run("--record", "calls", "--resume").code == 0
    unbroken = bench.read()
    assert bench.run("--replay", "calls").code == 0
    assert (bench.read(), bench.prompts) == (unbroken, [])


# -- rows that come from a pipe


def test_rows_of_standard_input_are_compared_as_they_come(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def feed(*names: str) -> None:
        read, write = __import__("os").pipe()
        with open(write, "w") as file:
            file.write("".join(json.dumps({"name": n}) + "\n" for n in names))
        monkeypatch.setattr("sys.stdin", open(read))

    bench.broken = {"Bo"}
    feed("Ada", "Bo", "Cy")
    assert bench.run(inputs="-").code == 1
    bench.broken = set()
    feed("Eve", "Bo", "Cy")
    refused_last(bench.run("--resume", inputs="-"), "input row 0 is not what it was")
    feed("Ada", "Bo")
    refused_last(bench.run("--resume", inputs="-"), "there are 2 input rows")
    feed("Ada", "Bo", "Cy")
    assert bench.run("--resume", inputs="-").code == 0
    assert [json.loads(line)["index"] for line in bench.read().splitlines()] == [0, 1, 2]


def refused_last(result: Result, words: str) -> None:
    assert result.code == 2
    assert words in result.err.splitlines()[-1]


@pytest.mark.parametrize("mode", ["interpreted"])
def test_a_program_that_does_not_repeat_itself_is_told_so(bench: Bench, mode: str) -> None:
    program = PROGRAM.replace("First {name}", "First {open('word').read()} {name}")
    bench.write("work.py", program)
    bench.write("word", "one")
    bench.broken = {"second Bo"}
    assert bench.run("--mode", mode).code == 1
    bench.broken = set()
    bench.write("word", "two")
    assert bench.run("--mode", mode, "--resume").code == 1
    error = json.loads(bench.read().splitlines()[1])["error"]
    assert error["message"].startswith("work[1] node g0")
    assert "does not repeat itself: this node had another prompt" in error["message"]


def test_two_names_of_one_output_have_one_journal(bench: Bench) -> None:
    bench.broken = {"second Bo"}
    bench.write("real.jsonl", "")
    (bench.folder / "out.jsonl").symlink_to("real.jsonl")
    assert bench.run().code == 1
    assert (bench.folder / "real.jsonl.journal").exists()
    assert not bench.journal.exists()
    bench.broken = set()
    (bench.folder / "out.jsonl").unlink()
    (bench.folder / "out.jsonl").symlink_to(bench.folder / "real.jsonl")
    assert bench.run("--resume").code == 0
    assert bench.read("real.jsonl").count("\n") == 3
    assert not list(bench.folder.glob("*.journal*"))


def test_rows_may_end_as_on_windows(bench: Bench) -> None:
    assert bench.run().code == 0
    plain = bench.read()
    rows = bench.read("rows.jsonl").replace("\n", "\r\n")
    (bench.folder / "windows.jsonl").write_bytes(b"\xef\xbb\xbf" + rows.encode())
    bench.broken = {"second Bo"}
    assert bench.run(inputs="windows.jsonl").code == 1
    bench.broken = set()
    refused(bench.run("--resume"), "inputs is another one")
    assert bench.run("--resume", inputs="windows.jsonl").code == 0
    assert bench.read() == plain
