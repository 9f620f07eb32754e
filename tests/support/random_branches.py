"""Writes random programs with control flow on generated values: nested ifs, loops with exits,
lists, dicts, objects, helpers, sub-programs, forks. The interpreter is the oracle."""

# ruff: noqa: E501  (tables of program text)
from __future__ import annotations

import random
from itertools import count

_HEAD = """\
import sgc

@sgc.tool(effect="pure")
def shout(x):
    return str(x).upper()

@sgc.tool(effect="repeatable")
def note(x):
    return len(str(x))

@sgc.function
def ask(s, topic):
    s += f"Ask {topic}:" + sgc.gen("a", max_tokens=1)
    if s["a"] == "yes":
        return "Y" + s["a"]
    s += "more" + sgc.gen("b", max_tokens=2)
    return s["b"]

def check(s, text):
    s += "<" + text + sgc.gen("k", max_tokens=1)
    if s["k"] == "yes":
        return "good"
    for c in "ab":
        if s["k"] == c:
            return c + text
    s += ">"
    return s["k"]

def push(items, x):
    if x == "yes":
        items.append(x)
        return len(items)
    return 0

class Box:
    def __init__(self, value):
        self.value = value
        self.seen = []
    def put(self, x):
        if x == "no":
            self.value = x
        else:
            self.seen.append(x)
        return self.value

@sgc.function
def program(s, q: str, xs: list[str]):
    t0, n0, l0, d0, box = q, 0, [], {"k": "v"}, Box("box")
"""


