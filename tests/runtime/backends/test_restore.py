"""Restored calls: what follows them is as if they had been made, and nothing was computed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.local import WORDS, backend, run, stream, tiny_folder

from sgc.testing import ScriptedBackend
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import BackendStream, Call, Text

ENDS = [
    {"max_tokens": 6},
    {"max_tokens": 1},
    {"max_tokens": 0},
    {"stop": ("e",)},
    {"stop": (" ", "o")},
    {"stop": ("a",), "min_tokens": 2},
    {"n": 3},
    {"ignore_eos": True, "logprobs": True, "top_logprobs": 2},
    {"heal": True},
    {"heal": True, "stop": ("e",)},
]
CHOICES = [("late", "later", "Paris, France"), ("yes", "no"), (" blank", "the\n")]


def random_calls(rng: random.Random) -> list[tuple[str, SamplingParams]]:
    """Calls of one stream, each with the text before it."""
    calls = []
    for _ in range(rng.randrange(2, 6)):
        text = " ".join(rng.choices(WORDS, k=rng.randrange(0, 4)))
        text = rng.choice(["", " ", "\n", "é"]) + text + rng.choice(["", " ", ": "])
        if rng.random() < 0.3:
            params = SamplingParams(choices=rng.choice(CHOICES))
        else:
            values: dict[str, Any] = {"temperature": 1.0, "max_tokens": 8, **rng.choice(ENDS)}
            params = SamplingParams(**values)
        calls.append((text, params))
    return calls


async def answer(on: BackendStream, call: Call) -> list[CallResult]:
    if call.params.choices is not None:
        return [await on.select(call)]
    return await on.generate(call)


def make_call(number: int, params: SamplingParams) -> Call:
    return Call(f"g{number}", "", 0, params, tuple(range(params.n)))


@pytest.mark.parametrize("seam", ["canonical", "splice"])
@pytest.mark.parametrize("kind", ["smollm", "llama2"])
def test_a_stream_goes_on_with_the_same_ids(
    tmp_path_factory: pytest.TempPathFactory, kind: str, seam: str
) -> None:
    folder = tiny_folder(tmp_path_factory.mktemp(kind), kind)
    with backend(folder, seam=seam) as made, LocalBackendWithoutModel(folder, seam) as bare:

        async def main() -> int:
            residuals = 0
            for seed in range(8):
                calls = random_calls(random.Random(seed))
                residuals += await compare(made, bare, calls)
            return residuals

        assert run(main) > 0  # stops inside tokens were among them


class LocalBackendWithoutModel(LocalBackend):
    """Fails when anything asks for the engine."""

    def __init__(self, folder: Path, seam: str) -> None:
        super().__init__(folder, dtype="float32", kv_tokens=4000, seam=seam)

    def __enter__(self) -> LocalBackendWithoutModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def engine(self) -> Any:
        raise AssertionError("restoring asked for the model")


async def compare(
    made: LocalBackend, bare: LocalBackend, calls: list[tuple[str, SamplingParams]]
) -> int:
    """Make the calls; from each of them on, a stream restored so far must go on the same."""
    whole = stream(made, "It is")
    restored = stream(bare, "It is")
    residuals = 0
    for number, (text, params) in enumerate(calls):
        whole.append([Text(text)])
        restored.append([Text(text)])
        call = make_call(number, params)
        await agree(whole.fork(), LocalStream(made, restored._tokens.fork()), call)
        results = await answer(whole, call)
        await restored.restore(call, results)
        assert whole.ids == restored.ids
        assert whole._tokens.pieces == restored._tokens.pieces
        assert whole._tokens.pending == restored._tokens.pending
        residuals += bool(results[0].residual)
    return residuals


async def agree(a: BackendStream, b: BackendStream, call: Call) -> None:
    first, second = await answer(a, call), await answer(b, call)
    assert [r.token_ids for r in first] == [r.token_ids for r in second]
    assert [r.text for r in first] == [r.text for r in second]


def test_a_scripted_stream_goes_on_with_the_text_and_logs_nothing() -> None:
    async def main() -> None:
        owner = ScriptedBackend(lambda prompt, params: f" [{len(prompt)}]")
        on = owner.open()
        on.append([Text("a")])
        await on.restore(make_call(0, SamplingParams(n=2)), [CallResult(" b"), CallResult(" c")])
        on.append([Text(" d")])
        await on.restore(make_call(1, SamplingParams(choices=("e",))), [CallResult(" e")])
        assert owner.calls == []
        (result,) = await on.generate(make_call(2, SamplingParams()))
        assert result.text == " [7]"
        assert owner.calls[0]["prompt"] == "a b d e"

    run(main)
