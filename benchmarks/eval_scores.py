"""Whether scores of suites are those of the model: beside `transformers`, and beside its card.

    python -m benchmarks.eval_scores --data DIR [--parts hellaswag,mmlu,accuracy,zero_shot]

Parts `hellaswag` and `mmlu`: `--rows` rows of the suite in float32, their choices' mean
log-probabilities and picked answers beside plain forwards of `transformers` on the same weights,
which share only the keys and values of what prompts begin with.

Parts `accuracy` and `zero_shot`: HellaSwag, `--accuracy-rows` rows in the number format that the
machine is fast in, with the suite's shots and without: right answers with their 95 % intervals, by
the mean log-probability of a token (how a select picks, and so the suite), by the sum (`acc`), and
by the sum over the characters of the ending (`acc_norm`, what the model's card has, zero-shot).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.refusals import refusing
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:  # brings in torch, whose threads are settled first
    from benchmarks.common.suite_choices import Choice
    from sgc.eval.suite import Suite

TOLERANCE = 1e-3  # nats
SHOTS = {"accuracy": None, "zero_shot": 0}  # None: those of the suite
PARTS = ("hellaswag", "mmlu", *SHOTS)
PUBLISHED = {
    "accuracy": 0.409,
    "what": "HellaSwag, zero-shot, acc_norm by characters, weights as published (not 4 bits), all "
    "10,042 validation rows, artefacts of the texts in brackets taken out",
    "where": "model card of HuggingFaceTB/SmolLM2-135M-Instruct (lighteval; the metric is that of "
    "the tasks in the authors' repository huggingface/smollm)",
}


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(cores())
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # nothing is timed here
    results = ResultFile(
        args.output,
        what="scores of suites beside transformers and the model's card",
        conditions=conditions(cores()),
        model=args.model,
        seed=args.seed,
    )
    with refusing("eval_scores"):
        for part in args.parts:
            if part in SHOTS:
                limit = args.accuracy_rows
                result = accuracy(args.model, args.data, SHOTS[part], limit, args.seed)
            else:
                result = agreement(args.model, args.data, part, args.rows, args.seed)
            results.add(part, result)
            print(part, result)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eval_scores")
    parser.add_argument("--data", type=Path, required=True, help="as in `sgc eval --data`")
    parser.add_argument("--model", default="smollm2-135m", help="a GGUF file of its kind")
    parser.add_argument("--parts", type=_parts, default=PARTS, help=",".join(PARTS))
    parser.add_argument("--rows", type=int, default=200, help="beside transformers")
    parser.add_argument("--accuracy-rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the samples of rows")
    parser.add_argument("--output", type=result_path, default=default_path("eval_scores"))
    return parser.parse_args(argv)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    unknown = ", ".join(part for part in parts if part not in PARTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part {unknown}; there are {PARTS}")
    return parts


def agreement(model: str, data: Path, name: str, limit: int, seed: int) -> dict[str, Any]:
    """How far the scores of a suite's choices are from those of `transformers`."""
    from sgc.eval.registry import find_suite

    begin = time.perf_counter()
    ours = choices_of(find_suite(name), data, limit, seed, model=model, dtype="float32")
    took = time.perf_counter() - begin
    reference = reference_of(model)
    begin = time.perf_counter()
    result = compare(ours, reference)
    seconds = {"sgc": round(took, 1), "transformers": round(time.perf_counter() - begin, 1)}
    return {**result, "took_s": seconds, "dtype": "float32", "tolerance": TOLERANCE}


def choices_of(
    suite: Suite,
    data: Path,
    limit: int,
    seed: int,
    shots: int | None = None,
    **engine: Any,
) -> list[Choice]:
    """The suite's choices on the local engine; `engine`: options of `LocalBackend`."""
    from benchmarks.common.suite_choices import run_suite
    from sgc.eval.suite import LoadOptions
    from sgc_runtime.backends.local import LocalBackend

    rows = suite.load(data / suite.folder, LoadOptions(limit, seed, shots))
    backend = LocalBackend(**engine)
    try:
        return run_suite(suite, rows, backend)
    finally:
        backend.close()


