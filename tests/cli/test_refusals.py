"""Bad input of every kind: one line with cause and place, the right exit code, no damage."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import Result, Sgc
from support.local import tiny_folder

from sgc.cli.failure import CommandError, message_of
from sgc.cli.output import writing
from sgc.testing import ScriptedBackend


def refused(result: Result, code: int, *words: str) -> None:
    """The command said one line and nothing else."""
    assert result.code == code, result.err
    assert result.out == ""
    assert result.err.startswith("sgc: error: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


# -- rows


def test_bad_rows_are_named_and_the_others_run(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"name": "Ada"}\n'
        "not json\n"
        '{"times": 2}\n'
        '{"name": "Bo", "age": 3}\n'
        '{"name": 5}\n'
        '{"name": "Bo", "times": true}\n'
        '{"name": "Mallory"}\n'
        '{"name": "Cy"}\n'
    )
    result = sgc_cli("run", greet, "--inputs", path)
    assert result.code == 1
    assert [row["index"] for row in result.rows] == list(range(8))
    assert [row["error"] is None for row in result.rows] == [True, *[False] * 6, True]
    words = ["not JSON", "missing argument name", "unknown argument age", "expected str"]
    for line, word in enumerate([*words, "expected int"], 2):
        error = result.rows[line - 1]["error"]
        assert error["type"] == "InputError"
        assert f"{path}:{line}" in error["message"]
        assert word in error["message"]
        assert f"{path}:{line}: " in result.err


def test_a_failed_call_names_its_node_and_source_line(sgc_cli: Sgc, greet: Path) -> None:
    result = sgc_cli("run", greet, "--arg", "name=Mallory")
    assert result.code == 1
    error = result.rows[0]["error"]
    assert (error["type"], error["node"]) == ("GenerationError", "g0")
    assert error["source"] == f"{greet}:8"
    assert "the line was cut" in error["message"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.jsonl", b'{"name": "\xff"}', "not UTF-8"),
        ("rows.json", b'[{"name": "Ada"}', "not JSON"),
        ("rows.csv", b'name\n"Ada', "not CSV"),
    ],
)
def test_unreadable_inputs(
    sgc_cli: Sgc, greet: Path, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    out = tmp_path / "out.jsonl"
    refused(sgc_cli("run", greet, "--inputs", path, "-o", out), 2, str(path), words)
    assert not out.exists()


BIASED = """
import sgc

@sgc.function
def inner(s):
    s += "a" + sgc.gen("v", logit_bias={"3": 1.0, "200": -1.0})

@sgc.function
def outer(s, items: list[str] = ()):
    for f in s.fork_each(items):
        f += "b" + sgc.gen("never", stop_token_ids=[300])
    handle = inner()
    s += "c" + sgc.gen("w", stop_token_ids=[99])
    return handle["v"]
