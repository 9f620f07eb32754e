"""Masks for constrained decoding beside llguidance, xgrammar and outlines-core.

    python -m benchmarks.constrained [--data DIR] [--model M] [--gemma FILE] [--engines sgc,...]

For each constraint: compile; then for each of its texts, token by token as the tokenizer encodes
it: fill a packed mask, look whether the token is in it, accept; at the end one more mask, in which
EOS must be. `cold` is the first pass over a compiled constraint, `warm` the second. One process,
one thread, no cache of compiled constraints; times include the call from Python. sgc makes the
first mask when it compiles, so compare `compile_and_first_mask`. The constraints of an engine share
what it keeps of the vocabulary, as those of a process do; `alone` gives compile and first mask of
each in an engine made for it. A constraint whose right token is masked away counts as wrong, one
that raises as refused, one that takes longer than `--seconds` to compile as slow; their masks are
left out of the table. `illegal_taken`: an illegal text (three of each schema) that no mask stops.

Vocabularies: the default model's (49k), and with `--gemma` that of a GGUF file (Gemma 3: 262k).
Constraints: 24 regexes, and with `--data` the schemas of `jsonschema/maskbench_sample.jsonl`.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import conditions, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path


def main() -> None:
    arguments = _arguments()
    use_threads(1)
    file = ResultFile(
        arguments.output, what=__doc__.splitlines()[0], conditions=conditions(1), **_versions()
    )
    from benchmarks.common.constraint_cases import regex_cases, schema_cases
    from benchmarks.common.constraint_engines import installed

    sets = {"regex": regex_cases()}
    if arguments.data is not None and "schema" in arguments.sets.split(","):
        found = list(schema_cases(arguments.data))
        sets["schema"] = found[:: max(1, len(found) // arguments.schemas)]
    wanted = arguments.engines.split(",") if arguments.engines else None
    for model in (arguments.model, *([arguments.gemma] if arguments.gemma else [])):
        vocabulary = _Vocabulary(model)
        for engine in installed():
            if wanted is None or engine.name in wanted:
                _measure(engine, vocabulary, sets, arguments.seconds, file)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--gemma", help="a GGUF file with a larger vocabulary")
    parser.add_argument("--engines", help="names, with commas (default: all that are installed)")
    parser.add_argument("--sets", default="regex,schema")
    parser.add_argument("--schemas", type=int, default=32, help="how many schemas")
    parser.add_argument("--seconds", type=int, default=20, help="longest compile")
    parser.add_argument("--output", type=result_path, default=default_path("constrained"))
    return parser.parse_args()


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("llguidance", "xgrammar", "outlines-core"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"peers": found}


class _Vocabulary:
    """A tokenizer's tokens, and texts as it encodes them."""

    def __init__(self, model: str) -> None:
        from sgc_runtime.models import resolve
        from sgc_runtime.tokenizer.tokenizer import load_tokenizer

        self._tokenizer = load_tokenizer(resolve(model))
        self.size = self._tokenizer.vocab_size
        self.tokens = [self._tokenizer.token_bytes(i) for i in range(self.size)]
        self.eos = min(self._tokenizer.eos_ids)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, start=False)


@dataclass
class _Times:
    """Seconds, and how the constraints of a set fared."""

    compile: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)  # compile and first mask
    alone: list[float] = field(default_factory=list)  # the same in an engine of its own
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    accept: list[float] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)  # illegal texts that no mask stops
    cases: dict[str, dict[str, float]] = field(default_factory=dict)
    num_bytes: int = 0

    def add(self, name: str, own: _Times) -> None:
        """Add the times of one constraint."""
        for kind in ("compile", "first", "alone", "cold", "warm", "accept"):
            getattr(self, kind).extend(getattr(own, kind))
        self.taken.update(own.taken)
        self.num_bytes += own.num_bytes
        self.cases[name] = {
            "compile_ms": round(1e3 * own.compile[0], 3),
            "first_ms": round(1e3 * own.first[0], 3),
            **{f"cold_{k}": v for k, v in _quantiles(own.cold).items()},
        }


class _WrongError(Exception):
    """A right token is masked away."""


def _measure(
    engine: Any, vocabulary: _Vocabulary, sets: dict[str, list[Any]], seconds: int, file: ResultFile
) -> None:
    begin = time.perf_counter()
    made = _made(engine, vocabulary)
    set_up = time.perf_counter() - begin
    gc.freeze()  # as an engine does: what stays loaded is not looked through again
    for name, cases in sets.items():
        times = _Times()
        for case in cases:
            _run_case(made, vocabulary, case, seconds, times)
            if case.name in times.cases:
                times.alone.append(_alone(_made(engine, vocabulary), vocabulary, case))
        result = {"set_up_s": round(set_up, 3), **_summary(times, len(cases)), "cases": times.cases}
        result["shared_mb"] = round(made.num_bytes() / 1e6, 2)
        part = f"{name} {vocabulary.size} {engine.name}"
        file.add(part, result)
        print(part, {k: v for k, v in result.items() if k != "cases"}, flush=True)


