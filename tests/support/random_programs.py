"""Writes random programs: text, gens, branches of constant and run-time number, loops over lists,
helpers, sub-programs and tools. The interpreter is the oracle of what they mean."""

# ruff: noqa: E501  (tables of program text)
from __future__ import annotations

import linecache
import random
from itertools import count
from typing import Any

import sgc

_FILES = count()
_HEAD = """\
import sgc

@sgc.tool(effect="pure")
def shout(x):
    return str(x).upper()

@sgc.tool(effect="irreversible")
def note(x):
    return len(str(x))

@sgc.function
def ask(s, topic, words=1):
    s += f"Ask {topic}:" + sgc.gen("a", max_tokens=words)
    return s["a"].strip()

@sgc.function
def both(s, topic, items):
    s += "Both " + topic
    hs = [ask(i) for i in items]
    s += "".join(h["a"] for h in hs) + sgc.gen("a", max_tokens=1)
    return [h.value for h in hs]

def tag(s, text):
    s += "<" + text + ">"
    s += sgc.gen("tagged", max_tokens=1)
    return s["tagged"].strip()

def ask_all(forks, text, name="last"):
    for i, f in enumerate(forks):
        f += f"{text}{i}" + sgc.gen(name, max_tokens=1)
    return [f[name] for f in forks]

def joined(parts, sep="/"):
    out = []
    for p in parts:
        out.append(p + sep)
    return "".join(out)

class Box:
    def __init__(self, value):
        self.value = value
        self.seen = []
    def put(self, x):
        self.seen.append(x)
        return self.value + x
    def __str__(self):
        return f"[{self.value}]"

@sgc.function
def program(s, q: str, n: int, xs: list[str], ys: list[str]):
"""


