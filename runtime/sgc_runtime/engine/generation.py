"""A gen on the local engine: requests for its samples, results out of their outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgc_ir.params import CallResult, Usage
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.checks import check_length, check_params
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.waiting import Waiter
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs


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
    if params.max_tokens == 0:
        return [CallResult("", finish_reason="length") for _ in range(params.n)]
    waiter = Waiter(loaded.engine)
    requests = [_request(loaded, stream, call, waiter, i) for i in range(params.n)]
    outcomes = await waiter.run(requests)
    results = [_result(loaded, requests, outcomes, i, len(prompt)) for i in range(params.n)]
    for result in results:
        loaded.engine.core.metrics.add_call(result.usage)
    _go_on(stream, requests[0], outcomes[0])
    return results


def _request(
    loaded: LoadedEngine, stream: TokenStream, call: Call, waiter: Waiter, sample: int
) -> Request:
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
    )
    return Request(
        prompt,
        on_done=waiter.on_done,
        row=SamplingRow(
            params,
            call.seeds[sample],
            prompt,
            held_back=watcher.held_back(),
            healing=loaded.healing(healed),  # its own: both take every token
        ),
        watcher=watcher,
        prefix=stream.prefix,
        call_prompt=len(prompt) if sample == 0 else 0,
        instance=call.instance,
        more_tokens=call.more_tokens,
    )


def _result(
    loaded: LoadedEngine,
    requests: list[Request],
    outcomes: list[Outcome],
    sample: int,
    num_prompt_ids: int,
) -> CallResult:
    request = requests[sample]
    watcher = request.watcher
    assert watcher is not None
    assert watcher.finish_reason is not None
    counts_prompt = sample == 0
    usage = Usage(
        prompt_tokens=request.num_prompt if counts_prompt else 0,
        # The samples share one prompt: computed once is computed.
        cached_tokens=min(o.cached_tokens for o in outcomes) if counts_prompt else 0,
        completion_tokens=watcher.num_tokens,
    )
    kept = request.output[: watcher.num_kept_output]
    return CallResult(
        text=watcher.text,
        token_ids=kept.tolist(),
        finish_reason=watcher.finish_reason,
        matched=watcher.matched,
        usage=usage,
        meta=_logprob_meta(loaded, request, kept),
        pending=watcher.pending,
        residual=watcher.residual,
        rolled_back=num_prompt_ids - request.num_prompt if len(kept) else 0,
        timing=request.times.timing(),
    )


def _go_on(stream: TokenStream, request: Request, outcome: Outcome) -> None:
    watcher = request.watcher
    assert watcher is not None
    kept = watcher.num_kept_output
    ids = request.tokens[: request.num_prompt + kept].copy() if kept else stream.ids
    stream.go_on(ids, outcome.node, watcher.pending, watcher.residual)


def _logprob_meta(loaded: LoadedEngine, request: Request, kept: Ids) -> dict[str, Any]:
    """`logprobs`: one entry a kept token; `top_logprobs`: for each the likeliest ids."""
    assert request.row is not None
    params = request.row.params
    meta: dict[str, Any] = {}
    assert request.watcher is not None
    first = request.watcher.num_healed  # tokens of the prompt's own text
    found = list(zip(kept[first:].tolist(), request.logprobs[first:], strict=False))
    if params.logprobs:
        meta["logprobs"] = [_entry(loaded, token, x.logprob) for token, x in found]
    if params.top_logprobs:
        meta["top_logprobs"] = [_top_entries(loaded, x) for _, x in found]
    return meta


def _top_entries(loaded: LoadedEngine, logprobs: TokenLogprobs) -> list[dict[str, Any]]:
    return [_entry(loaded, token, value) for token, value in logprobs.top]


def _entry(loaded: LoadedEngine, token: int, logprob: float) -> dict[str, Any]:
    text = loaded.vocabulary.token_bytes(token).decode("utf-8", errors="replace")
    return {"id": token, "token": text, "logprob": logprob}
