"""Runs the gallery on the default model and prints the ids of every call: ROWS MODE...

A MODE is interpreted or compiled (reads the programs' source) or loaded (reads NAME.sgc beside
this file); the later ones find what the earlier ones left in the cache. Answers are cut to a few
tokens, in every mode alike, to keep the check short.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import sgc
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Call

MAX_TOKENS = 6


class RecordingStream:
    """A stream of the local backend that notes node and ids of each call."""

    def __init__(self, inner: Any, log: list[Any]) -> None:
        self.inner = inner
        self.log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def generate(self, call: Call) -> Any:
        params = call.params
        if params.constraint not in ("json_schema", "dtype"):  # cut short they are no values
            limit = min(params.max_tokens, MAX_TOKENS)
            params = dataclasses.replace(params, max_tokens=limit)
        results = await self.inner.generate(dataclasses.replace(call, params=params))
        self.log.append([call.row, call.node, [list(r.token_ids) for r in results]])
        return results

    async def select(self, call: Call) -> Any:
        result = await self.inner.select(call)
        self.log.append([call.row, call.node, list(result.token_ids)])
        return result

    def fork(self) -> RecordingStream:
        return RecordingStream(self.inner.fork(), self.log)


class RecordingBackend:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.log: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self) -> RecordingStream:
        return RecordingStream(self.inner.open(), self.log)


def load_source(path: Path) -> sgc.Program:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    program = getattr(module, path.stem)
    assert isinstance(program, sgc.Program)
    return program


def run(program: Any, rows: list[dict[str, Any]], local: Any, **options: Any) -> dict[str, Any]:
    backend = RecordingBackend(local)
    states = program.run_batch(rows, backend=backend, seed=5, **options)
    for state in states:
        if state.error() is not None:
            raise state.error()
    return {
        "ids": sorted(backend.log),
        "texts": [s.text() for s in states],
        "values": json.loads(json.dumps([s.value for s in states])),
    }


def main() -> None:
    rows_file, *modes = sys.argv[1:]
    cases = json.loads(Path(rows_file).read_text())
    local = LocalBackend("smollm2-135m", dtype="float32")
    results: dict[str, Any] = {mode: {} for mode in modes}
    for name, case in cases.items():
        for mode in modes:
            if mode == "loaded":
                found = run(sgc.load(f"{name}.sgc"), case["rows"], local)
            else:
                found = run(load_source(Path(case["path"])), case["rows"], local, mode=mode)
            results[mode][name] = found
    print(json.dumps(results))


if __name__ == "__main__":
    main()
