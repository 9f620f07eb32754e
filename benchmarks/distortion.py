"""How far sampling under a constraint is from the model's own distribution over the legal texts.

    python -m benchmarks.distortion [--model M] [--samples N]

Exact probabilities: one full forward of `transformers` a text, in float32 and nothing shared: that
of the text's canonical ids and a line feed behind them, renormalised over the texts. Beside them:

- `exact`: what `distribution="exact"` says in its metadata (`stop="\\n"` is what ends a text), on
  the same weights in float32.
- `local`: masks step by step, the default, with the line feed as part of the regex. Its
  probabilities by enumeration of what the masks allow under the canonical rule, with
  `transformers`' logits, and the shares of `--samples` seeded gens of the engine.

`tv` is the total variation distance to the exact probabilities, `largest` the largest difference of
one text. Parts: four ratings; grades A to D with signs; five words that begin alike; grades in the
middle of a regex, where `; Reason:` follows instead of a line feed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.conditions import conditions, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

GOAL = 0.01
_GRADES = tuple(letter + sign for letter in "ABCD" for sign in ("", "+", "-"))
_RATINGS = ("Excellent", "Above Average", "Fair", "Below Average")
_AT_ONCE = 64
_RAREST = 1e-7  # ways that are less likely are left out


@dataclass(frozen=True, slots=True)
class Case:
    """Texts behind a prompt; `behind` follows each of them and is part of what is compared."""

    prompt: str
    texts: tuple[str, ...]
    behind: str = "\n"
    pattern: str = ""

    @property
    def regex(self) -> str:
        return self.pattern or "|".join(text.replace("+", r"\+") for text in self.texts)

    @property
    def bounded_regex(self) -> str:
        """With what follows each text, for local mode, which else can only end with EOS."""
        return self.pattern or f"({self.regex}){self.behind}"

    @property
    def stop(self) -> tuple[str, ...]:
        return () if self.pattern else (self.behind,)


CASES = {
    "ratings": Case("Review: The hotel was clean and the staff friendly.\nRating: ", _RATINGS),
    "grades": Case("The essay is well written and has a clear point.\nGrade: ", _GRADES),
    "words": Case(
        "My favorite dessert is made of fruit and dough. It is called ",
        ("apple", "apple pie", "applet", "apricot", "axe"),
    ),
    "grades in the middle": Case(
        "The essay is well written and has a clear point.\n",
        tuple(f"Grade: {grade};" for grade in _GRADES),
        behind=" Reason:",
        pattern=r"Grade: (A|B|C|D)[+-]?; Reason: [^\n]*",
    ),
}


def main() -> None:
    arguments = _arguments()
    use_threads(arguments.threads)
    from sgc_runtime.models import resolve

    path = resolve(arguments.model)
    file = ResultFile(
        arguments.output,
        what=__doc__.splitlines()[0],
        conditions=conditions(arguments.threads),
        model=arguments.model,
        dtype="float32",
    )
    judge = _Judge(path)
    for name, case in CASES.items():
        result = asyncio.run(_measure(judge, path, case, arguments.samples))
        file.add(name, result)
        print(name, {key: result[key] for key in ("exact_largest", "exact_tv", "local_tv")})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--samples", type=int, default=128, help="seeded gens in local mode")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=result_path, default=default_path("distortion"))
    return parser.parse_args()


async def _measure(judge: _Judge, path: Path, case: Case, samples: int) -> dict[str, Any]:
    truth = judge.shares(case)
    local = judge.local_shares(case)
    exact, drawn = await _ours(path, case, samples)
    return {
        "prompt": case.prompt,
        "regex": case.regex,
        "truth": truth,
        "exact": exact,
        "exact_largest": _largest(exact, truth),
        "exact_tv": _distance(exact, truth),
        "local": local,
        "local_tv": _distance(local, truth),
        "local_largest": _largest(local, truth),
        "samples": samples,
        "local_drawn": drawn,
        "local_drawn_tv": _distance(drawn, truth),
        "drawn_to_enumerated_tv": _distance(drawn, local),
        "goal": GOAL,
        "met": _largest(exact, truth) <= GOAL,
    }


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Total variation."""
    return sum(abs(one.get(text, 0.0) - share) for text, share in other.items()) / 2


