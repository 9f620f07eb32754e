"""The backend of a run: its flags, and loading it before the first row."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sgc.cli.failure import CommandError
from sgc.cli.model_progress import fetching
from sgc_ir.errors import BackendError
from sgc_runtime.executor.backend import Backend
from sgc_runtime.models import DEFAULT_MODEL


def _setting(default: Any, help: str, metavar: str = "") -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What `sgc run` passes to the local engine."""

    model: str = _setting(
        DEFAULT_MODEL, "a named model, a Hugging Face directory, a .gguf file or a hub id", "M"
    )
    dtype: Literal["float32", "bfloat16", "float16"] | None = _setting(
        None, "number format of the model; by default what the machine is fast in"
    )
    device: str = _setting("cpu", "where the model runs", "D")
    weights: Literal["auto", "dense", "int4", "int8"] = _setting(
        "auto", "integers of the file itself, never any, or round to 4 or 8 bits"
    )
    kv_tokens: int | None = _setting(None, "tokens that the KV cache holds", "N")
    kv_memory: str | None = _setting(None, "the same as a size, for example 2GB", "SIZE")
    seam: Literal["canonical", "splice"] = _setting(
        "canonical", "encode the last tokens before a text anew, or never"
    )
    order: Literal["lpm", "dfs", "fcfs"] = _setting(
        "lpm",
        "serve first: the longest cached prefix, calls that share a prefix, or who came first",
    )
    cache: bool = _setting(True, "do not keep the KV of prefixes for later calls")
    jump: bool = _setting(True, "compute text that a constraint forces token by token")


def make_backend(settings: BackendSettings) -> Backend:
    """The local engine, not loaded yet. Raises CommandError for values that have no meaning."""
    from sgc_runtime.backends.local import LocalBackend

    try:
        return LocalBackend(**asdict(settings))
    except BackendError as error:
        raise CommandError(str(error)) from error


def choose_backend(name: str | None, given: dict[str, Any]) -> Backend:
    """The backend that the program's file has set with `sgc.set_default_backend`, unless flags
    ask for the local engine; else the local engine."""
    from sgc.default_backend import default_backend

    preset = default_backend().backend
    if preset is not None and name is None and not given:
        return preset
    return make_backend(BackendSettings(**given))


def fetch(backend: Backend, quiet: bool) -> None:
    """Fetch the backend's model, if it has one on this machine, with a progress bar. Raises
    ModelError."""
    get = getattr(backend, "fetch", None)
    if get is None:
        return
    with fetching(getattr(backend, "model", ""), quiet or not sys.stderr.isatty()) as progress:
        get(progress)


def load(backend: Backend) -> None:
    """Load the model. Raises ModelError or BackendError."""
    start = getattr(backend, "load", None)
    if start is not None:
        start()
