"""The flags of the local engine against the options of the engine itself."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from sgc.cli.backend import BackendSettings, fetch
from sgc.testing import RecordingBackend
from sgc_ir.errors import BackendError
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.engine.options import (
    ATTENTIONS,
    KV_DTYPES,
    ORDERS,
    PROCESSES,
    SEAMS,
    WEIGHTS,
    EngineOptions,
)
from sgc_runtime.model.number_format import DTYPES

ONLY_IN_PYTHON = {
    "max_running", "prefill_tokens", "reserve", "priorities", "claims", "hints", "profile",
}  # fmt: skip
FLAGS = {field.name: field.default for field in fields(BackendSettings)}
HINTS = get_type_hints(BackendSettings)


def texts(hint: Any) -> set[str]:
    found = {arg for arg in get_args(hint) if isinstance(arg, str)}
    return found.union(*(texts(arg) for arg in get_args(hint) if not isinstance(arg, str)))


def test_flags_have_the_names_and_defaults_of_the_engines_options() -> None:
    options = {field.name: field.default for field in fields(EngineOptions)}
    engine = {name: value for name, value in FLAGS.items() if name != "model"}
    assert engine == {k: v for k, v in options.items() if k not in ONLY_IN_PYTHON}
    assert set(options) >= ONLY_IN_PYTHON


def test_the_default_model_is_that_of_the_backend() -> None:
    assert inspect.signature(LocalBackend).parameters["model"].default == FLAGS["model"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("order", ORDERS),
        ("seam", SEAMS),
        ("weights", WEIGHTS),
        ("attention", ATTENTIONS),
        ("kv_dtype", KV_DTYPES),
        ("process", PROCESSES),
    ],
)
def test_flags_allow_the_values_that_the_engine_allows(name: str, values: tuple[str, ...]) -> None:
    assert texts(HINTS[name]) == set(values)
    for value in values:
        EngineOptions(device="cuda", **{name: value})
    with pytest.raises(BackendError, match=f"{name}='other'"):
        EngineOptions(**{name: "other"})


def test_a_backend_that_the_program_has_set_fetches_its_own_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(name: str, progress: object = None) -> Path:
        asked.append(name)
        return Path(name)

    monkeypatch.setattr("sgc_runtime.backends.model_source.resolve", resolve)
    own = LocalBackend(tmp_path / "own.gguf")
    for backend in (own, RecordingBackend(own, tmp_path / "record")):
        fetch(backend, quiet=True)
    assert asked == [str(tmp_path / "own.gguf")] * 2


def test_flags_allow_the_number_formats_that_models_have() -> None:
    assert texts(HINTS["dtype"]) == set(DTYPES)
