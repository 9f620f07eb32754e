"""hypothesis strategies: constants, parameters of model calls, and valid programs of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sgc_ir.graph import MISSING, ROOT_STREAM, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op
from sgc_ir.params import CHOICE_METHODS, DTYPES, JSON_STYLES

Draw = Callable[[Any], Any]

any_text = st.text(st.characters(), max_size=12)  # lone surrogates and controls included
names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
integers = st.one_of(
    st.integers(-10, 10), st.integers(), st.integers(2**62, 2**66), st.integers(-(2**9000), 2**9000)
)
scalars = st.one_of(
    st.none(), st.booleans(), integers, st.floats(), any_text, st.binary(max_size=12)
)
keys = st.one_of(any_text, integers, st.binary(max_size=4), st.tuples(st.integers(), any_text))
constants = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
    ),
    max_leaves=8,
)
sources = st.one_of(
    st.just(Source()),
    st.builds(Source, st.sampled_from(["a.py", "b c.py", "", 'q"\\.py']), st.integers(0, 9999)),
)
annotations = st.sampled_from(
    [
        "",
        "str",
        "int",
        "list[str]",
        "dict[str, int]",
        "tuple[int, ...]",
        "tuple[str, bool, float]",
        "int | None",
        'Literal["a", "b\\n", 3, True, None]',
        "list[dict[str, list[int]] | None]",
        "Optional[int]",  # legal, though not as `annotation_to_text` writes it
    ]
)
texts = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3)

# One strategy a parameter, valid values only; constraints, of which a gen takes one, stand apart.
SAMPLING: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": st.integers(20, 500),
    "min_tokens": st.integers(0, 20),
    "n": st.integers(1, 4),
    "stop": texts.map(tuple),
    "stop_token_ids": st.lists(st.integers(0, 50000), max_size=3).map(tuple),
    "stop_regex": st.sampled_from([("\\n+",), ("a|b", "[0-9]")]),
    "temperature": st.floats(0, 3),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(-1, 100),
    "min_p": st.floats(0, 1),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.1, 2),
    "logit_bias": st.dictionaries(st.integers(0, 9).map(str), st.floats(-100, 100), max_size=2),
    "ignore_eos": st.booleans(),
    "seed": st.integers(0, 2**63 - 1),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(0, 5),
    "distribution": st.just("local"),  # exact goes with few other parameters
    "heal": st.booleans(),
}
CONSTRAINT: dict[str, st.SearchStrategy[Any]] = {
    "regex": st.sampled_from(["[a-z]+", "x{2,3}|y", 'a"b\\\\']),
    "json_schema": st.sampled_from(
        [True, {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}]
    ),
    "grammar": st.sampled_from(['start: "a"+', "start: A\nA: /[0-9]+/"]),
    "dtype": st.sampled_from(DTYPES),
}


@dataclass
class Stream:
    """State of one stream while a graph is drawn."""

    id: int
    role: str | None = None
    inherited: bool = False
    closed: bool = False
    counts: dict[str, int] = field(default_factory=lambda: {"g": 0, "f": 0, "c": 0})


@dataclass
class Family:
    """A fork while a graph is drawn; `width` None means that a run decides."""

    ref: Ref
    parent: Stream
    width: int | None
    role: str | None
    branches: list[Stream] = field(default_factory=list)
    copied: bool = False
    written: list[dict[str, Ref]] = field(default_factory=list)


class GraphMaker:
    """Draws one graph, node by node, keeping every rule of the verifier."""

    def __init__(
        self, draw: Draw, name: str, params: list[Param], callees: list[Graph], depth: int = 0
    ) -> None:
        self.draw = draw
        self.name = name
        self.params = params
        self.callees = callees
        self.depth = depth
        self.nodes: list[Node] = []
        self.root = Stream(ROOT_STREAM)
        self.families: list[Family] = []
        self.values: list[Ref] = []
        self.handles: list[Ref] = []
        self.gens: list[Ref] = []
        self.tools: dict[str, str] = {}
        self.control: tuple[int, bool] | None = None
        self.last: dict[Op, Ref] = {}
        self.forks_in: dict[str, str | None] = {}  # captured fork parameter -> role

    # -- building blocks

    def add(
        self, op: Op, stream: Stream | None = None, body: Graph | None = None, **attrs: Any
    ) -> Ref:
        opened = self.root.id if stream is None else stream.id
        source = self.draw(sources)
        node = Node(len(self.nodes), op, opened, attrs, source, self.control, body)
        self.nodes.append(node)
        return Ref(node.id)

    def operand(self) -> Any:
        """A constant, a value, or a container of both."""
        if self.values and self.draw(st.booleans()):
            ref = self.draw(st.sampled_from(self.values))
            shapes = [ref, (ref, 1), [ref, "x"], {"k": ref, "l": None}]
            return self.draw(st.sampled_from(shapes))
        return self.draw(constants)

    def value(self) -> Ref:
        if not self.values:
            self.expr()
        return self.draw(st.sampled_from(self.values))

    def ordinal(self, stream: Stream, kind: str) -> Any:
        in_pass = self.depth > 0 and stream.id == ROOT_STREAM
        if in_pass:
            return self.value()
        stream.counts[kind] += 1
        return stream.counts[kind] - 1

    def streams(self) -> list[Stream]:
        found = [b for f in self.families for b in f.branches if not b.closed]
        return found if self.depth else [self.root, *found]

    def stream(self) -> Stream:
        open_streams = self.streams() or [self.branch()]
        return self.draw(st.sampled_from(open_streams))

    # -- actions, one a kind of node

    def constant_text(self) -> None:
        self.add(Op.CONSTANT_TEXT, self.stream(), text=self.draw(any_text))

    def argument(self) -> None:
        if self.params:
            name = self.draw(st.sampled_from([p.name for p in self.params]))
            if name not in self.forks_in:
                self.values.append(self.add(Op.ARGUMENT, name=name))
                self.add(Op.ARGUMENT, self.stream(), name=name, append=True)

    def variable(self) -> None:
        if self.gens:
            of = self.draw(st.sampled_from(self.gens))
            name = self.nodes[of.node].attrs["name"]
            self.values.append(self.add(Op.VARIABLE, name=name, of=of))
            self.add(Op.VARIABLE, self.stream(), name=name, of=of, field="meta", append=True)
            self.values.append(self.add(Op.VARIABLE, self.stream(), name="", field="stream_text"))

    def expr(self) -> None:
        fn, args, kwargs = self.draw(
            st.sampled_from(
                [
                    ("concat", ("a", "b"), None),
                    ("str.format", ("{0} {x!r:>4}", (1,), {"x": 2}), {}),
                    ("+", (1, 2), None),
                    (".split", ("a b",), {"sep": " "}),
                    ("dict", ("k", [1]), None),
                ]
            )
        )
        attrs = {"fn": fn, "args": args} | ({} if kwargs is None else {"kwargs": kwargs})
        self.values.append(self.add(Op.EXPR, **attrs))
        if self.depth and not self.forks_in:
            return  # a body without a branch has nowhere to append to
        text = self.add(Op.EXPR, self.stream(), fn="text", args=(self.operand(),), append=True)
        self.values.append(text)

    def gen(self) -> None:
        chosen = self.draw(st.sets(st.sampled_from(sorted(SAMPLING)), max_size=7))
        params = {name: self.draw(SAMPLING[name]) for name in sorted(chosen)}
        constraint = self.draw(st.sampled_from([None, *sorted(CONSTRAINT)]))
        if constraint is not None:
            params[constraint] = self.draw(CONSTRAINT[constraint])
        if constraint == "json_schema" and self.draw(st.booleans()):
            params["json_style"] = self.draw(st.sampled_from(JSON_STYLES))
        if "max_tokens" in params and self.draw(st.booleans()):
            params["max_tokens"] = self.value()
        stream = self.stream()
        ref = self.add(
            Op.GEN, stream, name=self.draw(names), ordinal=self.ordinal(stream, "g"), **params
        )
        self.values.append(ref)
        self.gens.append(ref)

    def select(self) -> None:
        stream = self.stream()
        unique = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4, unique=True)
        choices: Any = tuple(self.draw(unique))
        if self.draw(st.booleans()):
            choices = self.value()
        method = self.draw(st.sampled_from([{}, *({"method": m} for m in CHOICE_METHODS)]))
        ordinal = self.ordinal(stream, "g")
        ref = self.add(
            Op.SELECT, stream, name=self.draw(names), ordinal=ordinal, choices=choices, **method
        )
        self.gens.append(ref)

    def role(self) -> None:
        stream = self.stream()
        if stream.role is None:
            stream.role = self.draw(st.sampled_from(["system", "user", "assistant"]))
            self.add(Op.ROLE_BEGIN, stream, role=stream.role)
        elif not stream.inherited:
            self.close(stream)

    def close(self, stream: Stream) -> None:
        if stream.role is not None and not stream.inherited:
            self.add(Op.ROLE_END, stream, role=stream.role)
            stream.role = None

    def fork(self) -> None:
        stream = self.stream()
        kind = self.draw(st.sampled_from(["static", "copy", "width", "items"]))
        attrs: dict[str, Any] = {"ordinal": self.ordinal(stream, "f")}
        width: int | None = None
        if kind == "static":
            width = attrs["width"] = self.draw(st.integers(1, 3))
        elif kind == "copy":
            width = attrs["width"] = 1
            attrs["copy"] = True
        else:
            attrs[kind] = self.value()
        ref = self.add(Op.FORK, stream, **attrs)
        family = Family(ref, stream, width, stream.role, copied=kind == "copy")
        self.families.append(family)
        for index in range(width or 0):
            self.open(family, index)

    def open(self, family: Family, index: Any) -> Stream:
        ref = self.add(Op.GET_FORK_ITEM, fork=family.ref, index=index)
        inherited = family.role is not None
        family.branches.append(Stream(ref.node, family.role, inherited))
        return family.branches[-1]

    def branch(self) -> Stream:
        """A branch of a captured fork, in a body."""
        fork = self.draw(st.sampled_from(sorted(self.forks_in)))
        argument = self.add(Op.ARGUMENT, name=fork)
        index = self.add(Op.ARGUMENT, name="item0")
        self.values.append(index)
        family = Family(argument, self.root, None, self.forks_in[fork])
        self.families.append(family)
        return self.open(family, index)

    def join(self) -> None:
        ready = [
            f
            for f in self.families
            if not f.copied
            and not f.parent.closed
            and self.nodes[f.ref.node].op is Op.FORK
            and not (self.depth and f.parent is self.root)
            and not any(b.closed for b in f.branches)
        ]
        if not ready:
            return
        family = self.draw(st.sampled_from(ready))
        self.settle(family)
        attrs: dict[str, Any] = {"mode": self.draw(st.sampled_from(["gather", "append"]))}
        if family.width is not None and attrs["mode"] == "gather" and self.values:
            writers = [self.value() for _ in range(family.width)]
            attrs["vars"] = {self.draw(names): writers}
        ref = self.add(Op.JOIN, family.parent, fork=family.ref, **attrs)
        for name in attrs.get("vars", ()):
            self.values.append(self.add(Op.VARIABLE, name=name, of=ref))

    def settle(self, family: Family) -> None:
        """End the branches of a fork, those of inner forks first."""
        for branch in family.branches:
            for inner in self.families:
                if inner.parent is branch:
                    self.settle(inner)
            if not branch.closed:
                self.close(branch)
                branch.closed = True

    def media(self) -> None:
        data = self.draw(st.one_of(st.binary(max_size=8), any_text))
        self.add(Op.IMAGE, self.stream(), data=data)
        self.add(Op.VIDEO, self.stream(), data=data, num_frames=self.draw(st.integers(1, 9)))

    def call(self) -> None:
        tool = self.draw(st.sampled_from(["search", "find", "save"]))
        effect = {"search": "pure", "find": "repeatable", "save": "irreversible"}[tool]
        self.tools[tool] = effect
        extra: dict[str, Any] = {}
        if self.draw(st.booleans()):
            extra["kwargs"] = {self.draw(names): self.operand()}
        if Op.CALL in self.last and self.draw(st.booleans()):
            extra["after"] = self.last[Op.CALL]
        ref = self.add(
            Op.CALL,
            tool=tool,
            effect=effect,
            args=(self.operand(),),
            ordinal=self.ordinal(self.root, "g"),
            **extra,
        )
        self.last[Op.CALL] = ref
        self.values.append(ref)

    def sub_program(self) -> None:
        if not self.callees:
            return
        callee = self.draw(st.sampled_from(self.callees))
        args = {
            p.name: self.operand()
            for p in callee.params
            if p.default is MISSING or self.draw(st.booleans())
        }
        ordinal = self.ordinal(self.root, "c")
        ref = self.add(Op.SUB_PROGRAM, callee=callee.name, args=args, ordinal=ordinal)
        self.handles.append(ref)
        self.values.append(self.add(Op.VARIABLE, name="", of=ref, field="result"))

    def race(self) -> None:
        own = [f for f in self.families if self.nodes[f.ref.node].op is Op.FORK]
        known = [f for f in own if f.width and not f.copied]
        late = [f for f in own if f.width is None and f.parent is self.root]
        attrs: dict[str, Any] = {}
        if known and self.draw(st.booleans()):
            branches = self.draw(st.sampled_from(known)).branches
            attrs["among"] = tuple(Ref(branch.id) for branch in branches)
            attrs["results"] = tuple({self.draw(names): self.value()} for _ in branches)
        elif late and self.draw(st.booleans()):
            attrs["fork"] = self.draw(st.sampled_from(late)).ref
        elif self.handles:
            attrs["among"] = tuple(dict.fromkeys(self.handles))
        else:
            return
        if self.draw(st.booleans()):
            attrs["reads"] = (self.value(),)
        ordinal = self.ordinal(self.root, "g")
        self.values.append(self.add(Op.FIRST, count=1, ordinal=ordinal, **attrs))

    def prefix_hint(self) -> None:
        self.add(Op.PREFIX_HINT, self.stream(), readers=self.draw(st.integers(0, 9)), tokens=3)

    def branch_merge(self) -> None:
        cond = self.value()
        branch = self.add(Op.BRANCH, cond=cond)
        stream = self.stream()
        outer = self.control
        for arm in (True, False):
            self.control = (branch.node, arm)
            self.add(Op.CONSTANT_TEXT, stream, text=str(arm))
        self.control = outer
        arms = tuple((branch, arm) for arm in (True, False))
        merged = self.add(Op.MERGE, values=(self.operand(), cond), tokens=arms)
        self.values.append(merged)

    def loop(self) -> None:
        open_families = [f for f in self.families if not any(b.closed for b in f.branches)]
        runtime = [f for f in open_families if f.width is None]
        captures: dict[str, Ref] = {"outer": self.value()}
        over: list[Any] = [self.value()]
        roles: dict[str, str | None] = {}
        if runtime:
            family = self.draw(st.sampled_from(runtime))
            over.insert(0, family.ref)
            captures["fork"] = family.ref
            roles["fork"] = family.role
        elif self.depth >= 2:
            return
        items = [f"item{i}" for i in range(len(over))]
        index = self.draw(st.sampled_from([None, "step"]))
        params = [Param(n) for n in [*items, *([index] if index else []), *captures]]
        maker = GraphMaker(self.draw, f"{self.name}.loop", params, self.callees, self.depth + 1)
        maker.forks_in = roles
        body = maker.finish(self.draw(st.integers(0, 4)))
        self.tools.update(maker.tools)
        after = {"after": self.last[Op.LOOP]} if Op.LOOP in self.last else {}
        ref = self.add(
            Op.LOOP,
            body=body,
            over=tuple(over),
            item_params=tuple(items),
            index_param=index,
            captures=captures,
            **after,
        )
        self.last[Op.LOOP] = ref
        self.values.append(ref)

    # -- the whole

    def finish(self, steps: int) -> Graph:
        actions: list[Callable[[], None]] = [
            self.constant_text,
            self.argument,
            self.variable,
            self.expr,
            *[self.gen] * 3,
            self.select,
            self.role,
            *[self.fork] * 2,
            *[self.join] * 3,
            self.media,
            self.call,
            self.sub_program,
            self.race,
            self.prefix_hint,
            self.branch_merge,
            *[self.loop] * 3,
        ]
        if self.depth and not self.forks_in:
            actions = [self.call, self.sub_program]
        for _ in range(steps):
            self.draw(st.sampled_from(actions))()
        for stream in [self.root, *(b for f in self.families for b in f.branches)]:
            if not stream.closed:
                self.close(stream)
        named = {} if self.depth else {f"v{ref.node}": ref for ref in self.gens[:3]}
        self.add(Op.RETURN, value=self.operand(), vars=named)
        source = self.draw(sources)
        return Graph(self.name, tuple(self.params), tuple(self.nodes), source)


@st.composite
def _parameters(draw: Any) -> list[Param]:
    chosen = draw(st.lists(names, max_size=3, unique=True))
    keyword_from = draw(st.integers(0, len(chosen)))
    return [
        Param(
            name,
            draw(annotations),
            draw(st.one_of(st.just(MISSING), constants)),
            keyword_only=index >= keyword_from,
        )
        for index, name in enumerate(chosen)
    ]


@st.composite
def programs(draw: Any, max_steps: int = 24) -> Program:
    """Valid programs: 1 to 3 graphs, loops two deep, any constants."""
    graphs: list[Graph] = []
    tools: dict[str, str] = {}
    for name in draw(st.sampled_from([["main"], ["sub", "main"], ["sub", "odd <name>", "main"]])):
        maker = GraphMaker(draw, name, draw(_parameters()), list(graphs))
        graphs.append(maker.finish(draw(st.integers(0, max_steps))))
        tools.update(maker.tools)
    return Program(
        main="main",
        graphs={graph.name: graph for graph in graphs},
        outputs=draw(st.none() | st.lists(names, max_size=2).map(tuple)),
        tools=tools,
        notes=draw(st.dictionaries(any_text, constants, max_size=2)),
    )
