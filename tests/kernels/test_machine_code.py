"""Compiling for other CPUs, keeping the code, and doing without it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import torch
from support.attention_cases import Sequence, Step, TreeStep

from sgc_kernels.attention.compiled import CompiledAttention, can_attend
from sgc_kernels.attention.torch_ref import TorchAttention
from sgc_kernels.compiled import build
from sgc_kernels.compiled.machine_code import load_machine_code
from sgc_kernels.compiled.target import Target, host_target
from sgc_kernels.select import select_kernels

CPU = torch.device("cpu")
TREE = TreeStep(
    (
        Sequence(0, 200, -1, 0),
        *(Sequence(1, 3 * n, 0, 200) for n in range(9)),
        Sequence(70, 50, 0, 150),
    ),
    None,
    seed=8,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, and nothing loaded yet."""
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "sgc"))
    load_machine_code.cache_clear()
    return tmp_path


def lacking(*starts: str) -> Target:
    target = host_target()
    for start in starts:
        target = target.without(start)
    return target


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("missing", ["avx512", "avx512bf16"])
def test_cpus_without_the_newest_instructions(
    missing: str, dtype: torch.dtype, folder: Path
) -> None:
    target = lacking(missing)
    if not can_attend(dtype, 64, 3, target):
        pytest.skip("this CPU has no AVX2")
    step = Step(TREE, dtype, 64, 3)
    out = step.run(CompiledAttention(target))
    error = {torch.float32: 2e-5, torch.bfloat16: 0.03, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(out.double(), step.formula(), atol=error, rtol=error)


def test_cpus_without_avx2_or_fma_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("avx2", "fma"):
        assert not can_attend(torch.float32, 64, 3, lacking(missing))
    assert not can_attend(torch.float16, 64, 3, lacking("f16c"))
    assert not can_attend(torch.float32, 64, 3, Target("cortex-a72", frozenset({"neon"})))
    monkeypatch.setattr("sgc_kernels.attention.compiled.host_target", lambda: lacking("avx2"))
    assert isinstance(select_kernels(CPU, torch.float32, 64, 3).attention, TorchAttention)


def test_a_compiler_that_does_not_load_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise OSError("libllvm is broken")

    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", fails)
    host_target.cache_clear()
    try:
        assert isinstance(select_kernels(CPU, torch.float32, 64, 3).attention, TorchAttention)
        assert caplog.messages == [
            "llvmlite does not load (libllvm is broken): kernels run in torch, slower"
        ]
    finally:
        host_target.cache_clear()


needs_kernels = pytest.mark.skipif(
    not can_attend(torch.float32, 64, 3), reason="this CPU has no AVX2"
)


@needs_kernels
def test_kernels_are_compiled_once_and_announced(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO, "sgc"):
        load_machine_code(torch.float32, 64, 3)
    assert caplog.messages == ["compiling kernels for this CPU, once"]
    load_machine_code.cache_clear()

    def again(*args: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(build, "build", again)
    load_machine_code(torch.float32, 64, 3)


@needs_kernels
def test_damaged_code_is_compiled_again(folder: Path) -> None:
    load_machine_code(torch.float32, 64, 3)
    (file,) = (folder / "sgc" / "kernels").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:1000], whole[:-1], whole[:500] + b"x" + whole[501:]):
        file.write_bytes(damaged)
        load_machine_code.cache_clear()
        load_machine_code(torch.float32, 64, 3)
        assert file.read_bytes() == whole


@needs_kernels
def test_old_versions_are_dropped(folder: Path) -> None:
    kernels = folder / "sgc" / "kernels"
    kernels.mkdir(parents=True)
    for n in range(9):
        old = kernels / f"float32-64-3-{n}"
        old.write_bytes(b"")
        os.utime(old, (n, n))
    (kernels / "float32-64-9-1").write_bytes(b"")
    load_machine_code(torch.float32, 64, 3)
    names = {file.name for file in kernels.iterdir()}
    assert {"float32-64-9-1", "float32-64-3-8", "float32-64-3-7", "float32-64-3-6"} < names
    assert len(names) == 5


@needs_kernels
def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "file"))
    load_machine_code.cache_clear()
    step = Step(TREE, torch.float32, 64, 3)
    out = step.run(CompiledAttention())
    torch.testing.assert_close(out.double(), step.formula(), atol=2e-5, rtol=2e-5)


@needs_kernels
@pytest.mark.parametrize("error", [RuntimeError("no such CPU"), ImportError("no llvmlite")])
def test_torch_takes_over_where_nothing_can_be_compiled(
    error: Exception,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*args: object) -> None:
        raise error

    monkeypatch.setattr(build, "build", fails)
    kernels = select_kernels(CPU, torch.float32, 64, 3)
    assert isinstance(kernels.attention, TorchAttention)
    assert caplog.messages == [
        f"no compiled kernels here ({error}): attention and norms run in torch"
    ]
