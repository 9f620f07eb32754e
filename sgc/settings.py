"""The settings of a run, each once: default, type, help text. The flags are made from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, get_args

from sgc_ir.errors import InputError
from sgc_ir.params import SamplingParams, normalize
from sgc_runtime.executor.policy import EVERY, Policies

Mode = Literal["auto", "compiled", "interpreted"]
MODES: tuple[str, ...] = get_args(Mode)
PerNode = float | Mapping[str, float] | None  # for all nodes, or by name (`*`: all others)
_SAMPLING = SamplingParams()


def _facts(help: str, group: str, metavar: str = "", per_node: type | None = None) -> Any:
    """Metadata of a field; `per_node`: the type of values that may be given node by node."""
    return {"help": help, "group": group, "metavar": metavar, "per_node": per_node}


def _sampling(name: str, help: str, metavar: str = "") -> Any:
    return field(default=getattr(_SAMPLING, name), metadata=_facts(help, "sampling", metavar))


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run. Those of group "sampling" hold for gens that do not set the value.

    Raises InputError for a value of the wrong type or out of range.
    """

    temperature: float = _sampling("temperature", "0 is greedy", "T")
    max_tokens: int = _sampling("max_tokens", "most tokens of one gen", "N")
    min_tokens: int = _sampling("min_tokens", "tokens before a stop may count", "N")
    top_p: float = _sampling("top_p", "keep the likeliest tokens up to this probability", "P")
    top_k: int = _sampling("top_k", "keep the K likeliest tokens; 0 or less keeps all", "K")
    min_p: float = _sampling("min_p", "drop tokens below this part of the likeliest", "P")
    frequency_penalty: float = _sampling("frequency_penalty", "cost per occurrence", "X")
    presence_penalty: float = _sampling("presence_penalty", "cost of a token that occurred", "X")
    repetition_penalty: float = _sampling("repetition_penalty", "1 leaves scores alone", "X")
    stop: tuple[str, ...] = _sampling("stop", "text that ends a gen; may be given again", "TEXT")
    stop_token_ids: tuple[int, ...] = _sampling("stop_token_ids", "token id that ends a gen", "ID")
    stop_regex: tuple[str, ...] = _sampling("stop_regex", "pattern that ends a gen", "REGEX")
    ignore_eos: bool = _sampling("ignore_eos", "go on after the end-of-text token")
    seed: int = field(
        default=0, metadata=_facts("seed of the run; equal seeds repeat it", "run", "S")
    )
    mode: Mode = field(
        default="auto", metadata=_facts("compile when possible, always, or never", "run")
    )
    parallel: int = field(
        default=256, metadata=_facts("rows that run at the same time, at most", "run", "N")
    )
    plan: bool = field(
        default=True,
        metadata=_facts("start rows as they stand in the input, not in a planned order", "batch"),
    )
    hints: bool = field(
        default=True,
        metadata=_facts(
            "do not tell the engine what is known of the calls to come; results are the same",
            "run",
        ),
    )
    row_parallel: bool = field(
        default=True,
        metadata=_facts("make one model call of a row at a time, also where it forks", "run"),
    )
    merge: bool = field(
        default=False,
        metadata=_facts(
            "make equal calls of all rows once: selects, greedy gens, gens with a seed of their "
            "own, pure tools",
            "batch",
        ),
    )
    deadline: PerNode = field(
        default=None,
        metadata=_facts(
            "seconds that one attempt at a node may take; NAME=S for one variable or tool",
            "run",
            "[NAME=]S",
            float,
        ),
    )
    row_deadline: float | None = field(
        default=None, metadata=_facts("seconds that a row may take", "run", "S")
    )
    retries: PerNode = field(
        default=0,
        metadata=_facts(
            "further attempts at a node that failed; NAME=N for one variable or tool",
            "run",
            "[NAME=]N",
            int,
        ),
    )

    def __post_init__(self) -> None:
        try:
            checked = normalize({f.name: getattr(self, f.name) for f in sampling_fields()})
        except (ValueError, TypeError) as error:
            raise InputError(f"run settings: {error}") from None
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.mode not in MODES:
            raise InputError(f"mode={self.mode!r}; choose one of {', '.join(MODES)}")
        if not _is_int(self.seed):
            raise InputError(f"seed={self.seed!r}; give a whole number")
        if not _is_int(self.parallel) or self.parallel < 1:
            raise InputError(f"parallel={self.parallel!r}; give a whole number above 0")
        for name in ("plan", "hints", "row_parallel", "merge"):
            if type(getattr(self, name)) is not bool:
                raise InputError(f"{name}={getattr(self, name)!r}; give True or False")
        checked_deadline("row_deadline", self.row_deadline)
        self.policies()  # checks deadlines and retries

    @property
    def params(self) -> SamplingParams:
        """The sampling values, for gens that do not set them."""
        return SamplingParams(**{f.name: getattr(self, f.name) for f in sampling_fields()})

    def policies(self) -> Policies | None:
        """Deadlines and retries of the nodes, None when none are set."""
        deadlines = _by_name("deadline", self.deadline, checked_deadline)
        retries = _by_name("retries", self.retries, checked_retries)
        named = {*deadlines, *retries} - {EVERY}  # 0 and None say something of a name
        if not named and not deadlines.get(EVERY) and not retries.get(EVERY):
            return None
        return Policies(deadlines, retries)


def sampling_fields() -> tuple[Field[Any], ...]:
    """Fields of `RunSettings` that are sampling values, in order."""
    return tuple(f for f in fields(RunSettings) if f.metadata["group"] == "sampling")


def make_settings(values: Mapping[str, Any]) -> RunSettings:
    """Settings from the values that were given; None means the default."""
    return RunSettings(**{k: v for k, v in values.items() if v is not None})


def checked_deadline(name: str, value: Any) -> Any:
    """`value` if it is None or a number of seconds above 0. Raises InputError."""
    if value is None:
        return value
    if (_is_int(value) or isinstance(value, float)) and 0 < value < math.inf:
        return value
    raise InputError(f"{name}={value!r}; give seconds, above 0")


def checked_retries(name: str, value: Any) -> int:
    """`value` if it is a whole number, 0 or more. Raises InputError."""
    if _is_int(value) and value >= 0:
        return int(value)
    raise InputError(f"{name}={value!r}; give a whole number, 0 or more")


def _by_name(name: str, value: Any, check: Callable[[str, Any], Any]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {EVERY: check(name, value)}
    for key in value:
        if not isinstance(key, str) or not key:
            raise InputError(f"{name}={dict(value)!r}; give names of variables or tools, or '*'")
    return {key: check(f"{name}[{key!r}]", item) for key, item in value.items()}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
