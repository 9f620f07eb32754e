"""What becomes of a scripted reply: stops, limits and constraints, as in a real backend."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from sgc_ir.automata.compile import NUMBER_STOPS
from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult, SamplingParams, Usage
from sgc_runtime.backends.scripted_rules import Limit, Rule, rule_of
from sgc_runtime.backends.scripted_tokens import Tokens
from sgc_runtime.tokenizer.stop_finder import find_stop


class _End(NamedTuple):
    """A way in which the gen may end; the smallest one happens first.

    Attributes:
        at: characters of the reply that were generated until then.
        rank: which comes first at the same place.
        keep: characters that stay.
    """

    at: int
    rank: int
    keep: int
    finish_reason: str
    matched: str | int | None = None


def finish_reply(reply: str, params: SamplingParams, tokens: Tokens) -> CallResult:
    """The result of a gen whose model would go on with `reply`; prompt tokens are not counted.

    Raises BackendError when the reply breaks the gen's constraint, ConstraintError when that cannot
    be used.
    """
    rule = rule_of(params)
    limit = rule.limit(reply) if rule is not None else Limit(len(reply), False)
    end = min(_ends(reply, params, tokens, rule, limit))
    if end.finish_reason == "broken":
        raise BackendError(_breach(reply, params, limit))
    text = reply[: end.keep]
    return CallResult(
        text=text,
        finish_reason=end.finish_reason,
        matched=end.matched,
        complete=rule is None or _is_complete(rule, params, end, text),
        usage=Usage(completion_tokens=tokens.count(text)),
    )


def _ends(
    reply: str, params: SamplingParams, tokens: Tokens, rule: Rule | None, limit: Limit
) -> list[_End]:
    split = tokens.split(reply)
    token_ends = list(accumulate(len(token.text) for token in split))
    ends = []
    numeric = params.dtype in ("int", "float")
    stops = (*params.stop, *NUMBER_STOPS) if numeric else params.stop
    hit = find_stop(reply, token_ends, stops, params.stop_regex, params.min_tokens)
    if hit is not None:
        ends.append(_End(hit.end, 0, hit.begin, "stop", hit.matched))
    for i, token in enumerate(split):
        if token.id in params.stop_token_ids and token.id is not None and i >= params.min_tokens:
            begin = token_ends[i] - len(token.text)
            ends.append(_End(token_ends[i], 0, begin, "stop", token.id))
            break
    if limit.complete:
        ends.append(_End(limit.end, 1, limit.end, "constraint"))
    if len(split) >= params.max_tokens:
        cut = token_ends[params.max_tokens - 1] if params.max_tokens else 0
        ends.append(_End(cut, 2, cut, "length"))
    if rule is None or (limit.end == len(reply) and rule.accepts(reply)):
        ends.append(_End(len(reply), 3, len(reply), "eos"))
    else:
        ends.append(_End(limit.end, 4, limit.end, "broken"))
    return ends


def _is_complete(rule: Rule, params: SamplingParams, end: _End, text: str) -> bool:
    if end.finish_reason == "constraint":
        return True
    if end.finish_reason == "length" and params.reads_value:
        return False
    return rule.accepts(text)


def _breach(reply: str, params: SamplingParams, limit: Limit) -> str:
    name = params.constraint
    what = f"dtype {params.dtype}" if name == "dtype" else str(name)
    rest = reply[limit.end : limit.end + 20]
    where = f"at character {limit.end}, before {rest!r}" if rest else "by ending too early"
    reason = f" ({limit.reason})" if limit.reason else ""
    return f"the scripted reply {reply[:40]!r} breaks {what} {where}{reason}"
