"""A gen on the local engine: requests for its samples, results out of their outcomes."""

from __future__ import annotations

import numpy as np

from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import CallResult, SamplingParams, Usage
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.call_meta import logprob_meta, warn_of_fight
from sgc_runtime.engine.checks import check_length, check_params
from sgc_runtime.engine.guide import Guide
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.regions import regions_of
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.row import SamplingRow

_CHARS_A_TOKEN = 8  # of text to come, for each token that is reckoned with


async def generate(loaded: LoadedEngine, stream: TokenStream, call: Call) -> list[CallResult]:
    """One result a sample; `stream` goes on with sample 0.

    Raises:
        BackendError: a parameter that the engine does not know, a call that can never fit, or a
            failure of the engine.
    """
    params = call.params
    check_params(params, loaded.vocab_size)
    prompt = stream.resolve(loaded.seams)
    check_length(len(prompt), params.max_tokens, loaded.max_positions)
    planner = None
    try:
        if params.binds_text:
            planner = await loaded.constraints.get(params)
        if params.max_tokens == 0:
            return _nothing(params, planner)
        waiter = Waiter(loaded.engine)
        requests = [
            sample_request(loaded, stream, call, waiter, planner, i) for i in range(params.n)
        ]
        outcomes = await waiter.run(requests)
    except ConstraintError as error:
        if planner is not None and error.kind == "limit":
            loaded.constraints.forget(params)  # it may have grown to its limit in other gens
        raise BackendError(f"{params.constraint}: {error}") from error
    results = [sample_result(loaded, requests, outcomes, i, len(prompt)) for i in range(params.n)]
    if planner is not None:
        warn_of_fight(loaded, call, requests[0])
    for result in results:
        loaded.engine.core.metrics.add_call(result.usage)
    go_on(stream, requests[0], outcomes[0])
    return results


def _nothing(params: SamplingParams, planner: Planner | None) -> list[CallResult]:
    """The results of a gen without any tokens."""
    complete = planner is None or (not params.reads_value and Matcher(planner).end_allowed)
    return [CallResult("", finish_reason="length", complete=complete) for _ in range(params.n)]


def sample_request(
    loaded: LoadedEngine,
    stream: TokenStream,
    call: Call,
    waiter: Waiter,
    planner: Planner | None,
    sample: int,
) -> Request:
    """What the engine is asked for one sample."""
    params = call.params
    taken_back = loaded.num_healed(stream) if params.heal else 0
    prompt, healed = np.split(stream.ids, [len(stream.ids) - taken_back])
    watcher = OutputWatcher(
        params,
        loaded.vocabulary,
        loaded.end_of_turn_ids if call.end_of_turn else loaded.eos_ids,
        pending=stream.pending,
        drop_blank=not stream.pending and loaded.vocabulary.at_start(stream.ids[-2:].tolist()),
        healing=loaded.healing(healed),
        on_text=waiter.on_text(call.on_text) if call.on_text and sample == 0 else None,
        bound=planner is not None,
    )
    # Its own: both take every token. A matcher heals by itself.
    healing = loaded.healing(healed) if planner is None else None
    row = SamplingRow(params, call.seeds[sample], prompt, watcher.held_back(), healing)
    return Request(
        prompt,
        on_done=waiter.on_done,
        row=row,
        watcher=watcher,
        guide=None if planner is None else _guide(loaded, stream, planner, prompt, row, watcher),
        prefix=stream.prefix,
        call_prompt=len(prompt) if sample == 0 else 0,
        instance=call.instance,
        more_tokens=more_of(call),
        most=_most(call, row),
        regions=regions_of(loaded.token_chars, call, prompt, sample),
    )


def more_of(call: Call) -> int | None:
    """Tokens that later calls may add to the cache: what they generate, and of the known text
    before them a part, since not all of it is there at once."""
    if call.more_tokens is None:
        return None
    return call.more_tokens + (call.more_chars or 0) // _CHARS_A_TOKEN


def _most(call: Call, row: SamplingRow) -> int | None:
    """Tokens that are sampled at most, those that heal among them."""
    return None if call.most is None else call.most + row.max_new - call.params.max_tokens


def _guide(
    loaded: LoadedEngine,
    stream: TokenStream,
    planner: Planner,
    prompt: Ids,
    row: SamplingRow,
    watcher: OutputWatcher,
) -> Guide:
    """The constraint of one sample behind `prompt`; `row` is told of it."""
    at_start = not stream.pending and loaded.vocabulary.at_start(prompt[-2:].tolist())
    matcher = Matcher(planner, watcher.healed_text, at_start, stream.pending)
    row.rule, row.end_ids = matcher, frozenset(watcher.end_ids)
    row.max_new += len(watcher.healed_text)  # no id has less than a byte
    return Guide(matcher, loaded.jump, row.max_new)


def sample_result(
    loaded: LoadedEngine,
    requests: list[Request],
    outcomes: list[Outcome],
    sample: int,
    num_prompt_ids: int,
) -> CallResult:
    """What one of `requests` has given."""
    request = requests[sample]
    watcher = request.watcher
    assert request.row is not None
    assert watcher is not None
    assert watcher.finish_reason is not None
    counts_prompt = sample == 0
    usage = Usage(
        prompt_tokens=request.num_prompt if counts_prompt else 0,
        # The samples share one prompt: computed once is computed.
        cached_tokens=min(o.cached_tokens for o in outcomes) if counts_prompt else 0,
        completion_tokens=watcher.num_tokens,
        forced_tokens=sum(request.forced[watcher.num_healed :]),
    )
    kept = request.output[: watcher.num_kept_output]
    meta = logprob_meta(loaded, request, kept)
    if request.guide is not None:
        meta["allowed_mass"] = request.row.allowed_mass
    return CallResult(
        text=watcher.text,
        token_ids=kept.tolist(),
        finish_reason=watcher.finish_reason,
        matched=watcher.matched,
        complete=outcomes[sample].complete,
        usage=usage,
        meta=meta,
        pending=watcher.pending,
        residual=watcher.residual,
        rolled_back=num_prompt_ids - request.num_prompt if len(kept) else 0,
        timing=request.times.timing(),
    )


def go_on(stream: TokenStream, request: Request, outcome: Outcome) -> None:
    """Let `stream` go on with what `request` has given."""
    watcher = request.watcher
    assert watcher is not None
    kept = watcher.num_kept_output
    ids = request.tokens[: request.num_prompt + kept].copy() if kept else stream.ids
    stream.go_on(ids, outcome.node, watcher.pending, watcher.residual)
