"""DSPy programs on an sgc backend: `dspy.configure(lm=SgcLM(), adapter=dspy.JSONAdapter())`.

Needs DSPy 3.4 (`pip install 'sgc[dspy]'`). Each call of a DSPy program is one call of the backend;
calls of many threads run together and share their prefixes. Where DSPy asks for structured output,
as its JSONAdapter does for typed fields, the schema binds the reply while it is generated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import dspy

import sgc
from sgc_ir.errors import InputError
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.state import FinishedState

GEN_PARAMS = (  # what DSPy may ask of a call, under gen's own names
    "temperature",
    "max_tokens",
    "top_p",
    "stop",
    "n",
    "frequency_penalty",
    "presence_penalty",
)
ROLES = {"system": sgc.system, "user": sgc.user, "assistant": sgc.assistant}


@sgc.function
def chat_turn(s: Any, messages: list[dict[str, str]], params: dict[str, Any]) -> Any:
    """The reply of the assistant to `messages`."""
    for message in messages:
        s += ROLES[message["role"]](message["content"])
    s += sgc.assistant(sgc.gen("reply", **params))
    return s["reply"]


class SgcLM(dspy.BaseLM):  # type: ignore[misc]  # DSPy is not typed
    """A language model of DSPy whose calls an sgc backend answers.

    Args:
        backend: an sgc backend; None: the default one (`sgc.set_default_backend`), which is the
            default local model unless another was set.
        model: the name by which DSPy's history knows it.
        temperature, max_tokens: of calls that do not set them.
        kwargs: further defaults of calls: `top_p`, `stop`, `n`, the penalties, `seed`.

    A call raises InputError for what sgc cannot do as asked (tools, log-probabilities, media), and
    the error of the call itself, such as a schema whose object did not end within `max_tokens`.
    DSPy's cache does not hold replies: equal calls are cheap here, and greedy ones equal.
    """

    def __init__(
        self,
        backend: Backend | None = None,
        *,
        model: str = "sgc",
        temperature: float = 0.0,
        max_tokens: int = 512,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, temperature=temperature, max_tokens=max_tokens, **kwargs)
        self.backend = backend

    @property
    def supports_response_schema(self) -> bool:
        """JSON schemas bind the reply."""
        return True

    @property
    def supported_params(self) -> set[str]:
        """Names that a call may set."""
        return {*GEN_PARAMS, "seed", "response_format"}

    def forward(
        self, prompt: str | None = None, messages: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        """One call, in the form of an OpenAI chat completion."""
        arguments, options = self._call(prompt, messages, kwargs)
        return self._completion(chat_turn.run(**arguments, **options), arguments["params"])

    async def aforward(
        self, prompt: str | None = None, messages: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        """`forward`, to be awaited."""
        arguments, options = self._call(prompt, messages, kwargs)
        return self._completion(await chat_turn.arun(**arguments, **options), arguments["params"])

    def _call(
        self, prompt: str | None, messages: Sequence[Any] | None, kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        asked = {name: v for name, v in {**self.kwargs, **kwargs}.items() if v is not None}
        asked.pop("cache", None)
        rollout = asked.pop("rollout_id", 0)  # DSPy: another sample of the same call
        seed = asked.pop("seed", rollout)
        form = asked.pop("response_format", None)
        unknown = sorted(set(asked) - set(GEN_PARAMS))
        if unknown:
            raise InputError(f"SgcLM has no {unknown[0]}; it takes {', '.join(GEN_PARAMS)}, seed")
        params = asked if form is None else {**asked, "json_schema": schema_of(form)}
        turns = messages or [{"role": "user", "content": prompt}]
        arguments = {"messages": [_turn(turn) for turn in turns], "params": params}
        return arguments, {"backend": self.backend, "seed": seed, "mode": "interpreted"}

    def _completion(self, state: FinishedState, params: Mapping[str, Any]) -> Any:
        meta = state.meta("reply")
        many = params.get("n", 1) > 1
        values = state["reply"] if many else [state["reply"]]
        reasons = meta["finish_reason"] if many else [meta["finish_reason"]]
        usage = state.usage
        return SimpleNamespace(
            model=self.model,
            choices=[_choice(*pair) for pair in zip(values, reasons, strict=True)],
            usage={
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            },
        )


def schema_of(form: Any) -> dict[str, Any]:
    """The JSON schema of a `response_format`: a pydantic model, an OpenAI form, or JSON mode.

    Raises InputError for anything else.
    """
    if isinstance(form, type) and hasattr(form, "model_json_schema"):
        schema: dict[str, Any] = form.model_json_schema()
        return schema
    if isinstance(form, Mapping) and form.get("type") == "json_object":
        return {"type": "object"}
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        return dict(form["json_schema"]["schema"])
    raise InputError(f"response_format {form!r}: give a pydantic model or a JSON schema")


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise InputError(f"SgcLM takes messages of {', '.join(ROLES)}; this one is of {role}")
    if isinstance(content, str):
        return {"role": role, "content": content}
    parts = [part.get("text") for part in content if part.get("type") == "text"]
    if len(parts) != len(content):
        raise InputError("SgcLM takes text only; a message holds a part of another type")
    return {"role": role, "content": "".join(parts)}


def _choice(value: Any, reason: str) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    ended = "length" if reason == "length" else "stop"
    return SimpleNamespace(message=SimpleNamespace(content=text), finish_reason=ended)
