"""What a generation call asks for: sampling parameters and constraints, in one frozen record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

CHOICE_METHODS = (
    "token_length_normalized",
    "greedy_token_selection",
    "unconditional_likelihood_normalized",
)
DTYPES = ("int", "float", "bool", "str")
COMPILED = ("regex", "json_schema", "grammar")  # constraints that may turn out to be no use
CONSTRAINTS = (*COMPILED, "choices", "dtype")  # at most one a gen
JSON_STYLES = ("compact", "spaced", "pretty")  # no blanks; `, ` and `: `; lines, two blanks a level
STYLE_ALONE = "json_style goes with json_schema; drop it, or give the schema"
DISTRIBUTIONS = ("local", "exact")  # masked step by step; renormalised over whole texts
GREEDY_TEMPERATURE = 1e-6  # below this, sampling is greedy


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Parameters of one model call, defaults resolved.

    `stop` and `stop_token_ids` are tuples; `top_k` <= 0 means no limit; `seed` None means that
    the seed comes from the node's path. At most one of `regex, json_schema, grammar, choices,
    dtype` is set.
    """

    max_tokens: int = 128
    min_tokens: int = 0
    n: int = 1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    stop_regex: tuple[str, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[str, float] | None = None
    ignore_eos: bool = False
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    regex: str | None = None
    json_schema: Any = None  # plain JSON data (dict or bool); pydantic models are turned into it
    json_style: str | None = None  # None: spaced
    grammar: str | None = None
    choices: tuple[str, ...] | None = None
    method: str = CHOICE_METHODS[0]
    distribution: str | None = None
    dtype: Literal["int", "float", "bool", "str"] | None = None
    heal: bool = False

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_TEMPERATURE

    @property
    def kind(self) -> Literal["gen", "select"]:
        """Which call takes them: with choices it is a select."""
        return "gen" if self.choices is None else "select"

    @property
    def constraint(self) -> str | None:
        """Name of the constraint that is set, or None."""
        for name in CONSTRAINTS:
            if getattr(self, name) is not None:
                return name
        return None

    @property
    def binds_text(self) -> bool:
        """Whether a gen's text is bound by a regex, schema, grammar or dtype."""
        return self.constraint not in (None, "choices")

    @property
    def reads_value(self) -> bool:
        """Whether the variable is a value that is read from the text; one cut short has none."""
        return self.constraint in ("dtype", "json_schema")

    def override(self, values: Mapping[str, Any]) -> SamplingParams:
        """A copy with `values` set; None values and lists are normalised. See `normalize`."""
        if not values:
            return self
        made = replace(self, **normalize(values))
        if made.json_style is not None and made.json_schema is None:
            raise ValueError(STYLE_ALONE)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain data under gen's argument names; tuples become lists."""
        return {
            f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v
            for f in fields(self)
        }


PARAM_NAMES = tuple(f.name for f in fields(SamplingParams))


def normalize(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check types and ranges of gen's arguments and bring them to `SamplingParams`' form.

    None means unset and is dropped. Raises ValueError or TypeError with a one-line reason that
    names the parameter (the caller adds the place).
    """
    from sgc_ir.checks import check_param  # the table of rules; kept apart from the record

    out: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        out[name] = check_param(name, value)
    set_constraints = [n for n in CONSTRAINTS if n in out]
    if len(set_constraints) > 1:
        raise ValueError(
            f"{' and '.join(set_constraints)} together; a gen takes one constraint, drop the others"
        )
    if out.get("n", 1) > 1 and "choices" in out:
        raise ValueError("n > 1 together with choices; choices are deterministic, drop n")
    return out


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one or more model calls; a repeat of the calls gives the same ones, but for
    `cached_tokens`, which depends on what the cache holds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    forced_tokens: int = 0
    cached_tokens: int = 0
    scored_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(  # written out: each call of each row comes by here
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.forced_tokens + other.forced_tokens,
            self.cached_tokens + other.cached_tokens,
            self.scored_tokens + other.scored_tokens,
        )


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the seconds of one model call went: in the queue, before and after its first token.

    `asked` is when the first of them began, on this machine's monotonic clock
    (`time.perf_counter`), 0.0 where that is not known. `forced` has the parts of `decode` in which
    text that a constraint forced was computed: begin and end on that clock, and how many tokens;
    a sum has none.
    """

    waiting: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    asked: float = field(default=0.0, compare=False)
    forced: Sequence[tuple[float, float, int]] = field(default=(), compare=False)

    @property
    def total(self) -> float:
        return self.waiting + self.prefill + self.decode

    def __add__(self, other: Timing) -> Timing:
        return Timing(
            self.waiting + other.waiting,
            self.prefill + other.prefill,
            self.decode + other.decode,
            self.asked or other.asked,
        )


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a backend returns for one gen (one sample) or select.

    `token_ids`, `pending`, `residual` and `rolled_back` are all that `BackendStream.restore` needs
    to go on as if the call had been made.

    Attributes:
        text: decoded text without stop text and EOS; for select the chosen choice.
        token_ids: ids that stay in the stream for this call.
        finish_reason: `stop | eos | length | constraint`; `choice` for select.
        matched: the stop string, regex or token id that ended the call, or None.
        complete: False when `max_tokens` cut a regex or grammar short.
        meta: further plain data: `logprobs`, `top_logprobs`, `scores` (choice order) ...
        pending: bytes of a character that the last id begins and that are not in `text`.
        residual: the end of `text` that `token_ids` do not hold, since a stop cut their last one.
        rolled_back: ids at the prompt's end that `token_ids` replace (`heal`).
        timing: seconds of the call, where the backend measures them.
    """

    text: str
    token_ids: Sequence[int] = ()
    finish_reason: str = "stop"
    matched: str | int | None = None
    complete: bool = True
    usage: Usage = field(default_factory=Usage)
    meta: Mapping[str, Any] = field(default_factory=dict)
    pending: bytes = b""
    residual: str = ""
    rolled_back: int = 0
    timing: Timing | None = None
