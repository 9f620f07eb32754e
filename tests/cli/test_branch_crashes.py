"""A graph with branches that is killed anywhere and resumed takes the same arms, each tool once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import ClassVar

import pytest
from support.crash import HEAD, Crashes, random_kill

from sgc_ir.codec import encode
from sgc_ir.text import parse_program

TOOLS = """
@sgc.tool(effect="irreversible")
def pay(name):
    took_effect("pay " + name)
    return {"paid": name}

@sgc.tool(effect="irreversible")
def mail(name):
    took_effect("mail " + name)
    return {"mailed": name}

@sgc.tool(effect="irreversible")
async def tell(name):
    took_effect("tell " + name)
    return {"told": name}
"""
# Whether a row pays or mails, and how many passes its loop makes, depends on what is generated.
GRAPH = """
program work
tools {"mail": "irreversible", "pay": "irreversible", "tell": "irreversible"}

graph work(name: str, size: int) {
  %0 = Argument append=True name="name"
  %1 = Gen name="plan" ordinal=0 max_tokens=3
  %2 = Expr fn="len" args=(%1,)
  %3 = Expr fn="%" args=(%2, 2)
  %4 = Branch cond=%3
  %5 = Call if %4 tool="pay" effect="irreversible" args=(%0,) ordinal=1
  %6 = Expr if %4 fn="text" args=(%5,) append=True
  %7 = Gen if not %4 name="why" ordinal=1 max_tokens=4
  %8 = Call if not %4 tool="mail" effect="irreversible" args=(%0,) ordinal=2
  %9 = Merge values=(%5, %8) tokens=((%4, True), (%4, False))
  %10 = Merge values=(2, 3) tokens=((%4, True), (%4, False))
  %11 = Loop over=() item_params=() index_param="i" captures={"first": %10, "name": %0} max=6
      carried={"at": 0, "last": UNSET} body work.loop(i, first, name, at, last) {
    %0 = Argument name="i"
    %1 = Argument name="first"
    %2 = Argument name="name"
    %3 = Expr fn="*" args=(%0, 2)
    %4 = Expr fn="+" args=(%1, %3)
    %5 = Expr fn="+" args=(%4, 1)
    %6 = Gen name="step" ordinal=%4 max_tokens=2
    %7 = Expr fn="len" args=(%6,)
    %8 = Expr fn="%" args=(%7, 3)
    %9 = Expr fn="==" args=(%8, 0)
    %10 = Branch cond=%9
    %11 = Call if %10 tool="tell" effect="irreversible" args=(%2,) ordinal=%5
    %12 = Merge values=(1, 0) tokens=((%10, True), (%10, False))
    %13 = Return value=%6 vars={"at": %5, "last": %6} kind=%12
  }
  %12 = Variable name="at" of=%11 field="output"
  %13 = Expr fn="text" args=(%9,) append=True
  %14 = Gen name="end" ordinal=100 max_tokens=3
  %15 = Return value=(%9, %12, %14) vars={"plan": %1, "end": %14}
}
"""

# A step that fails is taken; what was done behind it is not done again.
TAKING = """
program work
tools {"check": "repeatable", "mail": "irreversible", "pay": "irreversible", "tell": "irreversible"}

graph work(name: str, size: int) {
  %0 = Argument append=True name="name"
  %1 = Gen name="plan" ordinal=0 max_tokens=3
  %2 = Call tool="check" effect="repeatable" args=(%1,) ordinal=1
  %3 = Branch cond=%2 on="failed" catch=("GenerationError",)
  %4 = Variable if %3 name="error" of=%3 field="error"
  %5 = Expr if %3 fn="getitem" args=(%4, "reason")
  %6 = Expr if %3 fn="text" args=(%5,) append=True
  %7 = Gen if %3 name="why" ordinal=2 max_tokens=4
  %8 = Call if %3 tool="mail" effect="irreversible" args=(%0,) ordinal=3
  %9 = Call if not %3 tool="pay" effect="irreversible" args=(%0,) ordinal=2
  %10 = Merge values=(%8, %9) tokens=((%3, True), (%3, False))
  %11 = Merge values=() tokens=((%3, True), (%3, False))
  %12 = Expr if %11 fn="text" args=(%10,) append=True
  %13 = Call if %11 tool="tell" effect="irreversible" args=(%0,) ordinal=4
  %14 = Gen if %11 name="end" ordinal=100 max_tokens=3
  %15 = Return if %11 value=(%10, %14) vars={"plan": %1, "end": %14}
}
"""
CHECK = """
@sgc.tool(effect="repeatable")
def check(plan):
    if len(plan) % 2:
        raise ValueError("odd: " + plan)
    return plan
"""


class BranchCrashes(Crashes):
    """Runs of an artefact with branches that are killed and resumed."""

    arguments: ClassVar[list[str]] = [
        *("run", "work.sgc", "--tools", "tools.py", "--inputs", "rows.jsonl"),
        *("-o", "out.jsonl", "--parallel", "4"),
    ]
    given: ClassVar[dict[str, str]] = {"pay": "paid", "mail": "mailed", "tell": "told"}

    graph: ClassVar[str] = GRAPH

    def write_program(self) -> None:
        (self.folder / "tools.py").write_text(HEAD + TOOLS + CHECK)
        (self.folder / "work.sgc").write_bytes(encode(parse_program(self.graph)))


class TakingCrashes(BranchCrashes):
    """The same of a program that takes errors."""

    graph: ClassVar[str] = TAKING


def check_kills(
    folder: Path, wanted: int, seed: int, kind: type[BranchCrashes] = BranchCrashes
) -> None:
    rng = random.Random(seed)
    run = kind(folder, "compiled")
    whole = run.run()
    assert whole.returncode == 0, whole.stderr
    unbroken, effects = run.output, run.effects()
    assert set(effects.values()) == {1}
    assert {name.split()[0] for name in effects} == {"pay", "mail", "tell"}
    while run.kills < wanted:
        run.clear()
        length = min(rng.randrange(1, 6), wanted - run.kills)
        kills = [random_kill(rng, 0.3, 60 // length) for _ in range(length)]
        run.run_to_the_end(kills)
        assert run.output == unbroken
        assert run.effects() == effects, "a tool ran twice, never, or in the other arm"


def test_killed_runs_take_the_same_arms(tmp_path: Path) -> None:
    check_kills(tmp_path, wanted=3, seed=1)


def test_killed_runs_take_errors_as_before(tmp_path: Path) -> None:
    check_kills(tmp_path, wanted=2, seed=3, kind=TakingCrashes)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_runs_take_errors_as_before_at_many_points(tmp_path: Path) -> None:
    check_kills(tmp_path, wanted=60, seed=4, kind=TakingCrashes)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_runs_take_the_same_arms_at_many_points(tmp_path: Path) -> None:
    check_kills(tmp_path, wanted=60, seed=2)
