"""Runs of the command line that are killed, and resumed until they end."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHONPATH = os.pathsep.join(str(ROOT / room) for room in ("", "ir", "runtime", "kernels"))

# What a run does is a function of its arguments. With KILL_AFTER_S the process ends by SIGKILL so
# many seconds after this file has been read, with KILL_AT in the call of that number.
HEAD = """
import asyncio, itertools, os, signal, threading, time
from hashlib import blake2b
import sgc
from sgc.testing import ScriptedBackend

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if "KILL_AFTER_S" in os.environ:
    timer = threading.Timer(float(os.environ["KILL_AFTER_S"]), die)
    timer.daemon = True
    timer.start()
CALLS = itertools.count(1)
KILL_AT = int(os.environ.get("KILL_AT", 0))

def count():
    if next(CALLS) == KILL_AT:
        die()

def number(text):
    return int.from_bytes(blake2b(text.encode()).digest()[:4], "big")

def reply(prompt, params):
    count()
    return " ".join(f"w{(number(prompt) >> i) % 97}" for i in range(9))

def delay(prompt):
    return number(prompt + "?") % 8 / 1000

def took_effect(text):
    with open("effects", "a") as file:
        file.write(text + "\\n")
    count()

sgc.set_default_backend(ScriptedBackend(reply, delay=delay))
"""
PROGRAM = """
@sgc.tool(effect="irreversible")
def pay(name):
    took_effect("pay " + name)
    time.sleep(0.002)
    return {"paid": name}

@sgc.tool(effect="irreversible")
async def mail(name):
    await asyncio.sleep(0.001)
    took_effect("mail " + name)
    return {"mailed": name}

@sgc.tool(effect="pure")
def half(number):
    return number / 2

@sgc.function
def part(s, topic: str):
    s += f"Sub {topic}:" + sgc.gen("x", max_tokens=4)
    sent = sgc.call(mail, topic)
    s += f" {sent['mailed']} is" + sgc.select("y", [" good", " bad"])
    return s["y"]

@sgc.function
def work(s, name: str, size: int):
    s += sgc.user(f"Plan {name}.")
    s += sgc.assistant(sgc.gen("plan", max_tokens=6, n=2))
    paid = sgc.call(pay, name)
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += sgc.user(f"Part {i} of {paid['paid']}")
        f += sgc.assistant(sgc.gen("piece", stop="w5"))
    forks.join()
    handle = part(name)
    for _ in s.loop(max=2):
        s += sgc.user("Go on?")
        s += sgc.assistant(sgc.select("go", ["yes", "no", "perhaps"]))
    s += sgc.user(f"{handle.value} {sgc.call(half, size)} {' '.join(s['piece'])}")
    s += sgc.assistant(sgc.gen("end", max_tokens=3))
    told = [s.meta("go")["scores"], s.meta("plan")["finish_reason"]]
    return {"end": s["end"], "sub": handle.value, "plan": s["plan"], "told": told}
"""
ARGUMENTS = ["run", "work.py:work", "--inputs", "rows.jsonl", "-o", "out.jsonl", "--parallel", "4"]


@dataclass
class Crashes:
    """A folder in which one run is killed again and again."""

    folder: Path
    mode: str
    num_rows: int = 12
    kills: int = 0
    arguments: ClassVar[list[str]] = ARGUMENTS
    given: ClassVar[dict[str, str]] = {"pay": "paid", "mail": "mailed"}  # what a tool's value names

    def __post_init__(self) -> None:
        self.write_program()
        rows = [{"name": f"row{i}", "size": i} for i in range(self.num_rows)]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    def write_program(self) -> None:
        (self.folder / "work.py").write_text(HEAD + PROGRAM)

    @property
    def journal(self) -> Path:
        return self.folder / "out.jsonl.journal"

    @property
    def output(self) -> bytes:
        return (self.folder / "out.jsonl").read_bytes()

    def effects(self) -> Counter[str]:
        path = self.folder / "effects"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def clear(self) -> None:
        for name in ("out.jsonl", "effects"):
            (self.folder / name).unlink(missing_ok=True)

    def run(self, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sgc", *self.arguments, "--mode", self.mode, *flags],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def run_to_the_end(self, kills: list[dict[str, str]]) -> None:
        """Begin, be killed as `kills` say (one a process), resume, until all rows are good."""
        flags: list[str] = []
        while True:
            environ = kills.pop() if kills else {}
            result = self.run(*flags, **environ)
            assert result.returncode in ((0, 1, -9) if environ else (0, 1)), result.stderr
            self.kills += result.returncode == -9
            if result.returncode == 0 or self.has_ended():
                assert not list(self.folder.glob("*.journal*")), "a journal is left"
                return
            if result.returncode == 1:
                assert "outcome unknown" in result.stderr, result.stderr
            flags = self.next_flags()

    def next_flags(self) -> list[str]:
        """How to go on, with what a look at the effects says of unknown outcomes."""
        if not self.has_run():
            return []
        flags = ["--resume"]
        for row, path, tool in self.unknown():
            place = f"{row}:{path}"
            done = self.effects()[f"{tool} row{row}"]
            told = f"{place}={json.dumps({self.given[tool]: f'row{row}'})}"
            flags += ["--assume-done", told] if done else ["--rerun", place]
        return flags

    def has_ended(self) -> bool:
        """Whether a killed run had just deleted its journal, which it does last."""
        if self.journal.exists() or not (self.folder / "out.jsonl").exists():
            return False
        return self.output.count(b"\n") == self.num_rows

    def has_run(self) -> bool:
        if not self.journal.exists():
            return False
        return self._query("SELECT count(*) FROM sqlite_master")[0][0] > 0

    def unknown(self) -> list[tuple[int, str, str]]:
        return self._query("SELECT row, path, tool FROM nodes WHERE kind = 'begun'")

    def _query(self, query: str) -> list[tuple]:
        connection = sqlite3.connect(self.journal)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


def random_kill(rng: random.Random, longest_s: float, most_calls: int) -> dict[str, str]:
    """A point in time, or in the course of the calls."""
    if rng.random() < 0.5:
        return {"KILL_AFTER_S": f"{rng.uniform(0, longest_s):.4f}"}
    return {"KILL_AT": str(rng.randrange(1, most_calls))}
