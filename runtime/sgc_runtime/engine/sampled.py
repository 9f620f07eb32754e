"""What is asked about a request whose next id is sampled."""

from __future__ import annotations

from sgc_ir.errors import BackendError
from sgc_runtime.engine.request import Request


def is_computed(request: Request, end: int) -> bool:
    """Whether a launched chunk has computed all tokens before `end`. One whose last id was not
    known has done so if that id stayed; where that is not said yet, it was in vain."""
    if request.ahead:
        request.ahead = 0
        if not request.aside:
            request.num_computed += 1
    return request.num_computed == end and not request.aside


def no_token(request: Request) -> BackendError:
    """What is wrong where no id can be chosen."""
    row = request.row
    assert row is not None
    if row.rule is not None:
        return BackendError(
            "no token can be chosen: the model's logits are not numbers, or logit_bias, min_tokens "
            "or healing rules out every id that the constraint allows"
        )
    held = ", or min_tokens holds back every id" if row.held_back_now else ""
    return BackendError(f"no token can be chosen: the model's logits are not numbers{held}")
