"""Direct launches: the driver is told what Triton tells it, and kernels what they are given."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from sgc_kernels.gpu import launcher

_ODD = ("norm at odd places", "slots at odd places", "prepared norm at odd places")  # stay Triton's
_CAN_BUILD = shutil.which("gcc") and Path(sysconfig.get_path("include"), "Python.h").exists()


@pytest.mark.skipif(not _CAN_BUILD, reason="Triton's launcher is built with gcc and Python.h")
def test_the_driver_is_told_the_same(tmp_path: Path) -> None:
    script = Path(__file__).with_name("direct_launches.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *told, first, second, asked = done.stdout.splitlines()
    assert len(told) == 26
    for line in told:
        name = line.rpartition(" same ")[0]
        assert line == f"{name} same {int(name in _ODD)}"
    assert first == second == "(3, 2, 1) True"
    assert asked == "2 addresses asked about"  # by Triton's own launch alone


def test_a_kernel_is_told_what_it_is_given() -> None:
    assert launcher.tells_right(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def test_nothing_is_launched_directly_without_a_gpu() -> None:
    assert not launcher.launch_directly(torch.device("cpu"))


@pytest.mark.gpu
def test_launches_are_direct() -> None:
    assert launcher.launch_directly(torch.device("cuda:0"))
    launch, form = launcher.Launcher(launcher._tell), launcher.Form(CONSTANT=1, ABSENT=2)
    given = torch.full((4,), 40, dtype=torch.int32, device="cuda:0")
    out = torch.zeros_like(given)
    for free in (3, 4, 5):
        launch((1, 1), (given, given, out), (free, 0.25), (1, 16), form)
        assert out.tolist() == [free, 16, 18, 40]
    assert len(launch._compiled) == 1
