"""What the local backend refuses, and how it ends."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.local import (
    WORDS,
    backend,
    gen,
    run,
    stream,
    tiny_folder,
)

from sgc_ir.errors import BackendError, ModelError
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Media


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"regex": "(a"}, "^regex: .*position 0"),
        ({"regex": r"(a)\1"}, "^regex: .*back-reference"),
        ({"regex": "[^\\s\\S]"}, "^regex: no text"),
        ({"logit_bias": {"99999": 1.0}}, "logit_bias.*99999"),
        ({"stop_token_ids": (99999,)}, "stop_token_ids.*99999"),
        ({"max_tokens": 5000}, "3 prompt tokens and 5000 more exceed .* 1024"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_refused_by_name(
    local: LocalBackend, params: dict[str, Any], name: str
) -> None:
    with pytest.raises(BackendError, match=name):
        run(lambda: gen(stream(local, "The quick brown"), **params))


def test_media_are_refused(local: LocalBackend) -> None:
    with pytest.raises(BackendError, match="does not take images yet"):
        stream(local).append([Media("image", b"x")])


def test_a_call_that_never_fits_names_its_numbers(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        long = gen(stream(owner, " ".join(WORDS * 3)), max_tokens=4)
        fine = gen(stream(owner, "the fox"), max_tokens=4)
        failed, result = await asyncio.gather(long, fine, return_exceptions=True)
        assert isinstance(failed, BackendError)
        assert "the pool has 30" in str(failed)
        assert not isinstance(result, BaseException)

    with backend(folder, kv_tokens=30) as owner:
        run(lambda: main(owner))


def test_an_empty_prompt_without_bos_is_refused(tmp_path: Path) -> None:
    with (
        backend(tiny_folder(tmp_path, "gpt2")) as owner,
        pytest.raises(BackendError, match="the prompt is empty"),
    ):
        run(lambda: gen(stream(owner)))


@pytest.mark.parametrize(
    "options",
    [
        {"kv_tokens": 0},
        {"kv_tokens": 1.5},
        {"kv_tokens": "5"},
        {"kv_memory": 1.5},
        {"kv_memory": "9" * 400 + "T"},
        {"kv_tokens": 5, "kv_memory": "1GB"},
        {"seam": "tight"},
        {"kv_memory": "many"},
        {"reserve": 2.0},
        {"reserve": "half"},
        {"claims": -0.5},
    ],
    ids=str,
)
def test_options_without_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BackendError):
        LocalBackend("nowhere", **options)


def test_memory_for_no_token_is_told_at_the_first_call(folder: Path) -> None:
    owner = LocalBackend(folder, dtype="float32", kv_memory="12")
    with pytest.raises(BackendError, match="kv_memory of 12 bytes holds no token"):
        run(lambda: gen(stream(owner, "the fox")))
    owner.close()


@pytest.mark.parametrize(
    "options",
    [{"kv_memory": 0}, {"kv_memory": "1000T"}, {"kv_tokens": 10**30}],
    ids=str,
)
def test_a_pool_that_cannot_be_is_told_at_the_first_call(
    folder: Path, options: dict[str, Any]
) -> None:
    (name,) = options
    owner = LocalBackend(folder, dtype="float32", **options)
    with pytest.raises(BackendError, match=name):
        run(lambda: gen(stream(owner, "the fox")))
    owner.close()


def test_memory_below_nothing_is_told_at_once(folder: Path) -> None:
    with pytest.raises(BackendError, match="kv_memory=-5: give a number of bytes"):
        LocalBackend(folder, dtype="float32", kv_memory=-5)


def test_kv_memory_sets_the_pool(folder: Path) -> None:
    owner = LocalBackend(folder, dtype="float32", kv_memory="1MiB")
    run(lambda: gen(stream(owner, "the fox")))
    pool = owner.load() or run(owner.engine).engine.core.cache.num_slots
    assert pool == (1 << 20) // (2 * 2 * 2 * 8 * 4)
    owner.close()


def test_a_missing_model_is_told_at_the_first_call() -> None:
    owner = LocalBackend("./nowhere")
    assert owner.stats() == {}
    for _ in range(2):
        with pytest.raises(ModelError, match="nowhere"):
            run(lambda: gen(stream(owner, "x")))
    owner.close()


def test_closing_fails_what_is_in_flight(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        await gen(stream(owner, "the fox"))
        task = asyncio.ensure_future(gen(stream(owner, "the"), max_tokens=900, ignore_eos=True))
        await asyncio.sleep(0.02)
        await asyncio.to_thread(owner.close)
        with pytest.raises(BackendError, match="closed"):
            await task
        with pytest.raises(BackendError, match="closed"):
            await gen(stream(owner, "the fox"))

    with backend(folder) as owner:
        run(partial(main, owner))
