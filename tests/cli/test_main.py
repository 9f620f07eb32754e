"""The command as a whole: help, version, options from settings, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from support.cli import Sgc

from sgc.cli.backend import BackendSettings
from sgc.settings import RunSettings

# Options of parts that do not exist yet are unknown options.
RUN_OPTIONS = {
    *("--inputs", "--arg", "--output", "--backend", "--tools", "--stats", "--full-text"),
    *("--quiet", "--debug", "--help", "--resume", "--no-journal", "--assume-done", "--rerun"),
    *(
        "--model",
        "--dtype",
        "--device",
        "--kv-tokens",
        "--kv-memory",
        "--seam",
        "--order",
        "--weights",
        "--record",
        "--replay",
        "--no-cache",
        "--no-cache-tree",
        "--match-share",
        "--no-jump",
    ),
    *("--memory-share", "--attention", "--kv-dtype", "--deterministic", "--overlap", "--no-graphs"),
    *(
        "--graph-memory",
        "--max-graph-tokens",
        "--mixed-tokens",
        "--process",
        "--profile",
        "--trace",
        "--no-reorder",
        "--reorder-rows",
        "--explain-breaks",
    ),
}


def test_version_and_help(sgc_cli: Sgc) -> None:
    assert sgc_cli("--version").out == "sgc 0.1.0\n"
    shown = sgc_cli("--help").out
    for command in ("compile", "inspect", "diff", "run", "eval", "models"):
        assert command in shown
        assert sgc_cli(command, "--help").code == 0
        assert sgc_cli(command, "-h").out.startswith(f"Usage: sgc {command}")


def _flag(name: str, default: object) -> str:
    """What is so by default is switched off."""
    return f"--{'no-' if default is True else ''}{name.replace('_', '-')}"


def test_every_setting_is_an_option_with_its_default(sgc_cli: Sgc) -> None:
    shown = sgc_cli("run", "--help").out
    words = {line.split()[0] for line in shown.splitlines() if line.startswith("  --")}
    settings = {_flag(f.name, f.default) for f in fields(RunSettings)}
    assert words == (RUN_OPTIONS | settings) - {"--output", "--help"}  # those have a short form
    for default in ("(default 1.0)", "(default 128)", "(default 0)", "(default smollm2-135m)"):
        assert default in " ".join(shown.split())


def test_settings_and_backend_share_no_name() -> None:
    assert not {f.name for f in fields(RunSettings)} & {f.name for f in fields(BackendSettings)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["models", "list"],
        ["inspect", "greet.py"],
        ["inspect", "--fsm", "a|b"],
        ["compile", "greet.py", "-oG.sgc"],
    ],
)
def test_light_commands_import_no_torch(greet: Path, arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from sgc.cli.main import main\n"
        f"code = main({arguments!r})\n"
        "print([m for m in ('torch', 'transformers', 'rich') if m in sys.modules])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=greet.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_models_are_listed(sgc_cli: Sgc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SGC_CACHE", str(tmp_path))
    assert "smollm2-135m" in sgc_cli("models", "list").out
    assert "not fetched" in sgc_cli("models", "list").out
    (row,) = json.loads(sgc_cli("models", "list", "--json").out)
    assert (row["name"], row["license"], row["fetched"]) == ("smollm2-135m", "Apache-2.0", False)
    missing = sgc_cli("models", "path", "smollm2-135m")
    assert (missing.code, missing.out) == (3, "")
    assert "sgc models fetch smollm2-135m" in missing.err


def test_inspect_writes_what_it_prints(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    graph, drawn = tmp_path / "g.sgc", tmp_path / "drawn"
    assert sgc_cli("compile", greet, "-o", graph).code == 0
    for form in ("text", "mermaid", "dot", "svg", "json"):
        shown = sgc_cli("inspect", graph, "--format", form)
        assert shown.code == 0
        assert "greeting" in shown.out
        assert sgc_cli("inspect", graph, "--format", form, "-o", drawn).out == ""
        assert drawn.read_text() == shown.out
    assert sgc_cli("inspect", greet).out == sgc_cli("inspect", graph).out


def test_inspect_shows_the_automaton_of_a_regex(sgc_cli: Sgc, tmp_path: Path) -> None:
    shown = sgc_cli("inspect", "--fsm", '\\{"ok": (true|false)\\}')
    assert shown.out.splitlines() == [
        "state  ends  edge",
        '0            "{\\"ok\\": " => 1',
        '1            "false}" -> 2',
        '             "true}" -> 2',
        "2      yes",
    ]
    drawn = tmp_path / "fsm.svg"
    for form in ("mermaid", "dot", "svg", "json"):
        shown = sgc_cli("inspect", "--fsm", "no!?|yes", "--format", form)
        assert (shown.code, shown.err) == (0, "")
        assert sgc_cli("inspect", "--fsm", "no!?|yes", "--format", form, "-o", drawn).out == ""
        assert drawn.read_text() == shown.out


def test_inspect_shows_what_is_forced(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    program = tmp_path / "form.py"
    program.write_text(
        "import sgc\n\n@sgc.function\ndef form(s):\n"
        "    s += 'A: ' + sgc.gen('a', regex='<[a-z]+>')\n"
        "    s += ', B: ' + sgc.gen('b', regex='<[0-9]+>')\n"
    )
    shown = sgc_cli("inspect", program, "--forced")
    assert shown.out.splitlines() == [
        "form: %0 %1: 'A: <'",
        "form: %1 %2 %3: '>, B: <'",
        "form: %3: '>'",
    ]
    assert sgc_cli("inspect", greet, "--forced").out == "no text is forced\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fsm", "(a"], "--fsm: "),
        (["--fsm", r"(a)\1"], "--fsm: "),
        (["--fsm", "[a-z]{60000}"], "--fsm: the automaton has more than 50000 states"),
        (["--fsm", "[a-z]{1001}", "--format", "svg"], "too many for a picture"),
        (["--fsm", "a", "--forced"], "--forced is about a graph"),
        (["--fsm", "a", "g.sgc"], "give a graph or program, or --fsm REGEX"),
        ([], "give a graph or program, or --fsm REGEX"),
    ],
)
def test_inspect_refuses_what_it_cannot_show(
    sgc_cli: Sgc, arguments: list[str], words: str
) -> None:
    refused = sgc_cli("inspect", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err
    assert len(refused.err.splitlines()) == 1


def test_bound_arguments_are_constants_of_the_graph(
    sgc_cli: Sgc, greet: Path, tmp_path: Path
) -> None:
    graph = tmp_path / "g.sgc"
    assert sgc_cli("compile", greet, "-o", graph, "--bind", 'name="Ada"').code == 0
    assert sgc_cli("run", graph).rows[0]["value"]["greeting"] == "Hello there"
    assert sgc_cli("run", graph, "--arg", "name=Bo").code == 2


@pytest.mark.model
def test_the_default_model_runs_a_row(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    flags = ("--model", "smollm2-135m", "--kv-tokens", "2048", "--temperature", "0")
    result = sgc_cli("run", greet, "--arg", "name=Ada", *flags, "--stats", stats)
    assert result.code == 0
    assert result.rows[0]["usage"]["completion_tokens"] > 0
    numbers = json.loads(stats.read_text())
    assert numbers["decode_steps"] > 0
    assert numbers["tokenizer_calls"] > 0
    assert numbers["load_seconds"] > 0


def test_warnings_of_the_tracer_are_said_once(sgc_cli: Sgc, tmp_path: Path) -> None:
    program = tmp_path / "reads.py"
    program.write_text(
        "import sgc\n@sgc.function\ndef reads(s):\n    s += open(__file__).readline()\n"
    )
    for arguments in (["compile", program, "-o", tmp_path / "g.sgc"], ["run", program]):
        shown = sgc_cli(*arguments).err
        assert shown.count("sgc: warning: ") == 1
        assert f"{program}:4" in shown
    assert "warning" not in sgc_cli("run", program, "--quiet").err
