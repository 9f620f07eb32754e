"""A device is found with its index, or refused in one line."""

from __future__ import annotations

import pytest
import torch

from sgc_ir.errors import ModelError
from sgc_runtime.model.devices import find_device


def pretend(monkeypatch: pytest.MonkeyPatch, number: int, current: int = 0) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)


@pytest.mark.parametrize(
    ("name", "index"), [("cuda", 1), ("cuda:0", 0), ("cuda:2", 2), (torch.device("cuda", 1), 1)]
)
def test_a_gpu_has_its_index(
    name: str | torch.device, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 3, current=1)
    assert find_device(name) == torch.device("cuda", index)


@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        ("cuda:3", 3, "there are 3; give cuda:0 or cpu"),
        ("cuda", 0, "give cpu"),
        ("cuda:0", 0, "give cpu"),
        ("mps", 1, "not supported"),
        ("gpu", 1, "unknown device 'gpu'"),
        ("cuda:x", 1, "unknown device"),
    ],
)
def test_what_is_not_to_be_had_is_refused(
    name: str, number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, number)
    with pytest.raises(ModelError, match=words) as caught:
        find_device(name)
    assert "\n" not in str(caught.value)


def test_a_driver_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise RuntimeError("The NVIDIA driver on your system\nis too old")

    pretend(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "current_device", refuse)
    with pytest.raises(ModelError, match="driver on your system is too old; give cpu"):
        find_device("cuda")