"""


def test_token_ids_outside_of_the_vocabulary(
    sgc_cli: Sgc, greet: Path, scripted: ScriptedBackend, tmp_path: Path
) -> None:
    scripted.vocab_size = 100  # type: ignore[attr-defined]
    words = ("token id 100 is not in the model's vocabulary of 100 ids", "give ids below 100")
    run = ("run", greet, "--arg", "name=Ada", "--stop-token-ids", "5", "--stop-token-ids")
    refused(sgc_cli(*run, "100"), 2, "--stop-token-ids: ", *words)
    assert sgc_cli(*run, "99").code == 0
    (tmp_path / "biased.py").write_text(BIASED)
    scripted.calls.clear()
    result = sgc_cli("run", f"{tmp_path / 'biased.py'}:outer")
    refused(result, 2, "biased.py:6: logit_bias: token id 200 is not in the model's vocabulary")
    assert not scripted.calls


def test_missing_inputs(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    refused(sgc_cli("run", greet, "--inputs", tmp_path / "no.jsonl"), 2, "no such file")
    refused(sgc_cli("run", greet, "--inputs", tmp_path), 2, "folder")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--inputs"),
        (["name"], "NAME=VALUE"),
        (["=x"], "NAME=VALUE"),
        (["name=Ada", "name=Bo"], "twice"),
        (["name=Ada", "times=two"], "expected int"),
        (["name=Ada", "age=3"], "unknown argument age"),
        (["times=3"], "missing argument name"),
    ],
)
def test_bad_arguments(sgc_cli: Sgc, greet: Path, arguments: list[str], words: str) -> None:
    flags = [part for argument in arguments for part in ("--arg", argument)]
    refused(sgc_cli("run", greet, *flags), 2, words)


def test_rows_and_arguments_together(sgc_cli: Sgc, greet: Path, rows: Path) -> None:
    refused(sgc_cli("run", greet, "--inputs", rows, "--arg", "name=Ada"), 2, "--inputs")


# -- options


@pytest.mark.parametrize(
    "flags",
    [
        ["--resume"],
        ["--backend", "openai"],
        ["--mode", "fast"],
        ["--parallel", "0"],
        ["--temperature", "-1"],
        ["--top-p", "2"],
        ["--max-tokens", "many"],
        ["--kv-tokens", "0"],
        ["--dtype", "int3"],
    ],
)
def test_wrong_options(sgc_cli: Sgc, greet: Path, flags: list[str]) -> None:
    refused(sgc_cli("run", greet, "--arg", "name=Ada", *flags), 2)


def test_wrong_commands(sgc_cli: Sgc) -> None:
    refused(sgc_cli("serve"), 2, "serve", "--help")
    refused(sgc_cli("compile"), 2, "sgc compile --help")
    refused(sgc_cli(), 2)
    refused(sgc_cli("models"), 2, "Missing command", "sgc models --help")


# -- output


def test_output_that_cannot_be_written(
    sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "no" / "out.jsonl"):
        refused(sgc_cli("run", greet, "--inputs", rows, "-o", path), 2, str(path))
        refused(sgc_cli("run", greet, "--inputs", rows, "--stats", path), 2, str(path))
        refused(sgc_cli("compile", greet, "-o", path), 2, str(path))


def test_a_dash_is_standard_output_of_a_run_alone(
    sgc_cli: Sgc, greet: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(greet.parent)
    before = sorted(greet.parent.iterdir())
    result = sgc_cli("run", greet, "--inputs", rows, "-o", "-")
    assert result.code == 0
    assert len(result.rows) == len(rows.read_text().splitlines())
    for option in ("--stats", "--record"):
        refused(sgc_cli("run", greet, "--inputs", rows, option, "-"), 2, "cannot write -: ")
    refused(sgc_cli("compile", greet, "-o", "-"), 2, "cannot write -: ")
    after = [path for path in sorted(greet.parent.iterdir()) if path.name != "__pycache__"]
    assert after == before


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_file_descriptors_the_limit_is_named(number: int) -> None:
    error = OSError(number, os.strerror(number))
    assert message_of(error).endswith("; raise the limit of open files (ulimit -n)")
    with pytest.raises(CommandError, match="ulimit -n"), writing("out"):
        raise error


def test_output_equal_to_an_input(sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path) -> None:
    before = rows.read_text(), greet.read_text()
    refused(sgc_cli("run", greet, "--inputs", rows, "-o", rows), 2, "input")
    refused(sgc_cli("run", greet, "--inputs", rows, "--stats", rows), 2, "input")
    refused(sgc_cli("run", greet, "--inputs", rows, "-o", greet), 2, "program")
    refused(sgc_cli("compile", greet, "-o", greet), 2, "program")
    refused(sgc_cli("inspect", greet, "-o", greet), 2, "graph")
    refused(sgc_cli("run", greet, "--inputs", rows, "-o", rows, "--model", rows), 2, "input")
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    refused(sgc_cli("run", greet, "--arg", "name=A", "-o", model, "--model", model), 2, "the model")
    assert model.read_bytes() == b"GGUF"
    out = tmp_path / "same"
    refused(sgc_cli("run", greet, "--inputs", rows, "-o", out, "--stats", out), 2, "output")
    assert (rows.read_text(), greet.read_text()) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_write_that_fails(sgc_cli: Sgc, greet: Path) -> None:
    result = sgc_cli("run", greet, "--arg", "name=Ada", "-o", "/dev/full")
    refused(result, 2, "/dev/full", "No space left")
    for command in (["inspect", greet], ["compile", greet]):
        refused(sgc_cli(*command, "-o", "/dev/full"), 2, "cannot write /dev/full: No space left")
    result = sgc_cli("run", greet, "--arg", "name=Ada", "--stats", "/dev/full")
    assert result.code == 2
    assert "cannot write /dev/full: No space left" in result.err
    assert len(result.rows) == 1


def test_a_refused_run_leaves_the_old_output(
    sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    assert sgc_cli("run", greet, "--inputs", rows, "-o", out, "--model", "./none.gguf").code == 3
    assert sgc_cli("run", greet, "--inputs", tmp_path / "none", "-o", out).code == 2
    greet.write_text("def greet(s: pass")
    assert sgc_cli("run", greet, "--inputs", rows, "-o", out).code == 2
    assert out.read_text() == "kept"


# -- programs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "broken.py:1"),
        ("import sgc\nimport no_such_module\n", "broken.py:2: ModuleNotFoundError"),
        ("import sgc\n\n1 / 0\n", "broken.py:3: ZeroDivisionError"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
        ("x = 1\n", "no program"),
        ("import sgc\n@sgc.function\nasync def p(s):\n    pass\n", "broken.py:"),
        ("import sgc\n@sgc.function\ndef a(s): pass\n@sgc.function\ndef b(s): pass\n", "a, b"),
    ],
)
def test_broken_program_files(sgc_cli: Sgc, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    for command in ("run", "inspect"):
        refused(sgc_cli(command, path), 2, words)
    refused(sgc_cli("compile", path, "-o", tmp_path / "g.sgc"), 2, words)
    assert not (tmp_path / "g.sgc").exists()


def test_program_files_that_are_none(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    refused(sgc_cli("run", tmp_path / "no.py"), 2, "no file")
    refused(sgc_cli("run", tmp_path), 2, "folder")
    refused(sgc_cli("run", f"{greet}:gree"), 2, "greet")
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00")
    refused(sgc_cli("inspect", binary), 2, "binary.py")


def test_an_artefact_has_no_function(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    artefact = tmp_path / "g.sgc"
    sgc_cli("compile", greet, "-o", artefact)
    refused(sgc_cli("run", f"{artefact}:greet", "--arg", "name=Ada"), 2, "drop the :greet")
    refused(sgc_cli("inspect", f"{artefact}:greet"), 2, "drop the :greet")


@pytest.mark.parametrize("mode", ["auto", "compiled", "interpreted"])
def test_a_program_that_exits_ends_no_command(sgc_cli: Sgc, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "exits.py"
    path.write_text("import sgc, sys\n@sgc.function\ndef exits(s):\n    sys.exit(3)\n")
    result = sgc_cli("run", path, "--mode", mode)
    assert result.code == (2 if mode == "compiled" else 1)
    assert "SystemExit" in result.err
    refused(sgc_cli("compile", path, "-o", tmp_path / "g.sgc"), 2, "exits.py:4: SystemExit")


def test_line_breaks_of_every_kind_make_no_second_line(sgc_cli: Sgc, tmp_path: Path) -> None:
    path = tmp_path / "breaks.py"
    path.write_text("raise ValueError('a\\nb\\rc\\u2028d')\n")
    refused(sgc_cli("run", path), 2, "ValueError: a b c d;")


def test_one_of_several_programs_is_named(sgc_cli: Sgc, tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "import sgc\n"
        "@sgc.function\ndef a(s):\n    return 'a'\n"
        "@sgc.function\ndef b(s):\n    return 'b'\n"
    )
    assert sgc_cli("run", f"{path}:b").rows[0]["value"] == "b"


def test_a_refused_program_is_not_written(sgc_cli: Sgc, tmp_path: Path) -> None:
    path = tmp_path / "branchy.py"
    path.write_text(
        "import sgc\n@sgc.function\ndef branchy(s, n: int):\n    if type(n):\n        s += 'x'\n"
    )
    graph = tmp_path / "g.sgc"
    graph.write_text("kept")
    refused(sgc_cli("compile", path, "-o", graph), 2, f"{path}:4")
    refused(sgc_cli("inspect", path), 2, f"{path}:4")
    assert graph.read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["branchy.py", "g.sgc"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--bind", "name=Ada"], "quotes"),
        (["--bind", "name"], "NAME=VALUE"),
        (["--bind", "age=3"], "unknown argument age"),
        (["--bind", "times=true"], "expected int"),
    ],
)
def test_bad_bindings(
    sgc_cli: Sgc, greet: Path, tmp_path: Path, flags: list[str], words: str
) -> None:
    refused(sgc_cli("compile", greet, "-o", tmp_path / "g.sgc", *flags), 2, words)


# -- artefacts


def test_broken_artefacts(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    graph = tmp_path / "greet.sgc"
    assert sgc_cli("compile", greet, "-o", graph).code == 0
    good = graph.read_bytes()
    flipped = bytearray(good)
    flipped[-3] ^= 0x10
    for data in (b"", b"junk", good[: len(good) // 2], bytes(flipped), good + b"x"):
        graph.write_bytes(data)
        refused(sgc_cli("run", graph, "--arg", "name=Ada"), 2, str(graph))
        refused(sgc_cli("inspect", graph), 2, str(graph))
    refused(sgc_cli("run", tmp_path / "none.sgc"), 2, "none.sgc")


def test_a_missing_tool_is_refused_before_the_run(sgc_cli: Sgc, tmp_path: Path) -> None:
    program = tmp_path / "use.py"
    program.write_text(
        "import sgc\n"
        "@sgc.tool(effect='pure', name='only_here')\ndef only_here(n):\n    return n\n"
        "@sgc.function\ndef use(s, n: int):\n    return sgc.call(only_here, n)\n"
    )
    graph = tmp_path / "use.sgc"
    assert sgc_cli("compile", program, "-o", graph).code == 0
    from sgc.lang import tools

    tools._REGISTRY.pop("only_here")
    refused(sgc_cli("run", graph, "--arg", "n=1"), 2, "only_here", "--tools")


# -- models


def test_models_that_are_not_to_be_had(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"GIF89a" + bytes(1000))
    truncated = tmp_path / "truncated.gguf"
    truncated.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(8))
    empty = tmp_path / "folder"
    empty.mkdir()
    for model in (foreign, truncated, empty, "no-such-name", tmp_path / "none.gguf"):
        result = sgc_cli("run", greet, "--arg", "name=Ada", "--model", model, "--quiet")
        refused(result, 3, Path(model).name)


def test_unknown_model_names(sgc_cli: Sgc) -> None:
    refused(sgc_cli("models", "path", "nope"), 3, "nope", "smollm2-135m")
    refused(sgc_cli("models", "fetch", "nope"), 3, "nope")


# -- tracebacks


def test_tracebacks_only_with_debug(sgc_cli: Sgc, tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    assert "Traceback" not in sgc_cli("run", missing).err
    shown = sgc_cli("run", missing, "--debug")
    assert shown.code == 2
    assert "Traceback" in shown.err
    assert shown.err.splitlines()[-1].startswith("sgc: error: ")


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_closed_standard_output(greet: Path, command: str) -> None:
    (greet.parent / "hi.py").write_text("import sgc\n@sgc.function\ndef hi(s):\n    return 'hi'\n")
    line = f'exec "{sys.executable}" -m sgc {command} hi.py >&-'
    done = subprocess.run(
        ["sh", "-c", line], cwd=greet.parent, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        done.stderr == "sgc: error: cannot write standard output: it is closed; write to a file\n"
    )


@pytest.mark.parametrize("process", ["on", "off"])
def test_a_closed_standard_error(greet: Path, tmp_path: Path, process: str) -> None:
    model = tiny_folder(tmp_path / "model")
    flags = f'--model "{model}" --kv-tokens 2000 --process {process} --arg name=Ada'
    line = f'exec "{sys.executable}" -m sgc run greet.py {flags} 2>&-'
    done = subprocess.run(
        ["sh", "-c", line], cwd=greet.parent, stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["error"] is None


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_pipe_without_a_reader(greet: Path, command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    (greet.parent / "hi.py").write_text("import sgc\n@sgc.function\ndef hi(s):\n    return 'hi'\n")
    done = subprocess.run(
        [sys.executable, "-m", "sgc", command, "hi.py"],
        cwd=greet.parent,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert done.returncode == 2
    assert done.stderr.startswith("sgc: error: cannot write standard output: ")
    assert done.stderr.endswith("write to a file, or keep the reader open\n")
    assert done.stderr.count("\n") == 1
