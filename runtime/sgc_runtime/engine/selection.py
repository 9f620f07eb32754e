"""A select on the local engine: all choices are scored as one token trie, the best one stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sgc_ir.params import CallResult, Timing, Usage
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.checks import check_length
from sgc_runtime.engine.choice_plan import ChoicePlan, plan_choices
from sgc_runtime.engine.generation import more_of
from sgc_runtime.engine.regions import regions_of
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.token_trie import TokenTrie
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.choices import ScoredChoice, decide

_MEMO_ENTRIES = 10_000  # token sequences whose log-probabilities without context are kept

_Tokens = tuple[int, ...]
_Logprobs = tuple[float, ...]


async def select(loaded: LoadedEngine, stream: TokenStream, call: Call) -> CallResult:
    """Score all choices behind the prompt of `stream`, which goes on with the best one.

    Raises:
        BackendError: a call that can never fit, or a failure of the engine.
    """
    choices = call.params.choices
    assert choices is not None, "a select has choices"
    plan = plan_choices(stream, loaded.seams, choices)
    check_length(max(len(ids) for ids in plan.sequences), 0, loaded.max_positions)
    ballot = Ballot(plan, call.params.method, loaded.unconditional)
    outcome, timing = await _score(loaded, plan, ballot, call)
    _remember(loaded, ballot)
    usage = _usage(plan, outcome)
    loaded.engine.core.metrics.add_call(usage)
    stream.go_on(plan.sequences[ballot.best], outcome.node)
    return CallResult(
        text=str.__str__(choices[ballot.best]),  # it may be an enum's
        token_ids=ballot.own[ballot.best],
        finish_reason="choice",
        usage=usage,
        meta={"scores": ballot.scores},
        timing=timing,
    )


class Ballot:
    """Choices, and which one wins once the log-probabilities of their tokens are there.

    Args:
        known: log-probabilities of token sequences without context.

    Attributes:
        own: ids of each choice from the common start on.
        trie: what is to be computed: the choices behind the prompt, and without context those
            whose log-probabilities the method asks for and nobody knows.
        best, scores: the winner and the scores in choice order, once decided.
        found: log-probabilities without context that are new.
    """

    def __init__(self, plan: ChoicePlan, method: str, known: dict[_Tokens, _Logprobs]) -> None:
        self.own: list[_Tokens] = [tuple(ids[plan.start :].tolist()) for ids in plan.sequences]
        self._method = method
        contrast = method == "unconditional_likelihood_normalized"
        # Looked up once: calls in other threads may drop what is known at any time.
        found = {ids: known.get(ids) for ids in self.own} if contrast else {}
        self._known = {ids: values for ids, values in found.items() if values is not None}
        self._alone = [ids for ids in self.own if ids not in self._known] if contrast else []
        behind = [ids[plan.start :] for ids in plan.sequences]
        self.trie = TokenTrie(plan.sequences[0][: plan.start], behind, _arrays(self._alone))
        self.best = -1
        self.scores: list[float] = []
        self.found: dict[_Tokens, _Logprobs] = {}

    def decide(self, logprobs: Sequence[float]) -> int:
        """The winner, given all log-probabilities of the trie in its order."""
        trie = self.trie
        self.found = {ids: trie.logprobs_alone(i, logprobs) for i, ids in enumerate(self._alone)}
        without_context = self._known | self.found
        scored = [
            ScoredChoice(ids, trie.logprobs_behind(i, logprobs), without_context.get(ids, ()))
            for i, ids in enumerate(self.own)
        ]
        self.best, self.scores = decide(self._method, scored)
        return self.best


def _arrays(sequences: Sequence[_Tokens]) -> list[Ids]:
    return [np.array(ids, np.int32) for ids in sequences]


async def _score(
    loaded: LoadedEngine, plan: ChoicePlan, ballot: Ballot, call: Call
) -> tuple[Outcome, Timing]:
    """Have the trie computed; without anything to compute, decide at once."""
    if not ballot.trie.num_tokens:
        ballot.decide(())
        return Outcome(), Timing()
    waiter = Waiter(loaded.engine)
    request = Request(
        ballot.trie.tokens,
        on_done=waiter.on_done,
        scoring=Scoring(ballot.trie, ballot.decide),
        prefix=plan.prefix,
        call_prompt=plan.start,
        instance=call.instance,
        more_tokens=more_of(call),
        regions=regions_of(loaded.token_chars, call, ballot.trie.tokens[: plan.start], 0),
    )
    (outcome,) = await waiter.run([request])
    return outcome, request.times.timing()


def _remember(loaded: LoadedEngine, ballot: Ballot) -> None:
    known = loaded.unconditional
    if len(known) > _MEMO_ENTRIES:
        known.clear()
    known.update(ballot.found)


def _usage(plan: ChoicePlan, outcome: Outcome) -> Usage:
    return Usage(
        prompt_tokens=plan.start,
        cached_tokens=outcome.cached_tokens,
        scored_tokens=sum(len(ids) - plan.start for ids in plan.sequences),
    )