class ProgramWriter:
    """Writes one program; `text()` gives its source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.numbers = count()
        self.strings = ["q"]
        self.ints = ["n", "len(xs)"]
        self.lists = ["xs", "ys"]
        self.handles: list[str] = []
        self.budget = 14
        self.in_run_time = False

    def text(self) -> str:
        self.block("s", 6)
        shown = [*self.strings[-3:], *self.ints[-2:], *self.lists[-2:]]
        self.line(f"return {', '.join(shown)}, s['last'] if 'last' in s else None")
        return _HEAD + "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self.numbers)}"

    def choose(self, *options: Any) -> Any:
        return self.random.choice(options)

    # -- expressions

    def string(self) -> str:
        x = self.random.choice(self.strings)
        forms = [
            x, f"{x}.strip()", f"{x}.upper()", f"f'{{{x}}}!'", f"{x} + 'k'", f"{x}[:3]", f"repr({x})",
            f"str({self.integer()})", f"'-'.join({self.listing()})", f"({x} or 'none')",
            f"('long' if len({x}) > 3 else 'short')", f"'%s|%d' % ({x}, {self.random.choice(self.ints)})",
            f"f'{{{x}:>8}}{{{self.random.choice(self.ints)}:03d}}'", f"str({x} in ('yes', {x!r}))",
            f"str(Box({x}))", f"'{{}}/{{a}}'.format({x}, a={self.random.choice(self.ints)})",
        ]  # fmt: skip
        if self.handles:
            h = self.random.choice(self.handles)
            forms += [f"{h}['a']", f"{h}.text()"]
        return self.random.choice(forms)

    def integer(self) -> str:
        x = self.random.choice(self.ints)
        forms = [x, f"{x} + 1", f"len({self.random.choice(self.strings)})", f"max({x}, 2)"]
        forms += [f"abs({x} - 3)", f"len({self.listing()})", f"{x} * 2 % 5", f"int(str({x}))"]
        return self.random.choice(forms)

    def listing(self) -> str:
        x = self.random.choice(self.lists)
        y = self.random.choice(self.lists)
        forms = [
            x, f"[v + '.' for v in {x}]", f"sorted({x})", f"{x} + ['t']", f"{self.random.choice(self.strings)}.split()",
            f"[a + b for a, b in zip({x}, {y})]", f"[f'{{i}}{{v}}' for i, v in enumerate({x})]",
            f"list(reversed({x}))", f"[v for v in {x}][:2]", f"sorted({x}, key=len)",
            f"[w for v in {x} for w in [v, v + 'w']]", f"list(map(str, range({self.random.choice(self.ints)} % 4)))",
        ]  # fmt: skip
        return self.random.choice(forms)

    # -- statements

    def block(self, stream: str, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(stream)

    def statement(self, stream: str) -> None:
        self.budget -= 1
        kinds = ["text", "gen", "assign", "list"]
        if self.budget > 0 and self.depth < 4:
            kinds += [
                "fork",
                "fork_each",
                "static_fork",
                "collect",
                "unrolled",
                "sub",
                "tool",
                "helper",
            ]
            kinds += ["subs", "copy", "box", "again", "alias", "table", "local", "ask_all", "scope"]
            kinds += ["pairs", "flow"]
        getattr(self, f"do_{self.random.choice(kinds)}")(stream)

    def do_text(self, stream: str) -> None:
        self.line(f"{stream} += {self.string()}")

    def do_gen(self, stream: str) -> None:
        name = self.choose("v", "w", "last")
        self.line(f"{stream} += 'g' + sgc.gen({name!r}, max_tokens={self.choose(1, 2)})")
        var = self.fresh("t")
        self.line(f"{var} = {stream}[{name!r}]")
        self.strings.append(var)

    def do_assign(self, stream: str) -> None:
        if self.random.random() < 0.6:
            value, names, stem = self.string(), self.strings, "t"
        else:
            value, names, stem = self.integer(), self.ints, "i"
        var = self.fresh(stem)
        self.line(f"{var} = {value}")
        names.append(var)

    def do_list(self, stream: str) -> None:
        var = self.fresh("l")
        self.line(f"{var} = {self.listing()}")
        self.lists.append(var)

    def do_collect(self, stream: str) -> None:
        var, item = self.fresh("l"), self.fresh("x")
        self.line(f"{var} = {self.choose('[]', '[q]')}")
        self.line(f"for {item} in {self.random.choice(self.lists)}:")
        self.nested([item], lambda: self.line(f"{var}.append({self.string()})"))
        self.lists.append(var)

    def do_subs(self, stream: str) -> None:
        var, item = self.fresh("h"), self.fresh("x")
        source = self.random.choice(self.lists)
        self.line(f"{var} = [ask({item}) for {item} in {source}]")
        out = self.fresh("l")
        self.line(f"{out} = [{self.choose('x.value', 'x[chr(97)]', 'x.text()')} for x in {var}]")
        self.lists.append(out)

    def do_unrolled(self, stream: str) -> None:
        item = self.fresh("i")
        self.line(f"for {item} in range({self.choose(2, 3)}):")

        def body() -> None:
            self.line(f"if {item} == 1:")
            self.lines.append(
                "    " * (self.depth + 1) + self.choose("continue", f"{stream} += 'one'", "pass")
            )
            self.block(stream, 2)

        self.nested([], body, [item])

    def do_fork(self, stream: str) -> None:
        self.run_time_fork(stream, f"{stream}.fork({self.choose('n', 'len(xs) + 1')})")

    def do_fork_each(self, stream: str) -> None:
        self.run_time_fork(stream, f"{stream}.fork_each({self.random.choice(self.lists)})")

    def run_time_fork(self, stream: str, made: str) -> None:
        forks = self.fresh("forks")
        self.line(f"{forks} = {made}")
        for _ in range(self.random.randint(1, 2)):
            self.walk_forks(forks)
        if "fork(" in made and self.random.random() < 0.4:
            self.line(f"{forks}[0] += 'first' + sgc.gen('z', max_tokens=1)")
            self.walk_forks(forks)
        self.read_forks(stream, forks)

    def walk_forks(self, forks: str) -> None:
        f, i, x = self.fresh("f"), self.fresh("i"), self.fresh("x")
        head = self.choose(
            f"for {f} in {forks}:", f"for {i}, {f} in enumerate({forks}):",
            f"for {f}, {x} in zip({forks}, {self.random.choice(self.lists)}):",
        )  # fmt: skip
        self.line(head)

        def body() -> None:
            self.block(f, 3)
            self.line(f"{f} += sgc.gen('last', max_tokens=1)")

        strings = [x] if x in head else []
        self.nested(strings, body, [i] if f"{i}," in head else [])

    def read_forks(self, stream: str, forks: str) -> None:
        out = self.fresh("l")
        if "zip" not in "".join(self.lines[-12:]):
            self.line(f"{out} = [f['last'] for f in {forks}]")
            self.lists.append(out)
        mode = self.choose("", "", "append")
        if mode and stream == "s":
            self.line(f"{forks}.join({mode!r})")

    def do_static_fork(self, stream: str) -> None:
        forks, f = self.fresh("forks"), self.fresh("f")
        self.line(f"{forks} = {stream}.fork(2)")
        self.line(f"{forks} += {self.choose(self.string(), 'lambda i: str(i)', repr(['a', 'b']))}")
        self.line(f"for {f} in {forks}:")
        self.nested(
            [], lambda: (self.block(f, 2), self.line(f"{f} += sgc.gen('last', max_tokens=1)"))
        )
        if self.random.random() < 0.5:
            self.line(f"{forks}.join({self.choose('', repr('append'))})")
        var = self.fresh("t")
        self.line(f"{var} = {forks}[{self.choose(0, 1, -1)}]['last']")
        self.strings.append(var)

    def do_copy(self, stream: str) -> None:
        t, var = self.fresh("c"), self.fresh("t")
        self.line(f"with {stream}.copy() as {t}:")
        self.nested(
            [], lambda: (self.block(t, 2), self.line(f"{t} += sgc.gen('last', max_tokens=1)"))
        )
        self.line(f"{var} = {t}['last']")
        self.strings.append(var)

    def do_sub(self, stream: str) -> None:
        var = self.fresh("h")
        made = self.choose(
            f"ask({self.string()})", f"ask({self.string()}, words={self.choose('2', 'n')})",
            f"both({self.string()}, {self.listing()})", "ask('constant')",
        )  # fmt: skip
        self.line(f"{var} = {made}")
        self.handles.append(var)

    def do_tool(self, stream: str) -> None:
        var = self.fresh("t")
        if self.random.random() < 0.5:
            self.line(f"{var} = sgc.call(shout, {self.string()})")
            self.strings.append(var)
        else:
            self.line(f"{var} = sgc.call(note, {self.string()})")
            self.ints.append(var)

    def do_helper(self, stream: str) -> None:
        var = self.fresh("t")
        called = self.choose(
            f"tag({stream}, {self.string()})", f"{stream}.call(ask, {self.string()})"
        )
        self.line(f"{var} = {called}")
        self.strings.append(var)

    def do_box(self, stream: str) -> None:
        box, var = self.fresh("box"), self.fresh("t")
        self.line(f"{box} = Box({self.string()})")
        self.line(f"{var} = {box}.put({self.string()})")
        self.line(f"{stream} += str({box}) + {box}.seen[0]")
        self.strings.append(var)

    def do_alias(self, stream: str) -> None:
        a, b, row = self.fresh("a"), self.fresh("a"), self.fresh("a")
        self.line(f"{a} = [{self.string()}, {self.string()}]")
        self.line(f"{b} = {self.choose(a, f'list({a})', f'{a}[:]', f'{a} + []')}")
        self.line(f"{row} = {{'k': {b}, 'n': [{a}, {b}]}}")
        for _ in range(self.random.randint(1, 3)):
            self.line(
                self.choose(
                    f"{a}.append({self.string()})",
                    f"{b} += [{self.string()}]",
                    f"{b}[0] += 'z'",
                    f"{row}['k'].insert(0, {self.string()})",
                    f"{row}['n'][0].pop()",
                    f"{b} = {b} + ['e']",
                    f"{a}.extend({self.listing()})",
                    f"{b}.reverse()",
                    f"{stream}.set('last', {a})",
                    f"{row}['k'] = {a}",
                    f"{a} = {a} * 1",
                )
            )
        var = self.fresh("t")
        self.line(f"{var} = f'{{{a}}}{{{b}}}{{{row}}}'")
        self.strings.append(var)

    def do_table(self, stream: str) -> None:
        d, var, k = self.fresh("d"), self.fresh("t"), self.fresh("k")
        self.line(f"{d} = {{'x': {self.string()}, 'y': {self.integer()}}}")
        self.line(f"{d}['z'] = {d}.get('w', {self.string()}) + {d}['x']")
        self.line(f"{d}.update(x={self.string()}, v={self.choose('1', 'None', '[q]')})")
        self.line(f"{var} = ';'.join(f'{{{k}}}={{{d}[{k}]}}' for {k} in {d} if {k} != 'y')")
        self.strings.append(var)

    def do_local(self, stream: str) -> None:
        fn, var = self.fresh("fn"), self.fresh("t")
        self.line(f"def {fn}(p, *rest, k={self.string()}):")
        self.lines.append(
            "    " * (self.depth + 1) + f"return p + k + str(len(rest)) + {self.string()}"
        )
        self.line(f"{var} = {fn}({self.string()}, 1, k={self.string()}) + {fn}('w')")
        self.strings.append(var)

    def do_ask_all(self, stream: str) -> None:
        forks, out = self.fresh("forks"), self.fresh("l")
        width = self.choose("fork(2)", "fork(n)", f"fork_each({self.random.choice(self.lists)})")
        self.line(f"{forks} = {stream}.{width}")
        self.line(f"{out} = ask_all({forks}, {self.string()}, {self.choose(repr('v'), repr('u'))})")
        if self.random.random() < 0.5:
            self.line(f"{out} = ask_all({forks}, joined({out}))")
        self.lists.append(out)

    def do_scope(self, stream: str) -> None:
        name, var = self.fresh("sc"), self.fresh("t")
        self.line(f"with {stream}.var_scope({name!r}):")
        kept = [list(x) for x in (self.strings, self.ints, self.lists, self.handles)]
        self.depth += 1
        self.line(f"{stream} += {self.string()}")
        self.do_gen(stream)
        self.depth -= 1
        self.strings, self.ints, self.lists, self.handles = kept
        self.line(f"{var} = {stream}[{name!r}] + {stream}.text()[-3:]")
        self.strings.append(var)

    def do_pairs(self, stream: str) -> None:
        out, a, b = self.fresh("l"), self.fresh("x"), self.fresh("x")
        x, y = self.random.choice(self.lists), self.random.choice(self.lists)
        self.line(f"{out} = [({a}, {{'k': {b}}}) for {a}, {b} in zip({x}, {y})]")
        self.line(f"{out} = [{a} + {b}['k'] for {a}, {b} in {out}]")
        self.lists.append(out)

    def do_flow(self, stream: str) -> None:
        i, var = self.fresh("i"), self.fresh("t")
        self.line(f"{var} = {self.string()}")
        self.line(f"{i} = 0")
        self.line(f"while {i} < 3:")
        for text in (
            f"{i} += 1",
            "try:",
            f"    if {i} == 2:",
            f"        {self.choose('continue', 'break', '1 // 0')}",
            "except ZeroDivisionError as e:",
            f"    {var} += str(e)[:4]",
            f"{var} += {self.string()}[:2]",
        ):
            self.lines.append("    " * (self.depth + 1) + text)
        self.strings.append(var)

    def do_again(self, stream: str) -> None:
        self.line(f"{stream}.set('last', {self.string()})")

    def nested(self, strings: list[str], body: Any, ints: list[str] | None = None) -> None:
        """A body; the names that it makes are not used after it."""
        kept = [list(x) for x in (self.strings, self.ints, self.lists, self.handles)]
        self.strings += strings
        self.ints += ints or []
        self.depth += 1
        body()
        self.depth -= 1
        self.strings, self.ints, self.lists, self.handles = kept


def load_text(text: str) -> sgc.Program:
    """The program of a source text."""
    name = f"<random program {next(_FILES)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": f"random_program_{next(_FILES)}"}
    exec(compile(text, name, "exec"), scope)
    program = scope["program"]
    assert isinstance(program, sgc.Program)
    return program
