"""`--explain-breaks`, and runs in compiled parts on the command line: stats, journal, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc
from support.resuming import Bench

PROGRAM = """
import re
import sgc

@sgc.tool(effect="repeatable")
def count(text):
    return len(text)

@sgc.function
def ask(s, name):
    s += f"Ask {name}:" + sgc.gen("a", max_tokens=2)
    return s["a"]

@sgc.function
def work(s, name: str):
    s += f"First {name}:" + sgc.gen("a", max_tokens=3)
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f" part {i}:" + sgc.gen("p", max_tokens=2)
    forks.join()
    plain = re.sub("[0-9]+", "#", s["a"])
    s += f" {plain} {sgc.call(count, plain)} second {name}:" + sgc.gen("b", max_tokens=3)
    s += ask(name).value
    return s["b"]
"""


@pytest.fixture(autouse=True)
def program(bench: Bench) -> None:
    bench.write("work.py", PROGRAM)


def test_a_run_equals_the_interpreter_and_says_what_python_ran(bench: Bench) -> None:
    found = bench.run("--explain-breaks", "--stats", "stats.json", "--full-text", "--no-journal")
    assert found.code == 0, found.err
    mixed, calls = bench.read(), list(bench.backend.calls)
    breaks = [line for line in found.err.splitlines() if line.startswith("sgc: break:")]
    [line] = breaks
    assert "work.py:21: re.sub(" in line
    assert "(3 times)" in line
    numbers = json.loads(bench.read("stats.json"))
    assert numbers["compiled_nodes"] > 4 * numbers["interpreted_nodes"]
    assert numbers["breaks"][0]["line"] == 21
    assert bench.run("--mode", "interpreted", "--full-text", "--no-journal").code == 0
    assert bench.read() == mixed
    assert sorted(map(repr, bench.backend.calls)) == sorted(map(repr, calls))


def test_finished_nodes_do_not_run_again_across_regions(bench: Bench) -> None:
    bench.broken = {"second Bo"}
    failed = bench.run()
    assert failed.code == 1
    [row] = [json.loads(r) for r in bench.read().splitlines() if json.loads(r)["error"]]
    assert row["error"]["node"] == "g2"
    assert row["error"]["source"] == "work.py:22"
    bench.broken = set()
    resumed = bench.run("--resume")
    assert resumed.code == 0, resumed.err
    assert sorted(bench.prompts) == sorted(p for p in bench.prompts if "Bo" in p)
    assert len(bench.prompts) == 1  # the second gen of that row
    texts = bench.read()
    bench.journal.unlink(missing_ok=True)
    assert bench.run("--mode", "interpreted").code == 0
    assert bench.read() == texts


def test_a_trace_has_the_nodes_of_all_regions(bench: Bench) -> None:
    assert bench.run("--trace", "trace.json", "--no-journal").code == 0
    events = json.loads(bench.read("trace.json"))
    named = {e.get("name") for e in (events if isinstance(events, list) else events["traceEvents"])}
    assert {"gen a", "gen b", "gen p"} <= named or {"a", "b", "p"} <= named, named


def test_a_compiled_run_has_no_breaks(bench: Bench) -> None:
    bench.write("work.py", PROGRAM.replace('re.sub("[0-9]+", "#", s["a"])', 's["a"].upper()'))
    found = bench.run("--explain-breaks", "--stats", "stats.json")
    assert found.code == 0, found.err
    assert "no breaks" in found.err
    numbers = json.loads(bench.read("stats.json"))
    assert numbers["interpreted_nodes"] == 0
    assert numbers["compiled_nodes"] > 0


def test_compile_lists_all_breaks_and_writes_nothing(tmp_path: Path, sgc_cli: Sgc) -> None:
    source = PROGRAM.replace('    return s["b"]\n', '    print(s["b"])\n    return s["b"]\n')
    (tmp_path / "work.py").write_text(source)
    found = sgc_cli("compile", "work.py", "-o", "g.sgc", "--explain-breaks")
    assert found.code == 2
    assert [line.split(": ")[0] for line in found.out.splitlines()] == ["work.py:21", "work.py:24"]
    assert "re.sub got a run-time value" in found.err
    assert not (tmp_path / "g.sgc").exists()