class BranchWriter:
    """Writes one program; `text()` gives its source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.numbers = count()
        self.budget = 12
        self.loops = 0
        self.texts = ["t0", "q"]
        self.ints = ["n0"]
        self.lists = ["l0"]
        self.calls = 0

    def text(self) -> str:
        self.line('s += "start" + sgc.gen("g0", max_tokens=1)')
        self.texts.append('s["g0"]')
        self.block(5)
        self.line('return t0, n0, l0, d0, box.value, box.seen, s.get("last")')
        return _HEAD + "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    # -- expressions

    def string(self) -> str:
        x, y = self.pick(self.texts), self.pick(self.texts)
        forms = [
            x, f"{x} + '.'", f"f'{{{x}}}-{{{y}}}'", f"{x}.upper()", "'-'.join(l0)", f"str({self.integer()})",
            f"({x} if {self.condition()} else {y})", f"({x} or {y})", f"({x} and {y})", f"{x}[:2]", "q",
            "box.value", "d0['k']", f"('long' if len({x}) > 2 else 'short')", f"d0.get('z', {x})",
            f"d0.get({x}, 'none')", "','.join(d0)", "str(d0)",
        ]  # fmt: skip
        return self.pick(forms)

    def integer(self) -> str:
        x = self.pick(self.ints)
        forms = [x, f"{x} + 1", "len(l0)", f"len({self.pick(self.texts)})", "2", f"({x} if {self.condition()} else 7)"]  # fmt: skip
        return self.pick(forms)

    def condition(self, deep: int = 0) -> str:
        x = self.pick(self.texts)
        forms = [
            f"{x} == 'yes'", f"{x} != 'no'", f"{x} in ('yes', 'a')", f"{x}.startswith('y')", f"{self.pick(self.ints)} > 1",
            f"len(l0) == {self.random.randint(0, 2)}", "l0", x, f"'a' in {x}", "'last' in s", "'yes' in l0", f"not {x}",
            f"{x} in d0", "len(d0) > 1",
        ]  # fmt: skip
        if deep < 2 and self.random.random() < 0.3:
            op = self.pick(["and", "or"])
            return f"({self.condition(deep + 1)} {op} {self.condition(deep + 1)})"
        return self.pick(forms)

    # -- statements

    def block(self, size: int) -> None:
        kept = len(self.texts), len(self.ints)
        for _ in range(self.random.randint(1, size)):
            self.statement()
        del self.texts[kept[0] :], self.ints[kept[1] :]

    def statement(self) -> None:
        self.budget -= 1
        kinds = ["gen", "gen", "assign", "number", "list", "dict", "box", "text", "alias", "last"]
        if self.budget > 0 and self.depth < 5:
            kinds += ["branch", "branch", "branch", "loop", "helper", "sub", "fork", "role", "tool"]
            kinds += ["match", "counted", "filtered", "lazy", "family", "best", "handles"]
        if self.depth > 1:
            kinds += ["leave"]
        getattr(self, "_" + self.pick(kinds))()

    def inner(self, size: int = 3) -> None:
        self.depth += 1
        self.block(size)
        self.depth -= 1

    def _gen(self) -> None:
        name = f"g{next(self.numbers)}"
        self.line(
            f"s += {self.string()} + sgc.gen('{name}', max_tokens={self.random.randint(1, 2)})"
        )
        self.texts.append(f's["{name}"]')

    def _last(self) -> None:
        self.line("s += '#' + sgc.gen('last', max_tokens=1)")

    def _assign(self) -> None:
        self.line(f"t0 = {self.string()}")

    def _number(self) -> None:
        self.line(self.pick([f"n0 = {self.integer()}", "n0 += 1", f"n0 += {self.integer()}"]))

    def _list(self) -> None:
        forms = [
            f"l0.append({self.string()})", f"l0 = [{self.string()}]", f"l0 = l0 + [{self.string()}]",
            f"l0.extend(['e', {self.string()}])", f"l0 += [{self.string()}]", "l0 = list(l0)", f"n0 = push(l0, {self.string()})",
        ]  # fmt: skip
        self.line(self.pick(forms))

    def _dict(self) -> None:
        self.line(self.pick([f"d0['k'] = {self.string()}", f"d0['z'] = {self.string()}", "d0 = {'k': 'new'}", f"d0[{self.string()}] = {self.string()}", f"d0.setdefault({self.string()}, 'new')"]))  # fmt: skip

    def _box(self) -> None:
        self.line(self.pick([f"box.put({self.string()})", f"t0 = box.put({self.string()})"]))

    def _text(self) -> None:
        self.line(f"s += {self.string()}")

    def _alias(self) -> None:
        self.line(self.pick(["l1 = l0", "l1 = l0; l1.append('alias')", "b1 = box; b1.put(t0)"]))

    def _branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.inner()
        if self.random.random() < 0.3:
            self.line(f"elif {self.condition()}:")
            self.inner()
        if self.random.random() < 0.5:
            self.line("else:")
            self.inner()

    def _loop(self) -> None:
        heads = ["for i in range(2):", "for i in ['a', 'yes']:", "for _ in s.loop(max=2):"]
        heads += ["for i in xs:", "for i in range(len(xs)):"]
        self.line(self.pick(heads))
        self.loops += 1
        self.inner()
        self.loops -= 1
        if self.random.random() < 0.2:
            self.line("else:")
            self.inner(2)

    def _leave(self) -> None:
        forms = [
            f"return {self.string()}, n0",
            "raise ValueError('bad')",
            f"n0 = int({self.string()})",
        ]
        if self.loops:
            forms += ["break", "continue", "break", "continue"]
        self.line(f"if {self.condition()}:")
        self.depth += 1
        self.line(self.pick(forms))
        self.depth -= 1

    def _helper(self) -> None:
        self.line(f"t0 = check(s, {self.string()})")

    def _sub(self) -> None:
        self.line(f"t0 = ask({self.string()}).value")

    def _tool(self) -> None:
        self.line(self.pick([f"t0 = sgc.call(shout, {self.string()})", f"n0 = sgc.call(note, {self.string()})"]))  # fmt: skip

    def _match(self) -> None:
        self.line(f"match {self.pick(self.texts)}:")
        self.depth += 1
        for case in ("'yes'", "'no' | 'a'", "_"):
            if case == "_" or self.random.random() < 0.7:
                self.line(f"case {case}:")
                self.inner(2)
        self.depth -= 1

    def _counted(self) -> None:
        name = f"w{next(self.numbers)}"
        self.line(f"{name} = 0")
        self.line(f"while {name} < 2:")
        self.depth += 1
        self.line(f"s += 'w' + sgc.gen('{name}', max_tokens=1)")
        self.line(f"{name} += 1 if s['{name}'] == 'yes' else 2")
        self.depth -= 1

    def _filtered(self) -> None:
        forms = [
            f"l0 = [x + '.' for x in {self.pick(['xs', 'l0'])} if x != {self.string()}]",
            f"t0 = str(any(x == {self.pick(self.texts)} for x in {self.pick(['xs', 'l0', '[t0, q]'])}))",
            f"t0 = str(all(check(s, x) != 'good' for x in ['m', {self.string()}]))",
            f"n0 = sum(1 for x in {self.pick(['xs', 'l0'])} if {self.condition()})",
        ]
        self.line(self.pick(forms))

    def _lazy(self) -> None:
        calls = [
            "check(s, 'z')",
            "ask(t0).value",
            "sgc.call(shout, t0)",
            "box.put(t0)",
            "str(int(t0))",
        ]
        one, two = self.pick(calls), self.string()
        forms = [f"{one} if {self.condition()} else {two}", f"{two} and {one}", f"{two} or {one}"]
        self.line(f"t0 = {self.pick(forms)}")

    def _family(self) -> None:
        name = f"y{next(self.numbers)}"
        self.line(f"ys = s.fork_each({self.pick(['xs', 'xs', 'l0'])})")
        self.line("for f in ys:")
        self.depth += 1
        self.line(f"f += f.item + sgc.gen('{name}', max_tokens=1)")
        self.line(f"if f['{name}'] == {self.pick(self.texts)}:")
        self.line(f"    f += 'again' + sgc.gen('{name}', max_tokens=2)")
        self.line("f += 'end' + sgc.gen('last', max_tokens=1)")
        self.depth -= 1
        self.line(f"t0 = ','.join(f['{name}'] + f['last'] for f in ys)")

    def _best(self) -> None:
        self.line("zs = list(s.fork(2))")
        self.line("for i, f in enumerate(zs):")
        self.line("    f += str(i) + sgc.gen('z', max_tokens=1)")
        self.line(f"z = {self.pick(['max', 'min'])}(zs, key=lambda f: f['z'])")
        self.line("z += 'best' + sgc.gen('zz', max_tokens=1)")
        self.line("t0 = z['z'] + z['zz']")

    def _handles(self) -> None:
        self.line(f"h = ask({self.string()})")
        self.line(f"if {self.condition()}:")
        self.line("    h = ask('other')")
        self.line("t0 = h['a'] + str(h.value)")

    def _fork(self) -> None:
        name = f"v{next(self.numbers)}"
        self.line("for i, f in enumerate(s.fork(2)):")
        self.depth += 1
        self.line(f"f += str(i) + {self.string()} + sgc.gen('{name}', max_tokens=1)")
        self.line(f"if f['{name}'] == 'yes':")
        self.line(f"    f += 'again' + sgc.gen('{name}', max_tokens=1)")
        self.line(f"    l0.append(f['{name}'])")
        self.line(f"t0 = f['{name}']")
        self.depth -= 1

    def _role(self) -> None:
        self.line("with s.user():")
        self.inner(2)
