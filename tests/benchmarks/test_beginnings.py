"""What keeps a benchmark from beginning: one line and exit code 2, before anything is measured."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

GPU = ("gpu_engine", "gpu_kernels", "gpu_peers", "kv_formats")
ALL = (*GPU, "process_overhead", "executor_overhead", "long_queue")


def refusal(name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("name", GPU)
def test_no_gpu(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "x.json"
    said = refusal(name, ["--device", "cuda", "--output", str(output)], capsys)
    assert said.count("\n") == 1
    assert said.startswith(f"benchmarks.{name}: error: device cuda:0 is not to be had: ")
    assert not output.exists()


@pytest.mark.parametrize("name", GPU)
def test_no_such_device(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown device 'toaster'" in refusal(name, ["--device", "toaster"], capsys)


def test_no_such_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing"
    said = refusal("kv_formats", ["--model", str(missing)], capsys)
    assert said.count("\n") == 1
    assert str(missing) in said


@pytest.mark.parametrize("name", ALL)
def test_no_place_for_the_output(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "missing"
    said = refusal(name, ["--output", str(folder / "x.json")], capsys)
    assert f"argument --output: there is no folder {folder}" in said
    assert not folder.exists()


def test_no_results_in_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[]")
    said = refusal("process_overhead", ["--output", str(tmp_path / "x.json")], capsys)
    assert "holds no results" in said
    assert "is a folder" in refusal("process_overhead", ["--output", str(tmp_path)], capsys)
