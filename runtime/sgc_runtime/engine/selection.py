"""A select on the local engine: every choice is scored as a prompt, the best one stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sgc_ir.params import CallResult, Usage
from sgc_runtime.cache.radix_tree import Ids, common_prefix
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.checks import check_length
from sgc_runtime.engine.choice_plan import ChoicePlan, plan_choices
from sgc_runtime.engine.request import Outcome, Prefix, Request
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.choices import ScoredChoice, decide, same_prefix_same_logprob

_MEMO_ENTRIES = 10_000  # token sequences whose log-probabilities without context are kept

_Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Log-probabilities of the ids from `start` on; `request` is None when there is nothing to
    compute (one token without anything before it)."""

    start: int
    request: Request | None

    def logprobs(self) -> tuple[float, ...]:
        # The very first token of a text has no context to be likely in: it counts 0.
        first = (0.0,) if self.start == 0 else ()
        return (*first, *(self.request.scores if self.request is not None else ()))


async def select(loaded: LoadedEngine, stream: TokenStream, call: Call) -> CallResult:
    """Score all choices behind the prompt of `stream`, which goes on with the best one.

    Raises:
        BackendError: a call that can never fit, or a failure of the engine.
    """
    choices = call.params.choices
    assert choices is not None, "a select has choices"
    plan = plan_choices(stream, loaded.seams, choices)
    check_length(max(len(ids) for ids in plan.sequences), 0, loaded.max_positions)
    waiter = Waiter(loaded.engine)
    scorings = _score_choices(plan, waiter)
    own = [tuple(ids[plan.start :].tolist()) for ids in plan.sequences]
    contrast = call.params.method == "unconditional_likelihood_normalized"
    alone = _score_alone(loaded, own, waiter) if contrast else {}
    outcomes = await _outcomes(waiter, [*scorings, *alone.values()])
    without_context = _remember(loaded, alone)
    scored = [
        ScoredChoice(ids, scoring.logprobs(), without_context[ids] if contrast else ())
        for ids, scoring in zip(own, scorings, strict=True)
    ]
    best, scores = decide(call.params.method, same_prefix_same_logprob(scored))
    usage = _usage(plan, scorings, outcomes)
    loaded.engine.core.metrics.add_call(usage)
    _go_on(loaded, stream, plan, scorings, outcomes, best)
    return CallResult(
        text=choices[best],
        token_ids=own[best],
        finish_reason="choice",
        usage=usage,
        meta={"scores": scores},
    )


def _score_choices(plan: ChoicePlan, waiter: Waiter) -> list[_Scoring]:
    scorings = []
    for i, ids in enumerate(plan.sequences):
        request = None
        if len(ids) > 1:
            request = Request(
                ids,
                on_done=waiter.on_done,
                score_from=max(1, plan.start),
                prefix=plan.prefix,
                call_prompt=plan.start if i == 0 else 0,
            )
        scorings.append(_Scoring(plan.start, request))
    return scorings


def _score_alone(
    loaded: LoadedEngine, sequences: Iterable[_Tokens], waiter: Waiter
) -> dict[_Tokens, _Scoring]:
    """Scorings without context; none (an entry without request) for what is known."""
    found = {}
    for ids in sequences:
        request = None
        if len(ids) > 1 and ids not in loaded.unconditional:
            tokens = np.array(ids, np.int32)
            request = Request(tokens, on_done=waiter.on_done, score_from=1, keep=False)
        found[ids] = _Scoring(0, request)
    return found


async def _outcomes(waiter: Waiter, scorings: Sequence[_Scoring]) -> dict[Request, Outcome]:
    requests = [s.request for s in scorings if s.request is not None]
    return dict(zip(requests, await waiter.run(requests), strict=True))


def _remember(
    loaded: LoadedEngine, alone: dict[_Tokens, _Scoring]
) -> dict[_Tokens, tuple[float, ...]]:
    known = loaded.unconditional
    found = {
        ids: known[ids] if ids in known else scoring.logprobs() for ids, scoring in alone.items()
    }
    if len(known) > _MEMO_ENTRIES:
        known.clear()
    known.update(found)
    return found


def _usage(
    plan: ChoicePlan, scorings: Sequence[_Scoring], outcomes: dict[Request, Outcome]
) -> Usage:
    cached = [outcomes[s.request].cached_tokens for s in scorings if s.request is not None]
    return Usage(
        prompt_tokens=plan.start,
        # The choices share one prompt: computed once is computed.
        cached_tokens=min([plan.start, *cached]) if cached else 0,
        scored_tokens=sum(len(ids) - plan.start for ids in plan.sequences),
    )


def _go_on(
    loaded: LoadedEngine,
    stream: TokenStream,
    plan: ChoicePlan,
    scorings: Sequence[_Scoring],
    outcomes: dict[Request, Outcome],
    best: int,
) -> None:
    """The other choices leave the tree."""
    chosen: Ids = plan.sequences[best]
    others = []
    for i, scoring in enumerate(scorings):
        outcome = outcomes.get(scoring.request) if scoring.request is not None else None
        if i == best:
            stream.go_on(chosen, outcome.node if outcome is not None else None)
        elif outcome is not None and outcome.node is not None:
            others.append(Prefix(outcome.node, common_prefix(chosen, plan.sequences[i])))
    loaded.engine.forget(others)
