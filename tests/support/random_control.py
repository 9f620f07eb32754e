"""Random graphs with control flow: nested branches, exits, failing arms, forks, loops, calls."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from support.random_choices import choose

from sgc_ir.graph import (
    MISSING,
    ROOT_STREAM,
    UNSET,
    Graph,
    Node,
    Param,
    Program,
    Ref,
    Source,
    Token,
)
from sgc_ir.ops import Op

TOOLS = {"look": "pure", "save": "irreversible"}


@dataclass
class Scope:
    """What is known where the next node stands."""

    token: Token | None = None
    values: list[Ref] = field(default_factory=list)  # plain values
    streams: list[int] = field(default_factory=lambda: [ROOT_STREAM])
    forks: bool = True


class Maker:
    """Draws one graph. `left` counts the nodes that may still be added."""

    def __init__(
        self, draw: random.Random, name: str, params: list[str], callees: list[Graph], left: int
    ) -> None:
        self.draw, self.name, self.params = draw, name, params
        self.callees, self.left = callees, left
        self.nodes: list[Node] = []
        self.counts: dict[tuple[int, str], int] = {}
        self.is_body = False
        self.ordinals: Ref | None = None  # of a body: a number that differs from pass to pass
        self.family_argument: Ref | None = None  # of a body that walks a family: the family
        self.exits: list[tuple[Token, Any]] = []  # early returns: token, value
        self.named = 0

    # -- nodes

    def add(self, op: Op, scope: Scope, stream: int = ROOT_STREAM, **attrs: Any) -> Ref:
        self.left -= 1
        body = attrs.pop("body", None)
        control = None if op is Op.MERGE else scope.token
        at = len(self.nodes)
        self.nodes.append(Node(at, op, stream, attrs, Source("r.py", at + 1), control, body))
        return Ref(at)

    def ordinal(self, scope: Scope, stream: int, kind: str) -> Any:
        number = self.counts.get((stream, kind), 0)
        self.counts[stream, kind] = number + 1
        outer = stream == ROOT_STREAM or self.nodes[stream].op is Op.ARGUMENT
        if not outer and self.nodes[stream].attrs["fork"] == self.family_argument:
            outer = True
        if self.ordinals is None or not outer:
            return number
        return self.add(Op.EXPR, scope, fn="+", args=(self.ordinals, number))

    def value(self, scope: Scope) -> Any:
        if scope.values and self.draw.random() < 0.8:
            return self.draw.choice(scope.values)
        return self.draw.choice(["k", "", 3, "ab"])

    def stream(self, scope: Scope) -> int:
        return self.draw.choice(scope.streams)

    def inside(self, scope: Scope, streams: list[int]) -> Scope:
        """The same place, with other streams to write in."""
        return Scope(scope.token, list(scope.values), streams, scope.forks)

    def order(self, scope: Scope, number: int) -> Ref:
        """The numbers below `number`, in an order that is known at run time."""
        start = self.add(Op.EXPR, scope, fn="text", args=(self.value(scope),))
        length = self.add(Op.EXPR, scope, fn="len", args=(start,))
        keys = []
        for i in range(number):
            mixed = self.add(Op.EXPR, scope, fn="*", args=(length, 2 * i + 1))
            keys.append(self.add(Op.EXPR, scope, fn="%", args=(mixed, 5)))
        return self.add(Op.EXPR, scope, fn="argsort", args=(tuple(keys),))

    def condition(self, scope: Scope) -> Any:
        value = self.add(Op.EXPR, scope, fn="text", args=(self.value(scope),))
        if self.draw.random() < 0.3:
            length = self.add(Op.EXPR, scope, fn="len", args=(value,))
            return self.add(Op.EXPR, scope, fn="%", args=(length, 2))
        letter = self.draw.choice("abc")
        return self.add(Op.EXPR, scope, fn="in", args=(letter, value))

    # -- statements

    def block(self, scope: Scope, depth: int) -> bool:
        """Some statements; whether the end is reached on some path (then `scope.token` says
        which)."""
        for _ in range(self.draw.randint(1, 4) + 2 * max(0, depth - 1)):
            if self.left <= 0:
                break
            if not self.statement(scope, depth):
                return False
        return True

    def statement(self, scope: Scope, depth: int) -> bool:
        plain = [self.text, *[self.gen] * 4, self.put, self.put, self.partial, self.call, self.set]
        plain.append(self.read)
        nested = [self.branch, self.branch, self.branch, self.loop, self.sub_program]
        if scope.forks:
            nested += [self.fork, self.family, partial(choose, self)]
        act = self.draw.choice(plain if depth <= 0 else plain + nested)
        return act(scope, depth) is not False

    def text(self, scope: Scope, _: int) -> None:
        text = self.draw.choice(["x", "yy ", "z."])
        self.add(Op.CONSTANT_TEXT, scope, self.stream(scope), text=text)

    def gen(self, scope: Scope, _: int) -> None:
        stream = self.stream(scope)
        ordinal = self.ordinal(scope, stream, "g")
        name = self.draw.choice(["v", "w"])
        scope.values.append(self.add(Op.GEN, scope, stream, name=name, ordinal=ordinal))

    def put(self, scope: Scope, _: int) -> None:
        value = self.value(scope)
        self.add(Op.EXPR, scope, self.stream(scope), fn="text", args=(value,), append=True)

    def partial(self, scope: Scope, _: int) -> None:
        """An expression that may fail."""
        text = self.add(Op.EXPR, scope, fn="text", args=(self.value(scope),))
        if self.draw.random() < 0.8:
            args: tuple[Any, ...] = (text, 0, 2, None)
            scope.values.append(self.add(Op.EXPR, scope, fn="getslice", args=args))
        else:
            scope.values.append(self.add(Op.EXPR, scope, fn="getitem", args=(text, 0)))

    def call(self, scope: Scope, _: int) -> None:
        tool = self.draw.choice(sorted(TOOLS))
        ordinal = self.ordinal(scope, ROOT_STREAM, "g")
        args = (self.value(scope), len(self.nodes))
        attrs = {"tool": tool, "effect": TOOLS[tool], "args": args, "ordinal": ordinal}
        scope.values.append(self.add(Op.CALL, scope, **attrs))

    def read(self, scope: Scope, _: int) -> None:
        """Look at a stream: at its text, or at a variable that it may not have."""
        stream = self.stream(scope)
        if stream != ROOT_STREAM and self.draw.random() < 0.5:
            field_ = "text" if self.draw.random() < 0.7 else "value"
            attrs = {"name": "v", "of": Ref(stream), "field": field_}
            scope.values.append(self.add(Op.VARIABLE, scope, stream, **attrs))
        else:
            seen = self.add(Op.VARIABLE, scope, stream, name="", field="stream_text")
            scope.values.append(seen)

    def set(self, scope: Scope, _: int) -> None:
        args = (self.draw.choice(["v", "s"]), self.value(scope))
        self.add(Op.EXPR, scope, self.stream(scope), fn="set", args=args)

    def branch(self, scope: Scope, depth: int) -> bool:
        branch = self.add(Op.BRANCH, scope, cond=self.condition(scope)).node
        ends: list[tuple[Token, list[Ref]]] = []
        for arm in (True, False):
            inner = Scope((branch, arm), list(scope.values), list(scope.streams), scope.forks)
            reached = self.draw.random() < 0.2 or self.block(inner, depth - 1)
            if reached and self.draw.random() < 0.15:
                self.leave(inner)
            elif reached:
                assert inner.token is not None
                ends.append((inner.token, inner.values))
        if not ends:
            return False
        whole = len(ends) == 2 and [t for t, _ in ends] == [(branch, True), (branch, False)]
        if not whole:
            scope.token = ends[0][0] if len(ends) == 1 else self.join([t for t, _ in ends])
        tokens = [token for token, _ in ends]
        for _ in range(self.draw.randint(0, 2)):
            picked = [self.pick(values) for _, values in ends]
            self.merge(scope, tokens, picked)
        return True

    def pick(self, values: list[Ref]) -> Any:
        return self.draw.choice([*values[-3:], "k", UNSET])

    def join(self, tokens: list[Token]) -> Token:
        pairs = tuple((Ref(at), arm) for at, arm in tokens)
        return self.add(Op.MERGE, Scope(), values=(), tokens=pairs).node, True

    def merge(self, scope: Scope, tokens: list[Token], picked: list[Any]) -> None:
        pairs = tuple((Ref(at), arm) for at, arm in tokens)
        merged = self.add(Op.MERGE, scope, values=tuple(picked), tokens=pairs)
        if any(value is UNSET for value in picked):
            if self.draw.random() < 0.6:
                scope.values.append(self.add(Op.EXPR, scope, fn="default", args=(merged, "d")))
            else:
                scope.values.append(self.add(Op.VARIABLE, scope, name="m", of=merged))
        else:
            scope.values.append(merged)

    def leave(self, scope: Scope) -> None:
        """An early return, or a failure."""
        if self.draw.random() < 0.4:
            self.add(Op.EXPR, scope, fn="fail", args=("ValueError", f"at {len(self.nodes)}"))
            return
        assert scope.token is not None
        self.exits.append((scope.token, self.value(scope)))

    def fork(self, scope: Scope, depth: int) -> bool:
        stream = self.stream(scope)
        fork = self.add(Op.FORK, scope, stream, ordinal=self.ordinal(scope, stream, "f"), width=2)
        items = [self.add(Op.GET_FORK_ITEM, scope, stream, fork=fork, index=i) for i in range(2)]
        written: list[Any] = []
        for item in items:
            several = self.draw.random() < 0.4  # the block uses both branches, and their parent
            streams = [stream, *(i.node for i in items)] if several else [item.node]
            inner = Scope(scope.token, list(scope.values), streams, depth > 1)
            reached = self.block(inner, depth - 1)
            scope.token = inner.token
            if not reached:
                return False
            scope.values += [v for v in inner.values[-2:] if v not in scope.values]
            written.append(self.pick(inner.values))
        if self.draw.random() < 0.7 and stream == scope.streams[0]:
            self.join_branches(scope, stream, fork, written)
        return True

    def join_branches(self, scope: Scope, stream: int, fork: Ref, written: list[Any]) -> None:
        if self.draw.random() < 0.4:
            self.add(Op.JOIN, scope, stream, fork=fork, mode="append")
            return
        writers = [w if isinstance(w, Ref) else "k" for w in written]
        attrs: dict[str, Any] = {"fork": fork, "mode": "gather", "vars": {"j": writers}}
        join = self.add(Op.JOIN, scope, stream, **attrs)
        if self.draw.random() < 0.7:
            scope.values.append(self.add(Op.VARIABLE, scope, stream, name="j", of=join))

    def sub_program(self, scope: Scope, _: int) -> None:
        if not self.callees:
            return
        callee = self.draw.choice(self.callees)
        args = {param.name: self.value(scope) for param in callee.params}
        ordinal = self.ordinal(scope, ROOT_STREAM, "c")
        handle = self.add(Op.SUB_PROGRAM, scope, callee=callee.name, args=args, ordinal=ordinal)
        field_ = self.draw.choice(["result", "text", "value"])
        names = list(callee.nodes[-1].attrs["vars"])
        if field_ == "value" and not names:
            return
        name = self.draw.choice(names) if field_ == "value" else ""
        scope.values.append(self.add(Op.VARIABLE, scope, name=name, of=handle, field=field_))

    def letters(self, scope: Scope) -> Ref:
        """A list of at most three letters, known at run time."""
        letters = self.add(Op.EXPR, scope, fn="text", args=(self.value(scope),))
        short = self.add(Op.EXPR, scope, fn="getslice", args=(letters, 0, 3, None))
        return self.add(Op.EXPR, scope, fn="list_of", args=(short,))

    def family(self, scope: Scope, depth: int) -> None:
        """A fork of run-time width, loops over its branches, perhaps a join."""
        stream = self.stream(scope)
        items = self.letters(scope)
        ordinal = self.ordinal(scope, stream, "f")
        fork = self.add(Op.FORK, scope, stream, ordinal=ordinal, items=items)
        last: Ref | None = None
        for _ in range(self.draw.randint(1, 2)):
            self.one_loop(scope, depth, stream, fork, ["forks"], {"forks": fork}, last)
            last = next(Ref(n.id) for n in reversed(self.nodes) if n.op is Op.LOOP)
        if self.draw.random() < 0.7 and stream == scope.streams[0]:
            mode = self.draw.choice(["gather", "append"])
            join = self.add(Op.JOIN, scope, stream, fork=fork, mode=mode)
            if mode == "gather" and self.draw.random() < 0.4:
                scope.values.append(self.add(Op.VARIABLE, scope, stream, name="v", of=join))

    def loop(self, scope: Scope, depth: int) -> None:
        stream = self.stream(scope)
        over = self.letters(scope)
        held = [s for s in scope.streams if s not in (ROOT_STREAM, stream)]
        held = held[:1] if self.draw.random() < 0.7 else []
        captured = {"held": Ref(held[0])} if held else {}
        self.one_loop(scope, depth, stream, over, [*captured], captured, None)

    def one_loop(
        self,
        scope: Scope,
        depth: int,
        stream: int,
        over: Ref,
        names: list[str],
        captured: dict[str, Ref],
        after: Ref | None,
    ) -> None:
        params = ["item", "i", "a", "b", "base", *names]
        maker = Maker(self.draw, f"{self.name}.l{len(self.nodes)}", params, self.callees, 18)
        maker.is_body = True
        base: Any = 1000 ** (depth + 1) * (len(self.nodes) + 1)
        if self.ordinals is not None:
            base = self.add(Op.EXPR, scope, fn="+", args=(self.ordinals, base))
        base = self.add(Op.EXPR, scope, fn="+", args=(base, 0))
        body = maker.body(depth - 1, kind=self.draw.random() < 0.5)
        loop = self.add(
            Op.LOOP,
            scope,
            stream,
            over=(over,),
            item_params=("item",),
            index_param="i",
            captures={"base": base, **captured},
            carried={"a": self.value(scope), "b": UNSET},
            body=body,
            **({"after": after} if after is not None else {}),
            **({"max": self.draw.randint(0, 2)} if self.draw.random() < 0.3 else {}),
        )
        out = self.add(Op.VARIABLE, scope, name="a", of=loop, field="output")
        scope.values.append(out)
        maybe = self.add(Op.VARIABLE, scope, name="b", of=loop, field="output")
        scope.values.append(self.add(Op.EXPR, scope, fn="default", args=(maybe, "d")))
        scope.values.append(self.add(Op.VARIABLE, scope, name="", of=loop, field="kind"))
        if self.draw.random() < 0.5:
            scope.values.append(loop)

    # -- whole graphs

    def body(self, depth: int, kind: bool) -> Graph:
        scope = Scope(forks=self.draw.random() < 0.5)
        given = [self.add(Op.ARGUMENT, scope, name=n) for n in self.params]
        item, index, a, b, base = given[:5]
        if "forks" in self.params:
            self.family_argument = given[5]
            branch = self.add(Op.GET_FORK_ITEM, scope, fork=given[5], index=item)
            scope.streams = [branch.node, *scope.streams[: self.draw.random() < 0.3]]
        else:
            scope.streams += [ref.node for ref in given[5:]]
        scaled = self.add(Op.EXPR, scope, fn="*", args=(index, 50 * 10**depth))
        self.ordinals = self.add(Op.EXPR, scope, fn="+", args=(scaled, base))
        known = self.add(Op.EXPR, scope, fn="default", args=(b, "none"))
        scope.values += [item, a, known]
        reached = self.block(scope, depth)
        self.left = max(self.left, 0)
        tokens, values = self.endings(scope, reached)
        attrs: dict[str, Any] = {}
        end = Scope()
        if kind and self.exits and tokens:
            ways = [2] * len(self.exits) + [0] * reached
            attrs["kind"] = self.together(end, tokens, ways)
        elif kind:
            attrs["kind"] = self.add(Op.EXPR, scope, fn="%", args=(index, 2)) if reached else 0
        slots = {"a": self.value(scope) if reached else "x", "b": self.pick(scope.values)}
        if self.exits or not reached:
            slots = {"a": "x", "b": "y"}
        return self.close(scope, reached, tokens, values, slots, attrs)

    def endings(self, scope: Scope, reached: bool) -> tuple[list[Token], list[Any]]:
        """The tokens under which the graph ends, with its value under each."""
        tokens = [token for token, _ in self.exits]
        values = [value for _, value in self.exits]
        if reached and scope.token is not None:
            tokens.append(scope.token)
        if reached:
            values.append(self.value(scope))
        return tokens, values

    def together(self, end: Scope, tokens: list[Token], values: list[Any]) -> Any:
        pairs = tuple((Ref(at), arm) for at, arm in tokens)
        return self.add(Op.MERGE, end, values=tuple(values), tokens=pairs)

    def close(
        self,
        scope: Scope,
        reached: bool,
        tokens: list[Token],
        values: list[Any],
        out: dict[str, Any],
        attrs: dict[str, Any],
    ) -> Graph:
        end = Scope()
        value: Any = None
        if self.exits and len(tokens) == len(values) and tokens:
            value = self.together(end, tokens, values)
            end.token = (value.node, True)
        elif not self.exits and reached:
            end.token, value = scope.token, values[0]
        elif tokens:
            end.token = tokens[0] if len(tokens) == 1 else self.join(tokens)
        self.add(Op.RETURN, end, value=value, vars=out, **attrs)
        params = tuple(Param(name, default=MISSING) for name in self.params)
        return Graph(self.name, params, tuple(self.nodes), Source("r.py", 1))

    def graph(self, depth: int) -> Graph:
        scope = Scope()
        scope.values += [self.add(Op.ARGUMENT, scope, name=n) for n in self.params]
        reached = self.block(scope, depth)
        tokens, values = self.endings(scope, reached)
        out: dict[str, Any] = {}
        if reached and not self.exits:
            out = {f"o{i}": ref for i, ref in enumerate(scope.values[-3:])}
        return self.close(scope, reached, tokens, values, out, {})


def random_program(seed: int) -> Program:
    """A program with one graph that others may call; it may not pass the verifier."""
    draw = random.Random(seed)
    callees = [Maker(draw, "sub", ["p"], [], 12).graph(2)]
    main = Maker(draw, "main", ["p", "q"], callees, draw.choice([20, 50, 120])).graph(3)
    return Program("main", {"main": main, "sub": callees[0]}, tools=TOOLS)
