"""The settings of a run, each once: default, type, help text. The flags are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, get_args

from sgc_ir.errors import InputError
from sgc_ir.params import SamplingParams

Mode = Literal["auto", "compiled", "interpreted"]
MODES: tuple[str, ...] = get_args(Mode)
_SAMPLING = SamplingParams()


def _facts(help: str, group: str, metavar: str = "") -> dict[str, str]:
    return {"help": help, "group": group, "metavar": metavar}


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
        default=64, metadata=_facts("rows that run at the same time, at most", "run", "N")
    )

    def __post_init__(self) -> None:
        from sgc_ir.params import normalize

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

    @property
    def params(self) -> SamplingParams:
        """The sampling values, for gens that do not set them."""
        return SamplingParams(**{f.name: getattr(self, f.name) for f in sampling_fields()})


def sampling_fields() -> tuple[Field[Any], ...]:
    """Fields of `RunSettings` that are sampling values, in order."""
    return tuple(f for f in fields(RunSettings) if f.metadata["group"] == "sampling")


def make_settings(values: Mapping[str, Any]) -> RunSettings:
    """Settings from the values that were given; None means the default."""
    return RunSettings(**{k: v for k, v in values.items() if v is not None})


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