def _made(engine: Any, vocabulary: _Vocabulary) -> Any:
    return engine(vocabulary.tokens, vocabulary.eos, vocabulary.encode)


def _alone(made: Any, vocabulary: _Vocabulary, case: Any) -> float:
    """Seconds to compile and to the first mask, where no other constraint came before."""
    import numpy as np

    words = np.zeros(-(-vocabulary.size // 32), np.int32)
    begin = time.perf_counter()
    made.compile(case).session().fill(words)
    return time.perf_counter() - begin


def _run_case(made: Any, vocabulary: _Vocabulary, case: Any, seconds: int, times: _Times) -> None:
    """Measure one constraint, and note how it fared."""
    if not made.interruptible and not _ends(made, case, seconds):
        times.slow.append(case.name)
        return
    try:
        own = _timed(made, vocabulary, case, seconds)
    except TimeoutError:
        times.slow.append(case.name)
    except _WrongError as error:
        times.wrong[case.name] = str(error)
    except Exception as error:  # each library has its own kinds
        times.refused[case.name] = f"{type(error).__name__}: {error}"[:200]
    else:
        times.add(case.name, own)


def _timed(made: Any, vocabulary: _Vocabulary, case: Any, seconds: int) -> _Times:
    import numpy as np

    words, own = np.zeros(-(-vocabulary.size // 32), np.int32), _Times()
    with _at_most(seconds):
        begin = time.perf_counter()
        constraint = made.compile(case)
        own.compile.append(time.perf_counter() - begin)
        constraint.session().fill(words)
        own.first.append(time.perf_counter() - begin)
        own.cold.append(own.first[0] - own.compile[0])
    with _at_most(10 * seconds):
        texts = [vocabulary.encode(text) for text in case.texts]
        _pass(constraint, texts, vocabulary.eos, words, own.cold, own.accept)
        own.cold.pop(1)  # the first mask, once more
        _pass(constraint, texts, vocabulary.eos, words, own.warm, [])
        for text in case.illegal:
            if _takes(constraint, vocabulary.encode(text), vocabulary.eos, words):
                own.taken[case.name] = text[:100]
    own.num_bytes = constraint.num_bytes()
    return own


def _ends(made: Any, case: Any, seconds: int) -> bool:
    """Whether a compile ends in time, tried in a process of its own."""
    child = os.fork()
    if not child:
        signal.alarm(seconds)  # nobody catches it
        with suppress(Exception):
            made.compile(case)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _pass(
    constraint: Any,
    texts: Sequence[list[int]],
    eos: int,
    words: Any,
    fills: list[float],
    accepts: list[float],
) -> None:
    for ids in texts:
        session = constraint.session()
        for at, token in enumerate([*ids, eos]):
            begin = time.perf_counter()
            session.fill(words)
            end = time.perf_counter()
            fills.append(end - begin)
            if not int(words[token >> 5]) >> (token & 31) & 1:
                raise _WrongError(f"token {at} of {len(ids)} is masked away")
            if at < len(ids):
                begin = time.perf_counter()
                session.accept(token)
                accepts.append(time.perf_counter() - begin)


def _takes(constraint: Any, ids: Sequence[int], eos: int, words: Any) -> bool:
    """Whether every mask allows the next of `ids`, and the end behind them."""
    session = constraint.session()
    for at, token in enumerate([*ids, eos]):
        session.fill(words)
        if not int(words[token >> 5]) >> (token & 31) & 1:
            return False
        if at < len(ids):
            session.accept(token)
    return True


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds (a library that holds on is waited for)."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _summary(times: _Times, cases: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cases_in_all": cases,
        "answered": len(times.compile),
        "refused": times.refused,
        "wrong": times.wrong,
        "illegal_taken": times.taken,
        "slow": times.slow,
        "masks": len(times.cold),
        "constraints_mb": round(times.num_bytes / 1e6, 2),
    }
    if times.compile:
        found["compile_ms"] = _quantiles(times.compile, 1e3)
        found["compile_and_first_mask_ms"] = _quantiles(times.first, 1e3)
        found["compile_and_first_mask_alone_ms"] = _quantiles(times.alone, 1e3)
        found["cold_mask_us"] = _quantiles(times.cold)
        found["warm_mask_us"] = _quantiles(times.warm)
        found["accept_us"] = _quantiles(times.accept)
    return found


def _quantiles(seconds: Sequence[float], scale: float = 1e6) -> dict[str, float]:
    import numpy as np

    names = {"median": 50, "p90": 90, "p99": 99, "max": 100}
    return {name: round(float(np.percentile(seconds, q)) * scale, 2) for name, q in names.items()}


if __name__ == "__main__":
    main()
