"""A gen whose closed sets of texts are weighed as wholes (`distribution="exact"`).

A sample is generated id by id until it stands before a closed set (`constraints.exact`). Its
texts are scored in one pass, as the choices of a select are; the sample goes on with the one that
is taken, whose keys and values stay in the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import CallResult, Timing
from sgc_runtime.cache.radix_tree import Ids, common_prefix
from sgc_runtime.constraints.exact import ClosedSets, OptionSet, Weighed, choose, weigh
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.call_meta import warn_of_fight
from sgc_runtime.engine.checks import check_length, check_params
from sgc_runtime.engine.generation import go_on, more_of, sample_request, sample_result
from sgc_runtime.engine.request import Outcome, Prefix, Request
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.token_trie import TokenTrie
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call

_MOST_TOLD = 16  # sets in the metadata of a result


async def generate_exact(loaded: LoadedEngine, stream: TokenStream, call: Call) -> list[CallResult]:
    """One result a sample; `stream` goes on with sample 0.

    Raises:
        BackendError: a parameter that has no meaning here, a constraint that nowhere leaves few
            texts, a call that can never fit, or a failure of the engine.
    """
    params = call.params
    check_params(params, loaded.vocab_size)
    prompt = stream.resolve(loaded.seams)
    check_length(len(prompt), params.max_tokens, loaded.max_positions)
    if params.max_tokens == 0:
        raise BackendError('distribution="exact" needs max_tokens of 1 or more')
    planner = None
    try:
        planner = await loaded.constraints.get(params)
        found = await _closed_sets(loaded, planner, call)
        gen = _ExactGen(loaded, stream, call, planner, found)
        results = [await gen.sample(i) for i in range(params.n)]
    except ConstraintError as error:
        if planner is not None and error.kind == "limit":
            loaded.constraints.forget(params)  # it may have grown to its limit in other gens
        raise BackendError(f"{params.constraint}: {error}") from error
    for result in results:
        loaded.engine.core.metrics.add_call(result.usage)
    gen.go_on()
    return results


async def _closed_sets(loaded: LoadedEngine, planner: Planner, call: Call) -> ClosedSets:
    ends = loaded.end_of_turn_ids if call.end_of_turn else loaded.eos_ids
    stop_ids = frozenset(call.params.stop_token_ids)
    found = ClosedSets(planner, ends | stop_ids, call.params.stop)
    if not await asyncio.to_thread(found.any_within_reach, loaded.constraints.rest):
        raise ConstraintError(
            'distribution="exact" needs a place where few texts are possible, up to one where all '
            "go on alike, and this has none; drop it, or bound the texts",
            kind="unsupported",
        )
    return found


@dataclass(slots=True)
class _Part:
    """What a sample has so far.

    Attributes:
        ids: its own; `forced`: which of them the constraint forced.
        ends: nothing is to follow.
        told: what became of each closed set.
        mass, num_masked: see `SamplingRow`.
        streamed: characters that were given away.
    """

    ids: tuple[int, ...] = ()
    forced: tuple[bool, ...] = ()
    ends: bool = False
    prefix: Prefix | None = None
    told: list[dict[str, Any]] = field(default_factory=list)
    mass: float = 0.0
    num_masked: int = 0
    scored: int = 0
    cached: int | None = None
    streamed: int = 0
    timing: Timing = field(default_factory=Timing)


class _ExactGen:
    """The samples of one call, one after the other.

    Weights of a set at the same ids are used by all samples.
    """

    def __init__(
        self,
        loaded: LoadedEngine,
        stream: TokenStream,
        call: Call,
        planner: Planner,
        sets: ClosedSets,
    ) -> None:
        self._loaded, self._stream, self._call = loaded, stream, call
        self._planner, self._sets = planner, sets
        self._num_prompt_ids = len(stream.ids)
        self._known: dict[tuple[int, ...], Weighed] = {}
        self._first: tuple[Request, Outcome, Prefix | None] | None = None

    async def sample(self, number: int) -> CallResult:
        part = _Part(prefix=self._stream.prefix)
        while True:
            request, outcome = await self._generate(number, part)
            found = self._set_at(request)
            if found is None:
                break
            await self._take_option(number, part, request, outcome, found)
        if number == 0:
            warn_of_fight(self._loaded, self._call, request)
            self._first = (request, outcome, part.prefix)
        return self._result(number, part, request, outcome)

    def go_on(self) -> None:
        """Let the stream go on with sample 0."""
        assert self._first is not None
        request, outcome, prefix = self._first
        self._first = None  # the request holds this object
        go_on(self._stream, request, outcome)
        if outcome.node is None and prefix is not None:
            length = min(prefix.length, len(self._stream.ids))
            self._stream.prefix = Prefix(prefix.node, length)

    # -- one part after the other ---------------------------------------------------------------

    async def _generate(self, number: int, part: _Part) -> tuple[Request, Outcome]:
        """Go on up to the next set, or to the end."""
        waiter = Waiter(self._loaded.engine)
        call = replace(self._call, on_text=_listener(self._call.on_text, part))
        request = sample_request(self._loaded, self._stream, call, waiter, self._planner, number)
        assert request.guide is not None
        assert request.row is not None
        request.prefix = part.prefix
        request.call_prompt = 0 if part.told else request.call_prompt
        request.row.allowed_mass, request.row.num_masked = part.mass, part.num_masked
        request.guide.resume(
            part.ids, part.ends, lambda matcher: self._sets.at(matcher) is not None
        )
        (outcome,) = await waiter.run([request])
        part.mass, part.num_masked = request.row.allowed_mass, request.row.num_masked
        part.forced = _forced(part, request)
        self._account(part, request, outcome)
        return request, outcome

    def _set_at(self, request: Request) -> OptionSet | None:
        guide, watcher = request.guide, request.watcher
        assert guide is not None
        assert watcher is not None
        paused = watcher.finish_reason == "paused"
        return self._sets.at(guide.matcher) if paused else None

    async def _take_option(
        self, number: int, part: _Part, request: Request, outcome: Outcome, found: OptionSet
    ) -> None:
        assert request.guide is not None
        assert request.watcher is not None
        before = tuple(request.guide.matcher.ids)
        kept = before[: found.num_kept]
        prompt = np.concatenate([request.prompt, kept]).astype(np.int32)
        prefix = _prefix_of(outcome, len(prompt)) or part.prefix
        weighed = self._known.get(before)
        node = None
        if weighed is None or number == 0:
            weighed, taken, node = await self._score(
                part, prompt, prefix, found, number, len(before)
            )
            self._known[before] = weighed
        else:
            taken = self._choose(weighed, number, len(before))
        option = found.options[taken]
        part.ids = kept + option.ids
        part.forced = part.forced[: len(kept)] + tuple(
            i >= option.num_own for i in range(len(option.ids))
        )
        part.ends = found.ends
        part.mass += weighed.mass
        part.num_masked += len(option.scored[0])
        part.told.append({"begin": len(request.watcher.text), **weighed.to_meta()})
        if node is not None:
            same = common_prefix(_ids(option.ids), _ids(option.scored[0]))
            part.prefix = _prefix_of(node, len(prompt) + same)

    async def _score(
        self,
        part: _Part,
        prompt: Ids,
        prefix: Prefix | None,
        found: OptionSet,
        number: int,
        step: int,
    ) -> tuple[Weighed, int, Outcome]:
        """One pass over the options; the cache keeps the one that is taken."""
        sequences = [_ids(ids) for option in found.options for ids in option.scored]
        longest = max(len(ids) for ids in sequences)
        check_length(len(prompt) + longest, 0, self._loaded.max_positions)
        trie = TokenTrie(prompt, sequences)
        firsts = np.cumsum([0, *(len(option.scored) for option in found.options)])
        decided: list[tuple[Weighed, int]] = []

        def decide(logprobs: Sequence[float]) -> int:
            each = [trie.logprobs_behind(i, logprobs) for i in range(len(sequences))]
            weighed = weigh(found.options, each)
            taken = self._choose(weighed, number, step)
            decided.append((weighed, taken))
            return int(firsts[taken])

        waiter = Waiter(self._loaded.engine)
        request = Request(
            trie.tokens,
            on_done=waiter.on_done,
            scoring=Scoring(trie, decide),
            prefix=prefix,
            instance=self._call.instance,
            more_tokens=more_of(self._call),
        )
        (outcome,) = await waiter.run([request])
        part.scored += sum(len(ids) for ids in sequences)
        self._account(part, request, outcome)
        ((weighed, taken),) = decided
        return weighed, taken, outcome

    def _choose(self, weighed: Weighed, number: int, step: int) -> int:
        taken = choose(weighed, self._call.params, self._call.seeds[number], step)
        if taken is None:
            raise BackendError("the model's probabilities are not numbers")
        return taken

    # -- results --------------------------------------------------------------------------------

    def _account(self, part: _Part, request: Request, outcome: Outcome) -> None:
        part.timing += request.times.timing()
        if part.cached is None and request.cached_tokens is not None:
            part.cached = outcome.cached_tokens

    def _result(self, number: int, part: _Part, request: Request, outcome: Outcome) -> CallResult:
        assert request.watcher is not None
        found = sample_result(self._loaded, [request], [outcome], 0, self._num_prompt_ids)
        usage = replace(
            found.usage,
            prompt_tokens=found.usage.prompt_tokens if number == 0 else 0,
            cached_tokens=min(part.cached or 0, request.num_prompt) if number == 0 else 0,
            forced_tokens=sum(part.forced[request.watcher.num_healed :]),
            scored_tokens=part.scored,
        )
        meta = {**found.meta, "distribution": part.told[:_MOST_TOLD]}
        return replace(found, usage=usage, meta=meta, timing=part.timing)


def _ids(values: Sequence[int]) -> Ids:
    return np.array(values, np.int32)


def _prefix_of(outcome: Outcome, length: int) -> Prefix | None:
    node = outcome.node
    return None if node is None else Prefix(node, min(node.end, length))


def _forced(part: _Part, request: Request) -> tuple[bool, ...]:
    """Of each id of `request`, given or new, whether the constraint forced it."""
    same = common_prefix(_ids(part.ids), request.output)
    return (*part.forced[:same], *request.forced[same:])


def _listener(on_text: Callable[[str], None] | None, part: _Part) -> Callable[[str], None] | None:
    """Hands on what has not been given away in an earlier part."""
    if on_text is None:
        return None
    known = part.streamed

    def listen(piece: str) -> None:
        nonlocal known
        new = piece[known:]
        known = max(0, known - len(piece))
        if new:
            part.streamed += len(new)
            on_text(new)

    return listen
