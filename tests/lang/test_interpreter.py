"""Random programs against a model of the language that is plain strings: every prompt, value and
text must be what appending to a string one after the other gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import sgc
from sgc.testing import ScriptedBackend

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["x", " y", "\n", "é", "", "two words "])
ROLES = st.sampled_from(["system", "user", "assistant"])
PICK = st.integers(0, 5)
STATEMENTS = st.one_of(
    st.tuples(st.just("text"), PICK, TEXTS),
    st.tuples(st.just("gen"), PICK, st.one_of(st.none(), NAMES)),
    st.tuples(st.just("set"), PICK, NAMES, st.integers(0, 9)),
    st.tuples(st.just("read"), PICK, NAMES),
    st.tuples(st.just("fork"), PICK, st.integers(1, 3)),
    st.tuples(st.just("copy"), PICK),
    st.tuples(st.just("join"), PICK, st.sampled_from(["gather", "append"])),
    st.tuples(st.just("turn"), PICK, ROLES, TEXTS, NAMES),
    st.tuples(st.just("block"), PICK, ROLES, TEXTS, NAMES),
    st.tuples(st.just("scope"), PICK, NAMES, TEXTS),
    st.tuples(st.just("call"), PICK, TEXTS),
)


def answer(prompt: str) -> str:
    return f" {len(prompt)}"


@dataclass
class Model:
    """One stream as a string."""

    text: str = ""
    vars: dict[str, Any] = field(default_factory=dict)
    begin: int = 0  # length of the text at the fork
    inherited: frozenset[str] = frozenset()
    unnamed: int = 0
    open: bool = True

    def gen(self, name: str | None, prompts: list[str]) -> None:
        if name is None:
            self.unnamed += 1
            name = f"_{self.unnamed}"
        prompts.append(self.text)
        self.vars[name] = answer(self.text)
        self.text += self.vars[name]

    def fork(self) -> Model:
        return Model(self.text, dict(self.vars), len(self.text), frozenset(self.vars))


@sgc.function
def callee(s, word):
    s += word + sgc.gen("called")
    return s["called"]


class Walk:
    """Runs the same statements on live states and on models."""

    def __init__(self, root: Any) -> None:
        self.pairs: list[tuple[Any, Model]] = [(root, Model())]
        self.groups: list[tuple[Model, Any, list[Model]]] = []
        self.prompts: list[str] = []

    def step(self, statement: tuple[Any, ...]) -> None:
        kind, pick, *rest = statement
        if kind == "join":
            self._join(pick, *rest)
            return
        live = [pair for pair in self.pairs if pair[1].open]
        getattr(self, f"_{kind}")(*live[pick % len(live)], *rest)

    def _text(self, s: Any, m: Model, text: str) -> None:
        s += text
        m.text += text

    def _gen(self, s: Any, m: Model, name: str | None) -> None:
        s += sgc.gen(name)
        m.gen(name, self.prompts)

    def _set(self, s: Any, m: Model, name: str, value: int) -> None:
        s.set(name, value)
        m.vars[name] = value

    def _read(self, s: Any, m: Model, name: str) -> None:
        assert (name in s) == (name in m.vars)
        assert s.get(name, "none") == m.vars.get(name, "none")
        assert s.text() == m.text

    def _fork(self, s: Any, m: Model, width: int) -> None:
        if len(self.pairs) > 8:
            return
        forks, models = s.fork(width), [m.fork() for _ in range(width)]
        self.pairs += zip(forks, models, strict=True)
        self.groups.append((m, forks, models))

    def _copy(self, s: Any, m: Model) -> None:
        with s.copy() as t:
            copied = m.fork()
            self._gen(t, copied, "a")
            assert t["a"] == copied.vars["a"]

    def _join(self, pick: int, mode: str) -> None:
        ready = [g for g in self.groups if g[0].open and all(m.open for m in g[2])]
        if not ready:
            return
        m, forks, models = ready[pick % len(ready)]
        gained = [{n for n in x.vars if n[0] != "_"} - x.inherited for x in models]
        if mode == "gather" and any(g != gained[0] for g in gained):
            return  # refused; see test_forks
        forks.join(mode)
        if mode == "gather":
            for name in gained[0]:
                m.vars[name] = [x.vars[name] for x in models]
        else:
            m.text += "".join(x.text[x.begin :] for x in models)
        for x in models:
            x.open = False

    def _turn(self, s: Any, m: Model, role: str, text: str, name: str) -> None:
        s += getattr(sgc, role)("t" + text + sgc.gen(name) + ".")
        m.text += f"<|im_start|>{role}\nt{text}"
        m.gen(name, self.prompts)
        m.text += ".<|im_end|>\n"

    def _block(self, s: Any, m: Model, role: str, text: str, name: str) -> None:
        with getattr(s, role)():
            m.text += f"<|im_start|>{role}\n"
            self._text(s, m, "b" + text)
            branch = s.fork(1)[0]
            model = m.fork()
            self._gen(branch, model, name)
            self._gen(s, m, name)
            self._text(s, m, ".")
        m.text += "<|im_end|>\n"

    def _scope(self, s: Any, m: Model, name: str, text: str) -> None:
        before = len(m.text)
        with s.var_scope(name):
            self._text(s, m, text)
            self._gen(s, m, None)
        m.vars[name] = m.text[before:]

    def _call(self, s: Any, m: Model, word: str) -> None:
        value = s.call(callee, word)
        m.text += word
        m.gen("called", self.prompts)
        assert value == m.vars["called"]


@settings(max_examples=120, deadline=None)
@given(st.lists(STATEMENTS, max_size=14))
def test_random_programs_equal_plain_strings(statements: list[tuple[Any, ...]]) -> None:
    walk: list[Walk] = []

    def program(s: Any) -> None:
        walk.append(Walk(s))
        for statement in statements:
            walk[0].step(statement)
        for state, model in walk[0].pairs:
            assert state.text() == model.text
            assert {n: state[n] for n in model.vars} == model.vars

    backend = ScriptedBackend(lambda prompt, params: answer(prompt))
    state = sgc.function(program).run(backend=backend, mode="interpreted")
    root = walk[0].pairs[0][1]
    assert state.text() == root.text
    assert state.vars == {n: v for n, v in root.vars.items() if n[0] != "_"}
    assert sorted(call["prompt"] for call in backend.calls) == sorted(walk[0].prompts)