def reference_of(model: str) -> Callable[[str, Sequence[str]], list[list[float]]]:
    """`ChoiceReference.logprobs` on the model's weights in float32."""
    import torch

    from benchmarks.common.choice_reference import ChoiceReference
    from benchmarks.common.transformers_model import load_transformers
    from benchmarks.common.transformers_tokenizer import default_model_tokenizer
    from sgc_runtime.models import resolve

    path = resolve(model)
    encode = default_model_tokenizer(path).encode
    return ChoiceReference(load_transformers(path, torch.float32), encode).logprobs


def compare(
    ours: Sequence[Choice], reference: Callable[[str, Sequence[str]], list[list[float]]]
) -> dict[str, Any]:
    """Largest difference of a choice's score in nats, and of its sum; equal answers."""
    largest = largest_sum = 0.0
    equal, margins = 0, []
    for choice in ours:
        values = reference(choice.prompt, choice.choices)
        means = [sum(each) / len(each) for each in values]
        for mine, mean, each in zip(choice.scores, means, values, strict=True):
            largest = max(largest, abs(mine - mean))
            largest_sum = max(largest_sum, abs(mine - mean) * len(each))
        equal += choice.picked == choice.choices[means.index(max(means))]
        first, second, *_ = sorted(means, reverse=True)
        margins.append(first - second)
    return {
        "rows": len(ours),
        "scores": sum(len(choice.choices) for choice in ours),
        "largest_difference": largest,
        "largest_difference_of_sums": largest_sum,
        "equal_answers": equal,
        "smallest_margin": min(margins),
        "suite_accuracy": sum(choice.value for choice in ours) / len(ours),
        "met": largest <= TOLERANCE and equal == len(ours),
    }


def accuracy(model: str, data: Path, shots: int | None, limit: int, seed: int) -> dict[str, Any]:
    """Right answers of HellaSwag by three ways to pick one, beside the published figure."""
    from benchmarks.common.choice_reference import split
    from benchmarks.common.transformers_tokenizer import default_model_tokenizer
    from sgc.eval.registry import find_suite
    from sgc_runtime.models import resolve

    begin = time.perf_counter()
    ours = choices_of(find_suite("hellaswag"), data, limit, seed, shots, model=model)
    took = round(time.perf_counter() - begin, 1)
    encode = default_model_tokenizer(resolve(model)).encode
    lengths = [[len(ids) for ids in split(encode, c.prompt, c.choices)[1]] for c in ours]
    picked = picked_by(ours, lengths)
    return {
        "rows": len(ours),
        "shots": "of the suite" if shots is None else shots,
        **picked,
        "published": PUBLISHED,
        "took_s": took,
    }


def picked_by(ours: Sequence[Choice], lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Accuracy and interval by the mean of a token, the sum, and the sum over characters.

    Args:
        lengths: tokens of each choice of each row.
    """
    from sgc.eval.intervals import interval

    hits: dict[str, list[float]] = {"suite": [], "token mean": [], "acc": [], "acc_norm": []}
    for choice, counts in zip(ours, lengths, strict=True):
        sums = [mean * n for mean, n in zip(choice.scores, counts, strict=True)]
        characters = [len(text.strip()) for text in choice.choices]
        each = {
            "token mean": list(choice.scores),
            "acc": sums,
            "acc_norm": [total / n for total, n in zip(sums, characters, strict=True)],
        }
        hits["suite"].append(choice.value)
        for name, scores in each.items():
            best = choice.choices[scores.index(max(scores))]
            hits[name].append(float(best == choice.row.expected))
    return {
        name: {"accuracy": sum(right) / len(right), "interval": interval(right)}
        for name, right in hits.items()
    }


if __name__ == "__main__":
    main()
