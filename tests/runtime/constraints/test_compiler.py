"""Compiling constraints aside: once for equal ones, bounded, and without holding up anybody."""

from __future__ import annotations

import asyncio
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.jumps import byte_tokenizer

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.limits import Limits, OutOfTime
from sgc_ir.errors import BackendError, ConstraintError
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints import compiler as module
from sgc_runtime.constraints.canonical import Canonical
from sgc_runtime.constraints.compiler import ConstraintCompiler, Tools
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import TokenPrefixes
from sgc_runtime.tokenizer.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def tools(tokenizer: Tokenizer) -> Tools:
    prefixes = TokenPrefixes(tokenizer.token_bytes, tokenizer.vocab_size)
    return Tools(Vocabulary(TokenTrie.of(tokenizer)), Canonical(tokenizer), prefixes)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Patterns that begin with `slow` compile when the event is set."""
    go, real = threading.Event(), module.constraint_automaton

    def compile_slowly(params: SamplingParams, limits: Limits) -> Automaton:
        if (params.regex or "").startswith("slow"):
            go.wait(20)
        return real(params, limits)

    monkeypatch.setattr(module, "constraint_automaton", compile_slowly)
    yield go
    go.set()


def params(pattern: str) -> SamplingParams:
    return SamplingParams(regex=pattern)


def make(tools: Tools, **options: Any) -> ConstraintCompiler:
    return ConstraintCompiler(lambda: tools, **options)


def test_equal_constraints_compile_once(tools: Tools) -> None:
    compiler = make(tools)

    async def main() -> list[Any]:
        patterns = ["a+b", "c*", "a+b", "a+b", "c*"] * 20
        return list(await asyncio.gather(*(compiler.get(params(p)) for p in patterns)))

    found = asyncio.run(main())
    assert compiler.num_compiled == 2
    assert len({id(planner) for planner in found}) == 2
    assert asyncio.run(compiler.get(params("c*"))) is found[1]


def test_the_first_mask_is_there(tools: Tools) -> None:
    planner = asyncio.run(make(tools).get(params("The (cat|dog)")))
    made = len(tools.vocabulary.cache)
    state = planner.masks.automaton.walk(planner.masks.automaton.start, b"The ")
    planner.masks.mask(state)
    assert len(tools.vocabulary.cache) == made


def test_a_slow_one_holds_up_nobody(tools: Tools, slow: threading.Event) -> None:
    compiler = make(tools)

    async def main() -> None:
        late = asyncio.ensure_future(compiler.get(params("slow")))
        await asyncio.sleep(0.05)
        await asyncio.gather(*(compiler.get(params(f"fast{i}")) for i in range(5)))
        assert not late.done()
        slow.set()
        assert (await late).masks.automaton

    asyncio.run(main())


def test_those_that_hang_are_given_up(tools: Tools, slow: threading.Event) -> None:
    compiler = make(tools, num_threads=1, patience_s=0.3)

    async def main() -> None:
        hung = asyncio.ensure_future(compiler.get(params("slow1")))
        behind = asyncio.ensure_future(compiler.get(params("fine")))
        with pytest.raises(ConstraintError, match=r"longer than 0\.3 s") as error:
            await hung
        assert error.value.kind == "limit"
        await behind

    asyncio.run(main())
    slow.set()
    time.sleep(0.05)  # the thread that was given up comes back, and ends
    assert asyncio.run(compiler.get(params("more"))).masks


def test_errors_reach_all_who_wait(tools: Tools) -> None:
    compiler = make(tools, limits=Limits(states=3))

    async def main() -> list[Any]:
        patterns = ["(", "(", "[^\\s\\S]", "abc|bcd|cde|xyz"]
        calls = (compiler.get(params(p)) for p in patterns)
        return list(await asyncio.gather(*calls, return_exceptions=True))

    found = asyncio.run(main())
    assert [e.kind for e in found] == ["malformed", "malformed", "unsatisfiable", "limit"]


def test_what_took_too_long_is_tried_again_after_a_while(
    tools: Tools, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, real = make(tools, patience_s=0.2), module.constraint_automaton
    for _ in range(2):
        with pytest.raises(ConstraintError, match=r"longer than 0\.2 s"):
            asyncio.run(compiler.get(params("slow")))
    slow.set()

    def overloaded(params: SamplingParams, limits: Limits) -> Automaton:
        raise OutOfTime("out of time")

    monkeypatch.setattr(module, "constraint_automaton", overloaded)
    for _ in range(2):
        with pytest.raises(ConstraintError, match="out of time"):
            asyncio.run(compiler.get(params("a*")))
    assert compiler.num_compiled == 1
    monkeypatch.setattr(module, "constraint_automaton", real)
    with pytest.raises(ConstraintError, match="out of time"):
        asyncio.run(compiler.get(params("a*")))
    now = time.monotonic()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now + 100))
    assert asyncio.run(compiler.get(params("a*"))).masks
    assert asyncio.run(compiler.get(params("slow"))).masks


def busy_regex(number: int) -> str:
    """One that takes long, and passes a limit."""
    return f"{number}" + "".join(f"{c}?" for c in string.ascii_letters) * 100


def test_quick_ones_pass_any_number_of_slow_ones(tools: Tools) -> None:
    compiler = make(tools, limits=Limits(seconds=0.3))

    async def main() -> None:
        slow = [asyncio.ensure_future(compiler.get(params(busy_regex(i)))) for i in range(6)]
        await asyncio.sleep(0.02)
        await asyncio.gather(*(compiler.get(params(f"fast{i}")) for i in range(20)))
        assert not all(task.done() for task in slow)
        found = await asyncio.gather(*slow, return_exceptions=True)
        assert all(isinstance(e, ConstraintError) and e.kind == "limit" for e in found)

    asyncio.run(main())
    assert compiler.num_compiled == 26


def test_a_refusal_keeps_nothing_alive(tools: Tools) -> None:
    compiler = make(tools, limits=Limits(nodes=20_000))
    for _ in range(3):
        with pytest.raises(ConstraintError) as caught:
            asyncio.run(compiler.get(params(busy_regex(0))))
        kept = compiler.submit(params(busy_regex(0))).exception()
        assert kept is not caught.value
        assert kept is not None
        assert kept.__traceback__ is None
    assert compiler.num_compiled == 1


def test_refusals_are_kept(tools: Tools) -> None:
    compiler = make(tools)
    for _ in range(3):
        with pytest.raises(ConstraintError):
            asyncio.run(compiler.get(params("(")))
    assert compiler.num_compiled == 1


def test_an_error_that_nobody_expected_is_one_line(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(params: SamplingParams, limits: Limits) -> Automaton:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(module, "constraint_automaton", broken)
    with pytest.raises(BackendError, match="failed: ZeroDivisionError: by zero"):
        asyncio.run(make(tools).get(params("a")))


def test_few_are_kept(tools: Tools) -> None:
    compiler = make(tools, entries=3)

    async def main() -> None:
        first = await compiler.get(params("a0"))
        for i in range(1, 6):
            await compiler.get(params(f"a{i}"))
        assert await compiler.get(params("a0")) is not first
        assert await compiler.get(params("a5")) is await compiler.get(params("a5"))

    asyncio.run(main())
    assert compiler.num_compiled == 7


def test_what_is_forgotten_compiles_anew(tools: Tools) -> None:
    compiler = make(tools)
    first = asyncio.run(compiler.get(params("b+")))
    compiler.forget(params("b+"))
    assert asyncio.run(compiler.get(params("b+"))) is not first


_CYCLE = """
import gc, weakref
from sgc_runtime.constraints import compiler as module

class Large:
    pass

def leave() -> weakref.ref:
    found = Large()
    found.me = found
    return weakref.ref(found)

gc.disable()
for _ in range(2):
    garbage = leave()
    module.ConstraintCompiler(lambda: None).tools
    count = gc.get_freeze_count()
    print(garbage() is None, count > 0)
"""


def test_garbage_is_freed_before_what_is_loaded_is_frozen() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _CYCLE], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stdout.split() == ["True", "True", "False", "True"]  # once a process


_HANGING = """
import sys, time
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints import compiler as module

module.constraint_automaton = lambda params, limits: time.sleep(60)
compiler = module.ConstraintCompiler(lambda: None)
compiler.submit(SamplingParams(regex="a"))
time.sleep(0.1)
print("done")
"""


def test_a_thread_that_hangs_does_not_keep_the_process(tmp_path: object) -> None:
    begin = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", _HANGING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stdout.strip()) == (0, "done")
    assert time.monotonic() - begin < 50