def _largest(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return max(abs(one.get(text, 0.0) - share) for text, share in other.items())


def _normalised(logs: Mapping[str, float]) -> dict[str, float]:
    total = np.logaddexp.reduce(list(logs.values()))
    return {text: float(np.exp(value - total)) for text, value in logs.items()}


# -- ours ---------------------------------------------------------------------------------------


async def _ours(path: Path, case: Case, samples: int) -> tuple[dict[str, float], dict[str, float]]:
    """What exact mode says, and the shares of texts that local mode draws."""
    from sgc_runtime.backends.local import LocalBackend

    backend = LocalBackend(path, dtype="float32", kv_tokens=8192)
    try:
        (found,) = await _gen(backend, case, (0,), distribution="exact", stop=case.stop)
        told = found.meta["distribution"][0]
        begun = found.text[: told["begin"]]
        pairs = zip(told["texts"], told["probabilities"], strict=True)
        exact = {begun + text: share for text, share in pairs}
        drawn: Counter[str] = Counter()
        for start in range(0, samples, _AT_ONCE):
            seeds = tuple(range(start, min(samples, start + _AT_ONCE)))
            for result in await _gen(backend, case, seeds):
                drawn[next(t for t in _longest_first(case) if result.text.startswith(t))] += 1
        return exact, {text: count / samples for text, count in drawn.items()}
    finally:
        backend.close()


async def _gen(backend: Any, case: Case, seeds: tuple[int, ...], **params: Any) -> list[Any]:
    from sgc_ir.params import SamplingParams
    from sgc_runtime.executor.backend import Call, Text

    stream = backend.open()
    stream.append([Text(case.prompt)])
    values = SamplingParams(
        regex=case.regex if params else case.bounded_regex, max_tokens=12, n=len(seeds), **params
    )
    results: list[Any] = await stream.generate(Call("g0", "", 0, values, seeds))
    return results


def _longest_first(case: Case) -> list[str]:
    return sorted(case.texts, key=len, reverse=True)


# -- the judge ----------------------------------------------------------------------------------


class _Judge:
    """The model by `transformers`, in float32, and its tokenizer."""

    def __init__(self, path: Path) -> None:
        import torch

        from benchmarks.common.transformers_model import load_transformers
        from sgc_runtime.tokenizer.tokenizer import load_tokenizer

        self._model = load_transformers(path, torch.float32)
        self.tokenizer = load_tokenizer(path)

    def logprobs(self, ids: Sequence[int]) -> npt.NDArray[np.float64]:
        """`[len(ids), vocab]`: of what follows each id."""
        import torch

        with torch.inference_mode():
            logits = self._model(torch.tensor([list(ids)])).logits[0]
        found: npt.NDArray[np.float64] = logits.double().log_softmax(-1).numpy()
        return found

    def shares(self, case: Case) -> dict[str, float]:
        """Exact probabilities."""
        before = self.tokenizer.encode(case.prompt)
        return _normalised(
            {
                text: self._of_ids(before, self.tokenizer.encode(text + case.behind, start=False))
                for text in case.texts
            }
        )

    def local_shares(self, case: Case) -> dict[str, float]:
        """Probabilities of sampling under masks and the canonical rule, step by step."""
        shares = dict.fromkeys(case.texts, 0.0)
        for text, share in _Masked(self, case).texts():
            shares[text] += share
        return shares

    def _of_ids(self, before: list[int], ids: list[int]) -> float:
        logp = self.logprobs(before + ids)
        places = range(len(before) - 1, len(before) + len(ids) - 1)
        return sum(float(logp[place, token]) for place, token in zip(places, ids, strict=True))


class _Masked:
    """Every way in which a gen can be sampled under masks, with its probability."""

    def __init__(self, judge: _Judge, case: Case) -> None:
        from sgc_ir.params import SamplingParams
        from sgc_runtime.constraints.compiler import ConstraintCompiler
        from sgc_runtime.constraints.of_tokenizer import constraint_tools

        tokenizer = judge.tokenizer
        compiler = ConstraintCompiler(lambda: constraint_tools(tokenizer))
        self._planner = compiler.submit(SamplingParams(regex=case.bounded_regex)).result()
        self._judge, self._case = judge, case
        self._before = tokenizer.encode(case.prompt)

    def texts(self) -> Iterator[tuple[str, float]]:
        """Texts, some of them several times, and the probability of each way."""
        stack: list[tuple[list[int], float]] = [([], 1.0)]
        while stack:
            ids, share = stack.pop()
            matcher = self._behind(ids)
            text = self._decided(matcher)
            if text is not None:
                yield text, share
                continue
            for token, chance in self._next(matcher):
                if token in self._judge.tokenizer.eos_ids:
                    yield self._text(matcher), share * chance
                elif share * chance > _RAREST:
                    stack.append(([*matcher.ids, token], share * chance))

    def _behind(self, ids: list[int]) -> Any:
        """A sample of these ids, and what is forced behind them."""
        from sgc_runtime.constraints.matcher import Matcher

        matcher = Matcher(self._planner)
        for token in ids:
            matcher.accept(token)
        while (jump := matcher.jump()) is not None:
            matcher.apply(jump)
        return matcher

    def _next(self, matcher: Any) -> list[tuple[int, float]]:
        """What may be sampled, with its probability."""
        mask = matcher.mask().view(np.uint8)
        bits = np.unpackbits(mask, bitorder="little").nonzero()[0].tolist()
        allowed = [token for token in bits if matcher.is_canonical(token) is not False] or bits
        if matcher.end_allowed:
            allowed += sorted(self._judge.tokenizer.eos_ids)
        logp = self._judge.logprobs(self._before + matcher.ids)[-1][allowed]
        chances = np.exp(logp - np.logaddexp.reduce(logp))
        return list(zip(allowed, chances.tolist(), strict=True))

    def _decided(self, matcher: Any) -> str | None:
        """The text that a sample has decided on, once it has."""
        text = self._text(matcher)
        if matcher.is_final:
            return text.removesuffix(self._case.behind)
        begun = [t for t in self._case.texts if text.startswith(t)]
        return begun[0] if self._case.pattern and begun else None

    def _text(self, matcher: Any) -> str:
        return b"".join(map(self._judge.tokenizer.token_bytes, matcher.ids)).decode()


if __name__ == "__main__":
    main()
