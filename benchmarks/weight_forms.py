"""Time and error of every form of the weights, on the shapes and numbers of the default model.

    python -m benchmarks.weight_forms [--model M] [--threads N]

`times`: all layers' products of one step, and the output head, by form and number of rows, in
milliseconds (the least of some repetitions; layers are separate copies, as in a step). Forms of
the engine: `dense`, `integers`. For comparison: `torch_dense` (`torch.nn.functional.linear`),
`torch_int` (weight-only kernels of torch: int4 in groups of 32, for the head int8 by rows),
`torch_dynamic` (int8 with activations rounded to int8 as well, float32 in and out).

`errors`: logits of a fixed text against those of float32 with dense weights: mean and largest
difference, share of positions whose likeliest token is the same. `rounded to int8` and `rounded to
int4` take the file's numbers as if it held floats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512)
LAYERS = 30
SHAPES = ((960, 576), (576, 576), (3072, 576), (576, 1536))
HEAD = (49152, 576)
TEXT = """The harbour wakes before the town does. At half past four the first boats come in, and the
women who mend the nets are already sitting on the wall with their lamps beside them. Nobody speaks
much. A crate of mackerel costs less than it did last year, says Ines, and Jonas answers that the
water is warmer, so the fish go north. He has counted: in March he took 412 kilograms, in April 377,
in May only 298. If it goes on like that, he will sell the boat in autumn and drive the school bus.

What would you need to write a program that keeps such a list? A date, a weight in kilograms, and
the name of the boat. With these three columns you can ask how much was caught in a month:

    def total(rows, month):
        return sum(row.weight for row in rows if row.date.month == month)

