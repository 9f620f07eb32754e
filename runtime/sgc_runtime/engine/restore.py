"""Streams after calls whose results are known from elsewhere: as the call would leave them."""

from __future__ import annotations

import numpy as np

from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.engine.choice_plan import plan_choices
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream


def restore(stream: TokenStream, seams: Seams, params: SamplingParams, first: CallResult) -> None:
    """Go on as if a gen or select with `params` had just given `first` as its first result.

    Nothing of it is in the KV cache: the next call computes what it needs.
    """
    if params.choices is not None:
        _restore_select(stream, seams, first)
    else:
        _restore_gen(stream, seams, params, first)


def _restore_gen(
    stream: TokenStream, seams: Seams, params: SamplingParams, first: CallResult
) -> None:
    prompt = stream.resolve(seams)
    if params.max_tokens == 0:  # nothing was generated, an unfinished character stays
        return
    kept = prompt[: len(prompt) - first.rolled_back]
    ids = np.concatenate([kept, np.array(first.token_ids, np.int32)])
    stream.go_on(ids, None, first.pending, first.residual)


def _restore_select(stream: TokenStream, seams: Seams, first: CallResult) -> None:
    # How a choice is encoded does not depend on the others.
    plan = plan_choices(stream, seams, [first.text])
    stream.go_on(plan.sequences[0], None)
