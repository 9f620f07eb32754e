"""Runs saved artefacts in a fresh process: reads `cases.json` beside it, prints JSON.

It stands alone in an empty directory beside `replies.py` and the artefacts: no program source.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import replies  # noqa: E402

import sgc  # noqa: E402
from sgc.testing import ScriptedBackend  # noqa: E402


def plain(value: Any) -> Any:
    """JSON form that keeps tuples, bytes and the types of numbers apart."""
    if isinstance(value, tuple):
        return {"tuple": [plain(v) for v in value]}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"dict": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, float):
        return {"float": repr(value)}
    if value is None or isinstance(value, str | int | bool):
        return value
    return {"repr": repr(value)}


def fail(prompt: str) -> Exception | None:
    return RuntimeError("told to fail") if "FAIL" in prompt.rsplit("\n", 1)[-1] else None


def outcome(program: Any, row: dict[str, Any], mode: str) -> dict[str, Any]:
    """Everything that two modes must agree on, for one run of one row."""
    backend = ScriptedBackend(replies.reply, select=replies.select, fail=fail)
    options: dict[str, Any] = {"mode": mode} if mode != "loaded" else {}
    state = program.run_batch([row], backend=backend, seed=3, **options)[0]
    error = state.error()
    calls = sorted(json.dumps(plain(call), sort_keys=True) for call in backend.calls)
    result = {"error": type(error).__name__ if error else None, "calls": calls}
    if error is None:
        result |= {
            "vars": plain(state.vars),
            "value": plain(state.value),
            "text": state.text(),
            "messages": plain(state.messages()),
            "usage": [
                state.usage.prompt_tokens,
                state.usage.completion_tokens,
                state.usage.forced_tokens,
            ],
        }
    else:
        result["node"] = getattr(error, "node", None)
        result["source"] = getattr(error, "source", None)
        cause = error.__cause__
        result["cause"] = repr(cause) if cause is not None else None
    return result


def main() -> None:
    cases = json.loads((HERE / "cases.json").read_text())
    results = {}
    for name, rows in cases.items():
        program = sgc.load(HERE / f"{name}.sgc", tools=TOOLS)
        results[name] = [outcome(program, row, "loaded") for row in rows]
    print(json.dumps(results))


@sgc.tool(effect="pure")
def shout(text: str, times: int = 1) -> str:
    return text.upper() * times


@sgc.tool(effect="repeatable")
def lookup(key: str) -> dict[str, Any]:
    return {"key": key, "hits": [len(key), key[::-1]]}


@sgc.tool(effect="irreversible")
async def record(text: str) -> int:
    return len(text)


TOOLS = (shout, lookup, record)

if __name__ == "__main__":
    main()
