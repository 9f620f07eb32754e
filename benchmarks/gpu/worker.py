"""One engine in a process of its own, told what to do by lines of JSON on a socket.

    python -m benchmarks.gpu.worker FILE_DESCRIPTOR

Each request is an object with `do`; each answer holds results, or `error`. The engine's own output
goes where the process's does.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.engine_api import IdsEngine
from benchmarks.gpu.peer_engines import import_early, make_engine
from benchmarks.gpu.works import Work, work_of

Facts = dict[str, Any]


class Worker:
    """Carries requests out, one after another."""

    def __init__(self) -> None:
        self._engine: IdsEngine | None = None
        self._vocab = 0

    def answer(self, request: Mapping[str, Any]) -> Facts:
        """The results of one request."""
        facts = dict(request)
        return _DOES[facts.pop("do")](self, **facts)

    def prepare(self, model: str, shape: str, tokenizer: str, device: str) -> Facts:
        """Make the model, measure the ceilings; the conditions of this machine."""
        import torch

        from benchmarks.gpu.ceilings import measure_ceilings
        from benchmarks.gpu.gpu_conditions import gpu_conditions
        from benchmarks.gpu.model_files import make_model
        from benchmarks.gpu.shapes import SHAPES

        place = torch.device(device)
        folder = make_model(Path(model), SHAPES[shape], Path(tokenizer), place)
        vocab = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        ceilings = measure_ceilings(place).to_dict()
        return {"vocab": vocab, "ceilings": ceilings, "conditions": gpu_conditions(place)}

    def load(self, kind: str) -> Facts:
        """Import an engine's packages."""
        begin = time.perf_counter()
        import_early(kind)
        return {"seconds": time.perf_counter() - begin}

    def start(self, kind: str, model: str, options: Facts) -> Facts:
        """Start the engine."""
        begin = time.perf_counter()
        self._engine = make_engine(kind, model, options)
        config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
        self._vocab = config["vocab_size"]
        return {
            "name": self._engine.name,
            "settings": self._engine.settings,
            "seconds": time.perf_counter() - begin,
        }

    def run(self, work: Facts, seed: int) -> Facts:
        """Do a piece of work; prompts are made before the clock runs."""
        assert self._engine is not None, "start comes first"
        asked = work_of(work)
        if asked.program is not None:
            return self._replay(self._engine, asked, seed)
        prompts = asked.prompts(self._vocab, seed)
        begin = time.perf_counter()
        found = self._engine.batch(prompts, asked.new, asked.regex, asked.temperature)
        seconds = time.perf_counter() - begin
        facts: Facts = {"seconds": seconds, "new_tokens": found.new_tokens}
        facts |= {"cached_tokens": found.cached, "prompt_tokens": sum(map(len, prompts))}
        if asked.regex is None and found.new_tokens != asked.rows * asked.new:
            raise ValueError(f"{found.new_tokens} new tokens, not {asked.rows * asked.new}")
        if asked.regex is not None:
            whole = re.compile(asked.regex)
            facts["legal"] = sum(whole.fullmatch(text) is not None for text in found.texts)
            facts |= {"characters": sum(map(len, found.texts)), "sample": found.texts[0][:300]}
        return facts

    def _replay(self, engine: IdsEngine, asked: Work, seed: int) -> Facts:
        script = asked.script(self._vocab, seed)
        begin = time.perf_counter()
        outputs = engine.replay(script)
        seconds = time.perf_counter() - begin
        script.check(outputs)
        return {
            "seconds": seconds,
            "new_tokens": script.new_tokens,
            "prompt_tokens": script.prompt_tokens,
            "calls": len(script.calls),
        }

    def stats(self) -> Facts:
        """The engine's counters, where it has some."""
        return dict(getattr(self._engine, "stats", dict)())

    def close(self) -> Facts:
        if self._engine is not None:
            self._engine.close()
        return {}


_DOES: dict[str, Callable[..., Facts]] = {
    name: getattr(Worker, name) for name in ("prepare", "load", "start", "run", "stats", "close")
}


def main() -> None:
    number = int(sys.argv[1])
    os.set_inheritable(number, False)  # an engine's own processes must not hold it open
    channel = socket.socket(fileno=number).makefile("rw", encoding="utf-8")
    worker = Worker()
    for line in channel:
        request = json.loads(line)
        try:
            answer = worker.answer(request)
        except Exception as error:  # every engine has its own kinds
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"}
        channel.write(json.dumps(answer, default=str) + "\n")
        channel.flush()
        if request["do"] == "close":
            break


if __name__ == "__main__":
    main()
