"""Characters of a novel as JSON under a regex: with jumps, without, and compiled for each request.

    python -m benchmarks.json_decode [--data DIR] [--batches 1,8,32] [--peers outlines,guidance]

The object of the SGLang paper's decoding benchmark, greedy, on the real model. `jumps` computes
forced text in one pass, `no jumps` the same ids one a pass, `compiled anew` jumps, but gives each
request a regex that differs by a choice of its own near the object's end, and empties the memory
of masks before each repetition, so that nothing compiled is found again. Repetitions in turn; each
on a cold prefix cache.

Before anything is timed, a float32 engine of each kind answers all rows of the largest batch:
texts and numbers of tokens must be equal. In the timed number format sums of several tokens are
rounded in another order
than those of one, so that near ties can turn: `equal_rows` says how many rows stayed the same.
Peers run transformers' model in bfloat16, each warmed up with one row; guidance takes one program
at a time, whatever the batch. Our engines keep the file's integers as weights where that is faster;
beside peers one more keeps them as the peers do, dense in bfloat16.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import Samples, interleave

NAMES = (
    "Harry Potter,Hermione Granger,Ron Weasley,Albus Dumbledore,Severus Snape,Rubeus Hagrid,"
    "Draco Malfoy,Ginny Weasley"
).split(",")
MAX_TOKENS = 256
KV_TOKENS = 20_000
JUMPS, NO_JUMPS, ANEW = "jumps", "no jumps", "compiled anew"
DENSE = "jumps, dense bfloat16"
GOAL_PASSES, GOAL_SPEEDUP = 1 / 3, 2.0  # the latter at batch 1 and 8
MOST_LOST = 1.1  # times the time with a compiled constraint; the paper's own loss is 2.4
_ALIVE = "(Alive|Deceased)"
_numbers = itertools.count()


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    source = "json_jump_forward/dataset.txt" if args.data else "built-in names"
    file = ResultFile(
        args.output, what=__doc__ or "", conditions=conditions(args.threads), names=source
    )
    names = _names(args.data, max(args.batches))
    if args.check:
        rows = _check(args.model, names)
        file.add("same outputs", {"rows": rows, "dtype": "float32", "equal": True})
    engines = {name: _Ours(args.model, name, "bfloat16") for name in (JUMPS, NO_JUMPS, ANEW)}
    peers, absent = _peers(args)
    if peers:
        engines[DENSE] = _Ours(args.model, DENSE, "bfloat16", weights="dense")
    for batch in args.batches:
        found = _measure(engines, peers, names[:batch], args.repetitions)
        file.add(f"batch {batch}", {**found, "absent": absent})
        _say(batch, found)
    for engine in engines.values():
        engine.close()


def _names(folder: Path | None, number: int) -> list[str]:
    if folder is None:
        return [name for name, _ in zip(itertools.cycle(NAMES), range(number), strict=False)]
    lines = (folder / "json_jump_forward" / "dataset.txt").read_text(encoding="utf-8")
    return lines.split("\n")[:number]


def character_regex() -> str:
    """The regex of the object."""
    from benchmarks.common.constraint_cases import regex_cases

    return next(case.source for case in regex_cases() if case.name == "character object")


def _alive(number: int) -> str:
    """The choice with one of its own, near the object's end: what a state before it allows has
    another name in each regex, and nothing that is made for one serves another."""
    return f"(Alive|Deceased|Quarantined {number})"


def prompt_of(name: str) -> str:
    """What stands in front of the object."""
    return (
        f"{name} is a character in Harry Potter. Please fill in the following information about "
        "this character.\n"
    )


class _Ours:
    """An engine of its own."""

    def __init__(self, model: str, kind: str, dtype: str, weights: str = "auto") -> None:
        import asyncio

        from sgc_runtime.backends.local import LocalBackend

        jump = kind != NO_JUMPS
        self.backend = LocalBackend(
            model, dtype=dtype, weights=weights, jump=jump, kv_tokens=KV_TOKENS
        )
        self.backend.load()
        self._loaded: Any = asyncio.run(self.backend.engine())
        self._regex, self._anew = character_regex(), kind == ANEW
        self._program = _program()

    def clear(self) -> None:
        """Empty the prefix cache, and the memory of masks where constraints are made anew."""
        cache = self._loaded.engine.core.cache
        cache.release(cache.alloc(cache.available))
        if self._anew:
            from sgc_runtime.constraints.mask_cache import MaskCache

            vocabulary = self._loaded.constraints.tools.vocabulary
            vocabulary.files, vocabulary.cache = None, MaskCache(256 << 20)

    def answer(self, names: Sequence[str]) -> list[str]:
        """The objects. Raises the first row's error."""
        rows = [{"name": name, "pattern": self._pattern()} for name in names]
        states = self._program.run_batch(rows, backend=self.backend, parallel=len(rows))
        for state in states:
            error = state.error()
            if error is not None:
                raise error
        return [state["json"] for state in states]

    def time(self, names: Sequence[str]) -> float:
        self.clear()
        begin = time.perf_counter()
        self.answer(names)
        return time.perf_counter() - begin

    def count(self, names: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """The objects, and the counters of the run."""
        self.clear()
        kept = ("prefill_steps", "decode_steps", "completion_tokens", "forced_tokens")
        before = dict(self.backend.stats())
        texts = self.answer(names)
        after = self.backend.stats()
        return texts, {name: after[name] - before.get(name, 0) for name in kept}

    def close(self) -> None:
        self.backend.close()

    def _pattern(self) -> str:
        return self._regex.replace(_ALIVE, _alive(next(_numbers))) if self._anew else self._regex


def _program() -> Any:
    import sgc

    @sgc.function
    def character(s: Any, name: str, pattern: str) -> Any:
        """A character as JSON."""
        s += prompt_of(name)
        s += sgc.gen("json", regex=pattern, max_tokens=MAX_TOKENS, temperature=0)
        return s["json"]

    return character


def _check(model: str, names: Sequence[str]) -> int:
    """How many rows were compared. Raises ValueError when something differs."""
    found, tokens = {}, {}
    for kind in (JUMPS, NO_JUMPS, ANEW):
        engine = _Ours(model, kind, "float32")
        found[kind], counters = engine.count(names)
        tokens[kind] = counters["completion_tokens"], counters["forced_tokens"]
        engine.close()
    for kind, texts in found.items():
        for name, own, expected in zip(names, texts, found[JUMPS], strict=True):
            if own != expected:
                raise ValueError(f"{kind}: another object for {name!r} than with jumps")
        if tokens[kind] != tokens[JUMPS]:
            raise ValueError(f"{kind}: {tokens[kind]} tokens and forced ones, not {tokens[JUMPS]}")
    return len(names)


def _measure(
    engines: dict[str, _Ours], peers: dict[str, Any], names: Sequence[str], repetitions: int
) -> dict[str, Any]:
    counted = {name: engine.count(names) for name, engine in engines.items()}
    works: dict[str, Callable[[], float]] = {
        name: partial(engine.time, names) for name, engine in engines.items()
    }
    for name, peer in peers.items():
        peer.time(names[:1])
        works[name] = partial(peer.time, names)
    samples = interleave(works, repetitions, budget_s=120.0)
    base = counted[JUMPS][0]
    found: dict[str, Any] = {
        name: {**taken.to_dict(), "programs_s": round(len(names) / taken.median, 3)}
        for name, taken in samples.items()
    }
    for name, (texts, counters) in counted.items():
        same = sum(a == b for a, b in zip(texts, base, strict=True))
        passes = counters["prefill_steps"] + counters["decode_steps"]
        found[name] |= {**counters, "forward_passes": passes, "equal_rows": same}
    for name, peer in peers.items():
        facts = {"tokens": peer.tokens, "forward_passes": peer.passes, "legal_rows": peer.legal}
        found[name] |= {**facts, "method": peer.method}
    return {"engines": found, "goals": _goals(found, samples, len(names))}


def _goals(found: dict[str, Any], samples: dict[str, Samples], batch: int) -> dict[str, Any]:
    passes = found[JUMPS]["forward_passes"] / found[NO_JUMPS]["forward_passes"]
    faster = samples[NO_JUMPS].median / samples[JUMPS].median
    lost = samples[ANEW].median / samples[JUMPS].median
    goals: dict[str, Any] = {
        "passes": {"share": round(passes, 3)},
        "speedup": {"times": round(faster, 3)},
        "compiled_anew": {"times_slower": round(lost, 3), "met": lost <= MOST_LOST},
    }
    if batch == 1:  # with more rows, the one with most free tokens counts for all
        goals["passes"] |= {"goal": round(GOAL_PASSES, 3), "met": passes <= GOAL_PASSES}
    if batch <= 8:
        goals["speedup"] |= {"goal": GOAL_SPEEDUP, "met": faster >= GOAL_SPEEDUP}
    return goals


def _peers(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that can be used, and why others cannot."""
    from benchmarks.common.json_peers import PEERS
    from benchmarks.common.peer import PeerMissing

    peers, absent = {}, {}
    for name in args.peers:
        try:
            peers[name] = PEERS[name](args.model, character_regex(), prompt_of, MAX_TOKENS)
        except PeerMissing as reason:
            absent[name] = str(reason)
    return peers, absent


def _say(batch: int, found: dict[str, Any]) -> None:
    rates = {name: figures["programs_s"] for name, figures in found["engines"].items()}
    print(f"batch {batch}: programs/s {rates}, {found['goals']}", flush=True)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--batches", type=lambda s: [int(x) for x in s.split(",")], default=[1, 8, 32]
    )
    parser.add_argument(
        "--peers", type=lambda s: s.split(",") if s else [], default=["outlines", "guidance"]
    )
    parser.add_argument("--no-check", dest="check", action="store_false", help="leave out float32")
    parser.add_argument("--output", type=result_path, default=default_path("json_decode"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