Ines says that a list never caught a fish. Jonas laughs, ties the last knot and looks at the sky."""

Form = Callable[[Any], Any]


def main() -> None:
    arguments = _arguments()
    use_threads(arguments.threads)
    file = ResultFile(
        arguments.output, what=__doc__.splitlines()[0], conditions=conditions(arguments.threads)
    )
    for name, make in _forms().items():
        found = _times(make, floats=name == "torch_dynamic")
        file.add(f"times {name}", found)
        print(name, found, flush=True)
    path = _model_path(arguments.model)
    for name, error in _errors(path):
        file.add(f"errors {name}", error)
        print(name, error, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=result_path, default=default_path("weight_forms"))
    return parser.parse_args()


def _model_path(model: str) -> Path:
    from sgc_runtime.models import resolve

    return resolve(model)


def _forms() -> dict[str, Callable[[Any, int], Form]]:
    """Makers of forms, from a bfloat16 weight and the bits it may be rounded to (4; head: 8)."""
    import torch

    from sgc_kernels.linear import PackedLinear, PlainLinear
    from sgc_kernels.weights.grouped import GroupedLinear, can_group, pack, quantize

    forms: dict[str, Callable[[Any, int], Form]] = {
        "dense": lambda weight, bits: PackedLinear(weight),
        "torch_dense": lambda weight, bits: PlainLinear(weight),
        "torch_int": lambda weight, bits: _torch_int4(weight) if bits == 4 else _torch_int8(weight),
        "torch_dynamic": lambda weight, bits: _torch_dynamic(weight),
    }
    if can_group(torch.device("cpu"), torch.bfloat16):
        forms["integers"] = lambda weight, bits: GroupedLinear(pack(quantize(weight, bits)))
    return forms


def _torch_int4(weight: Any) -> Form:
    import torch

    from sgc_kernels.weights.grouped import quantize

    grouped = quantize(weight, 4)
    assert grouped.mins is not None
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(grouped.ints.to(torch.int32), 1)
    zeros = grouped.mins + 8 * grouped.scales
    scales = torch.stack([grouped.scales, zeros], -1).transpose(0, 1).bfloat16().contiguous()
    return lambda x: torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 32, scales)


def _torch_int8(weight: Any) -> Form:
    import torch

    scales = weight.float().abs().amax(1) / 127
    ints = (weight.float() / scales[:, None]).round().to(torch.int8)
    scales = scales.bfloat16()
    return lambda x: torch.ops.aten._weight_int8pack_mm(x, ints, scales)


def _torch_dynamic(weight: Any) -> Form:
    import torch

    scale = float(weight.float().abs().max()) / 127
    rounded = torch.quantize_per_tensor(weight.float(), scale, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(rounded, None)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, True)


def _times(make: Callable[[Any, int], Form], floats: bool) -> dict[str, Any]:
    import torch

    def weight(shape: tuple[int, int]) -> Any:
        return torch.randn(shape).bfloat16()

    layers = [[make(weight(shape), 4) for shape in SHAPES] for _ in range(LAYERS)]
    head = make(weight(HEAD), 8)
    found: dict[str, Any] = {"layers_ms": {}, "head_ms": {}}
    with torch.inference_mode():
        for rows in ROWS:
            kind = torch.float32 if floats else torch.bfloat16
            inputs = [torch.randn(rows, shape[1], dtype=kind) for shape in (*SHAPES, HEAD)]
            found["layers_ms"][rows] = _least(lambda: _step(layers, inputs))  # noqa: B023
            found["head_ms"][rows] = _least(lambda: head(inputs[-1]))  # noqa: B023
    return found


def _step(layers: list[list[Form]], inputs: list[Any]) -> None:
    for layer in layers:
        for form, x in zip(layer, inputs, strict=False):
            form(x)


def _least(work: Callable[[], Any]) -> float:
    """Milliseconds of the fastest of up to 12 runs, in up to half a second."""
    work()
    times: list[float] = []
    while len(times) < 12 and sum(times) < 0.5:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return round(min(times) * 1e3, 3)


def _errors(path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    import torch

    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    ids = load_tokenizer(path).encode(TEXT)
    reference = _logits(path, "float32", "dense", ids)
    options = {"dense": "dense", "auto": "auto", "rounded to int8": "int8"}
    options["rounded to int4"] = "int4"
    for name, weights in options.items():
        with _as_floats(name.startswith("rounded")):
            logits = _logits(path, "bfloat16", weights, ids)
        difference = (logits - reference).abs()
        same = (logits.argmax(-1) == reference.argmax(-1)).to(torch.float32)
        yield (
            name,
            {
                "mean": round(float(difference.mean()), 4),
                "max": round(float(difference.max()), 3),
                "same_top_1": round(float(same.mean()), 4),
                "positions": len(ids),
                "logit_std": round(float(reference.std()), 3),
            },
        )


@contextmanager
def _as_floats(wanted: bool) -> Iterator[None]:
    """While it lasts, GGUF files seem to hold no integers."""
    from sgc_runtime.model.weights_gguf import GgufSource

    if not wanted:
        yield
        return
    with patch.object(GgufSource, "grouped", lambda self, name: None):
        yield


def _logits(path: Path, dtype: str, weights: str, ids: Any) -> Any:
    """`[len(ids), vocab]`: all positions in one step."""
    import torch

    from sgc_runtime.cache.kv_pool import KVPool
    from sgc_runtime.model.forward import ForwardBatch
    from sgc_runtime.model.loader import load_model

    loaded = load_model(path, dtype, weights=weights)
    config, count = loaded.config, len(ids)
    shape = (config.num_layers, count, config.num_kv_heads, config.head_dim)
    pool = KVPool(*shape, loaded.model.dtype, torch.device("cpu"))
    places, ends = torch.arange(count), torch.tensor([0, count], dtype=torch.int32)
    batch = ForwardBatch(
        input_ids=torch.as_tensor(ids, dtype=torch.int64),
        positions=places,
        out_slots=places,
        qo_indptr=ends,
        kv_indptr=ends,
        kv_slots=places,
        logit_rows=places,
    )
    return loaded.model.forward(batch, pool)


if __name__ == "__main__":
    main()
