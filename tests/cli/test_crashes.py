"""Runs that are killed at any moment and resumed: the output is that of an unbroken run, and what
must not happen twice does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.crash import Crashes, random_kill

LONGEST_S = 0.45  # a little more than a run takes after its program has been read
MOST_CALLS = 110


def check_kills(folder: Path, mode: str, wanted: int, seed: int) -> None:
    rng = random.Random(seed)
    run = Crashes(folder, mode)
    assert run.run().returncode == 0
    unbroken, effects = run.output, run.effects()
    assert set(effects.values()) == {1}
    while run.kills < wanted:
        run.clear()
        length = min(rng.randrange(1, 6), wanted - run.kills)
        kills = [random_kill(rng, LONGEST_S, MOST_CALLS // length) for _ in range(length)]
        run.run_to_the_end(kills)
        assert run.output == unbroken
        assert run.effects() == effects, "an irreversible tool ran twice, or never"


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_killed_runs_resume(tmp_path: Path, mode: str) -> None:
    check_kills(tmp_path, mode, wanted=3, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_killed_runs_resume_at_many_points(tmp_path: Path, mode: str) -> None:
    check_kills(tmp_path, mode, wanted=100, seed=2)
