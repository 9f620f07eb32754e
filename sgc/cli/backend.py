"""The backend of a run: its flags, and loading it before the first row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sgc.cli.failure import CommandError, on_terminal
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
    device: str = _setting("cpu", "where the model runs: cpu, cuda or cuda:N", "D")
    weights: Literal["auto", "dense", "int4", "int8"] = _setting(
        "auto", "integers of the file itself, never any, or round to 4 or 8 bits"
    )
    kv_tokens: int | None = _setting(None, "tokens that the KV cache holds", "N")
    kv_memory: str | None = _setting(None, "the same as a size, for example 2GB", "SIZE")
    memory_share: float = _setting(
        0.9, "on a GPU: part of the free memory that the engine takes in all", "X"
    )
    seam: Literal["canonical", "splice"] = _setting(
        "canonical", "encode the last tokens before a text anew, or never"
    )
    order: Literal["lpm", "dfs", "fcfs", "random"] = _setting(
        "lpm",
        "serve first: the longest cached prefix, calls that share a prefix, who came first, or "
        "whom a lot names",
    )
    cache: bool = _setting(True, "do not keep the KV of prefixes for later calls")
    cache_tree: bool = _setting(
        True, "for comparisons: reuse a kept text only where a prompt begins with all of it"
    )
    match_share: float = _setting(
        1.0, "for comparisons: part of the calls that may find kept prefixes", "X"
    )
    jump: bool = _setting(True, "compute text that a constraint forces token by token")
    attention: Literal["auto", "triton", "flashinfer", "torch"] = _setting(
        "auto", "kernels of attention; the device's own, or these (triton, flashinfer: on a GPU)"
    )
    kv_dtype: Literal["auto", "fp8"] = _setting(
        "auto", "on a GPU: keep keys and values as the model computes them, or in 8 bits"
    )
    deterministic: bool = _setting(
        False, "have results depend on their own call alone, to the last bit; slower"
    )
    overlap: bool | None = _setting(
        None, "prepare a step while the one before is computed; by default on a GPU"
    )
    graphs: bool = _setting(True, "on a GPU: do not record steps, launch kernels one by one")
    graph_memory: str | None = _setting(
        None, "on a GPU: what recorded steps may take, for example 1GB", "SIZE"
    )
    max_graph_tokens: int = _setting(512, "on a GPU: record steps of up to so many tokens", "N")
    mixed_tokens: int | None = _setting(
        None, "prompt tokens that a step computes at most while others generate", "N"
    )
    process: Literal["auto", "on", "off"] = _setting(
        "auto", "run the engine in a process of its own; auto: on a GPU"
    )


def make_backend(settings: BackendSettings, profile: bool = False, hints: bool = True) -> Backend:
    """The local engine, not loaded yet. Raises CommandError for values that have no meaning.

    Args:
        profile: keep where the time of its steps goes.
        hints: make use of what calls say of those to come; without it no row pauses, and memory is
            taken from the youngest where it runs out.
    """
    from sgc_runtime.backends.engine_backend import engine_backend

    try:
        return engine_backend(**asdict(settings), profile=profile, hints=hints)
    except BackendError as error:
        raise CommandError(str(error)) from error


def choose_backend(
    name: str | None, given: dict[str, Any], profile: bool = False, hints: bool = True
) -> Backend:
    """The backend that the program's file has set with `sgc.set_default_backend`, unless flags
    ask for the local engine; else the local engine."""
    from sgc.default_backend import default_backend

    preset = default_backend().backend
    if preset is not None and name is None and not given:
        return preset
    return make_backend(BackendSettings(**given), profile, hints)


def fetch(backend: Backend, quiet: bool) -> None:
    """Fetch the backend's model, if it has one on this machine, with a progress bar. Raises
    ModelError."""
    get = getattr(backend, "fetch", None)
    if get is None:
        return
    with fetching(getattr(backend, "model", ""), quiet or not on_terminal()) as progress:
        get(progress)


def load(backend: Backend) -> None:
    """Load the model. Raises ModelError or BackendError."""
    start = getattr(backend, "load", None)
    if start is not None:
        start()


def close_made(backend: Backend) -> None:
    """End a backend that was made for one run, with what is around it; the one of
    `sgc.set_default_backend` goes on."""
    from sgc.default_backend import default_backend

    inner: Any = backend
    while hasattr(inner, "backend"):
        inner = inner.backend
    end = getattr(backend, "close", None)
    if end is not None and inner is not default_backend().backend:
        end()
