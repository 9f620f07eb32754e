"""Irreversible tools and `--resume`: they run once, and unknown outcomes wait for a decision."""

from __future__ import annotations

import json

from support.resuming import Bench, refused

TOOL = """
import sgc

@sgc.tool(effect="irreversible")
def pay(name):
    with open("paid", "a") as file:
        file.write(name + "\\n")
    if BREAKS:
        raise RuntimeError("the line was cut")
    return {"paid": name}

@sgc.function
def work(s, name: str):
    s += f"First {name}:" + sgc.gen("a", max_tokens=3)
    paid = sgc.call(pay, name)
    s += f" second {paid}:" + sgc.gen("b", max_tokens=3)
    return [paid, s["b"]]
"""


def test_a_tool_that_ended_does_not_run_again_when_its_row_does(bench: Bench) -> None:
    bench.write("work.py", TOOL.replace("BREAKS", "False"))
    bench.broken = {"second"}
    assert bench.run().code == 1
    bench.broken = set()
    assert bench.run("--resume").code == 0
    assert sorted(bench.read("paid").split()) == ["Ada", "Bo", "Cy"]
    assert [json.loads(line)["value"][0]["paid"] for line in bench.read().splitlines()] == [
        "Ada",
        "Bo",
        "Cy",
    ]


def unknown_outcomes(bench: Bench) -> None:
    """A run that broke off while the tool of each row ran."""
    bench.write("work.py", TOOL.replace("BREAKS", "True"))
    assert bench.run().code == 1
    assert sorted(bench.read("paid").split()) == ["Ada", "Bo", "Cy"]
    resumed = bench.run("--resume")
    assert resumed.code == 1
    errors = [json.loads(line)["error"] for line in bench.read().splitlines()]
    for row, error in enumerate(errors):
        assert "outcome unknown: pay began" in error["message"]
        assert f"--assume-done {row}:g1 or --rerun {row}:g1" in error["message"]
        assert error["node"] == "g1"
    assert sorted(bench.read("paid").split()) == ["Ada", "Bo", "Cy"]


def test_unknown_outcomes_wait_for_a_decision(bench: Bench) -> None:
    unknown_outcomes(bench)
    (bench.folder / "paid").unlink()
    flags = ("--assume-done", '0:g1={"paid": "yes"}', "--rerun", "1:g1", "--assume-done", "2:g1")
    resumed = bench.run("--resume", *flags)
    assert resumed.code == 1
    values = [json.loads(line)["value"] for line in bench.read().splitlines()]
    assert values[0][0] == {"paid": "yes"}
    assert values[1] is None  # it breaks again, and waits again
    assert values[2][0] is None
    assert bench.read("paid").split() == ["Bo"]
    assert bench.run("--resume", "--assume-done", "g1=5").code == 0
    values = [json.loads(line)["value"][0] for line in bench.read().splitlines()]
    assert values == [{"paid": "yes"}, 5, None]


def test_no_handler_takes_an_unknown_outcome(bench: Bench) -> None:
    program = TOOL.replace("BREAKS", "name == 'Bo'").replace(
        "    paid = sgc.call(pay, name)\n",
        "    try:\n"
        "        paid = sgc.call(pay, name)\n"
        "    except sgc.GenerationError:\n"
        "        paid = 'nothing'\n",
    )
    bench.write("work.py", program)
    bench.broken = {"second nothing"}
    assert bench.run("--mode", "interpreted").code == 1
    bench.broken = set()
    assert bench.run("--mode", "interpreted", "--resume").code == 1
    assert "outcome unknown" in json.loads(bench.read().splitlines()[1])["error"]["message"]
    assert bench.run("--mode", "interpreted", "--resume", "--rerun", "1:g1").code == 0
    assert json.loads(bench.read().splitlines()[1])["value"][0] == "nothing"


def test_retries_of_an_irreversible_tool_are_refused_before_the_first_row(bench: Bench) -> None:
    bench.write("work.py", TOOL.replace("BREAKS", "False"))
    for mode in ("compiled", "interpreted"):
        refused(
            bench.run("--retries", "pay=2", "--mode", mode), "retries=2 for pay", "irreversible"
        )
    assert not bench.prompts
    assert not bench.read()
    assert not bench.journal.exists()


def test_values_of_assumed_tools_may_be_large(bench: Bench) -> None:
    unknown_outcomes(bench)
    value = {"paid": [10**400, -1e300, "\ud83d", {"é": None}]}
    given = json.dumps(value)
    assert bench.run("--resume", "--assume-done", f"g1={given}").code == 0
    assert [json.loads(line)["value"][0] for line in bench.read().splitlines()] == [value] * 3


def test_decisions_that_fit_no_node(bench: Bench) -> None:
    unknown_outcomes(bench)
    waiting = "these do: 0:g1, 1:g1, 2:g1"
    refused(bench.run("--resume", "--rerun", "0:g2"), "--rerun 0:g2: no such node", waiting)
    refused(bench.run("--resume", "--rerun", "7:g1"), "no such node")
    for value in ("{", "1e999", "NaN", "[-Infinity]", '{"a": {"b": [-1e400]}}', '{"a": 1, "a": 2}'):
        refused(bench.run("--resume", "--assume-done", f"0:g1={value}"), "not JSON data")
    refused(bench.run("--resume", "--assume-done", "0:g1=" + "9" * 5000), "5000 digits is too long")
    deep = "[" * 300 + "]" * 300
    refused(bench.run("--resume", "--assume-done", f"0:g1={deep}"), "nested deeper than 200")
    refused(bench.run("--resume", "--assume-done", "0:g1", "--rerun", "g1"), "decided on twice")
