"""What the results of a local engine depend on, as names and values that a journal can compare."""

from __future__ import annotations

from dataclasses import fields
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.journal.digests import DIGEST_BYTES
from sgc_runtime.journal.fingerprint import DIGEST_MARK

# Options that change no result; whatever else there is counts.
NEUTRAL = frozenset(
    {
        "kv_tokens",
        "kv_memory",
        "cache",
        "cache_tree",
        "match_share",
        "max_running",
        "prefill_tokens",
        "reserve",
        "order",
        "priorities",
        "claims",
        "jump",
        "memory_share",
        "mixed_tokens",
        "overlap",
        "graphs",
        "graph_memory",
        "max_graph_tokens",
        "process",
        "profile",
    }
)
_PACKAGES = ("torch", "llvmlite", "tokenizers", "jinja2")  # llvmlite: how kernels round
_WHOLE_BYTES = 16 << 20  # smaller files are read whole,
_SAMPLES, _SAMPLE_BYTES = 64, 64 << 10  # of larger ones these pieces


def local_identity(model: Path, options: EngineOptions) -> dict[str, Any]:
    """Model, number format, options that change results, and versions."""
    import torch

    from sgc_runtime.model.number_format import pick_dtype

    dtype = pick_dtype(options.dtype, torch.device(options.device))
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in NEUTRAL}
    return {
        "backend": "local",
        "model": DIGEST_MARK + model_digest(model),
        **values,
        "dtype": str(dtype).removeprefix("torch."),
        **{f"version of {name}": metadata.version(name) for name in _PACKAGES},
        **(_gpu(options) if options.on_gpu else {}),
    }


def _gpu(options: EngineOptions) -> dict[str, str]:
    """What compiles kernels for a GPU and which one it is: tiles, and so sums, differ by it."""
    import torch

    packages = ["triton"] + ["flashinfer-python"] * (options.attention == "flashinfer")
    known = {f"version of {name}": _version(name) for name in packages}
    if not torch.cuda.is_available():  # said when the model is loaded
        return known
    return {**known, "gpu": torch.cuda.get_device_name(torch.device(options.device))}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # then it is not used
        return "none"


def model_digest(model: Path) -> str:
    """Digest of a model's files: small ones as a whole, of weights their size and samples, so
    that it takes no longer for large models."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    for file in [model] if model.is_file() else _files(model):
        name = "" if file == model else file.relative_to(model).as_posix()
        size = file.stat().st_size
        hasher.update(f"{name}\0{size}\0".encode())
        with open(file, "rb") as handle:
            if size <= _WHOLE_BYTES:
                hasher.update(handle.read())
                continue
            for i in range(_SAMPLES):
                handle.seek(i * (size - _SAMPLE_BYTES) // (_SAMPLES - 1))
                hasher.update(handle.read(_SAMPLE_BYTES))
    return hasher.hexdigest()


def _files(folder: Path) -> list[Path]:
    visible = (f for f in folder.rglob("[!.]*") if f.is_file())
    return sorted(f for f in visible if not any(p.startswith(".") for p in _parts(f, folder)))


def _parts(file: Path, folder: Path) -> tuple[str, ...]:
    return file.relative_to(folder).parts
