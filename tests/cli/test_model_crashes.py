"""Runs of the default model in float32 that are killed and resumed: the same bytes come out."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from support.crash import HEAD, Crashes

pytestmark = pytest.mark.model

PROGRAM = """
@sgc.tool(effect="irreversible")
def pay(name):
    took_effect("pay " + name)
    return {"paid": name}

@sgc.function
def aside(s, name: str):
    s += f"Q: Who is {name}? A:" + sgc.gen("who", max_tokens=8, stop="e")
    s += sgc.gen("more", max_tokens=4, logprobs=True)
    return s["who"] + s["more"]

@sgc.function
def work(s, name: str, size: int):
    s += sgc.system("Answer briefly.")
    s += sgc.user(f"Say something about {name}.")
    s += sgc.assistant(sgc.gen("first", max_tokens=10, n=2, stop=["ing", "\\n"]))
    paid = sgc.call(pay, name)
    handle = aside(paid["paid"])
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += sgc.user(f"And {i + size}?")
        f += sgc.assistant(sgc.gen("piece", max_tokens=6, temperature=0.7, heal=True))
    forks.join()
    s += sgc.user(f"{' '.join(s['piece'])} {handle.value} Is that good?")
    s += sgc.assistant(sgc.select("good", ["yes", "no", "perhaps"]))
    s += sgc.user("Why?") + sgc.assistant(sgc.gen("why", max_tokens=8))
    return {"why": s["why"], "good": s["good"]}
"""


class ModelCrashes(Crashes):
    """The local engine does not use the scripted backend of the file, whose timer it keeps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.folder / "work.py").write_text(HEAD + PROGRAM)

    def run(self, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
        local = ("--backend", "local", "--dtype", "float32", "--kv-tokens", "3000")
        return super().run(*local, *flags, **environ)


def check_kills(folder: Path, mode: str, wanted: int, seed: int) -> None:
    rng = random.Random(seed)
    run = ModelCrashes(folder, mode, num_rows=3)
    begin = time.monotonic()
    first = run.run()
    seconds = time.monotonic() - begin
    assert first.returncode == 0, first.stderr
    unbroken, effects = run.output, run.effects()
    while run.kills < wanted:
        run.clear()
        length = min(rng.randrange(1, 4), wanted - run.kills)
        run.run_to_the_end(
            [{"KILL_AFTER_S": f"{rng.uniform(seconds / 2, seconds):.3f}"} for _ in range(length)]
        )
        assert run.output == unbroken
        assert run.effects() == effects


def test_killed_runs_resume(tmp_path: Path) -> None:
    check_kills(tmp_path, "compiled", wanted=2, seed=0)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_killed_runs_resume_at_many_points(tmp_path: Path, mode: str) -> None:
    check_kills(tmp_path, mode, wanted=10, seed=1)
