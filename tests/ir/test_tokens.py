"""Control tokens against all assignments of truths to the branches."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.graph import ROOT_STREAM, Node, Ref, Source, Token
from sgc_ir.ops import Op
from sgc_ir.tokens import Tokens

_MAX_BRANCHES = 7


class Flow:
    """Random nested branches: paths that part and meet, as a tracer leaves them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.nodes: list[Node] = []
        self.branches = 0
        self.known: list[Token | None] = [None]

    def add(self, op: Op, control: Token | None, **attrs: object) -> int:
        self.nodes.append(Node(len(self.nodes), op, ROOT_STREAM, attrs, Source(), control))
        return len(self.nodes) - 1

    def part(self, token: Token | None, depth: int) -> list[Token]:
        """A construct under a token; the tokens of its paths, some of which may be dropped."""
        self.branches += 1
        branch = self.add(Op.BRANCH, token, cond=True)
        paths: list[Token] = []
        for arm in (True, False):
            self.known.append((branch, arm))
            is_nested = depth > 0 and self.branches < _MAX_BRANCHES and self.draw(st.booleans())
            inner = self.part((branch, arm), depth - 1) if is_nested else [(branch, arm)]
            if len(inner) > 1 and self.draw(st.booleans()):
                inner = [self.meet(inner)]
            paths += inner
        kept = [path for path in paths if self.draw(st.integers(0, 4))]
        return kept or paths[:1]

    def meet(self, paths: list[Token]) -> Token:
        tokens = tuple((Ref(at), arm) for at, arm in paths)
        merge = self.add(Op.MERGE, None, values=(), tokens=tokens)
        self.known.append((merge, True))
        return merge, True


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    flow = Flow(draw)
    token: Token | None = None
    for _ in range(draw(st.integers(1, 3))):
        if flow.branches < _MAX_BRANCHES:
            token = flow.meet(flow.part(token, 3))
    return flow


def arrives(nodes: list[Node], token: Token | None, truths: dict[int, bool]) -> bool:
    """Whether a token arrives when the branches go these ways."""
    if token is None:
        return True
    node = nodes[token[0]]
    if node.op is Op.MERGE:
        return any(arrives(nodes, (ref.node, arm), truths) for ref, arm in node.attrs["tokens"])
    return truths[node.id] == token[1] and arrives(nodes, node.control, truths)


@given(flows())
def test_covers_and_exclusive_say_what_every_run_does(flow: Flow) -> None:
    tokens = Tokens(flow.nodes)
    branches = [node.id for node in flow.nodes if node.op is Op.BRANCH]
    runs = []
    for ways in product((True, False), repeat=len(branches)):
        truths = dict(zip(branches, ways, strict=True))
        runs.append([arrives(flow.nodes, token, truths) for token in flow.known])
    for i, one in enumerate(flow.known):
        for j, other in enumerate(flow.known):
            a, b = tokens.of(one), tokens.of(other)
            assert tokens.covers(a, b) == all(run[i] or not run[j] for run in runs)
            assert tokens.exclusive(a, b) == all(not (run[i] and run[j]) for run in runs)


def test_both_arms_of_a_branch_are_its_own_token() -> None:
    nodes = [
        Node(0, Op.BRANCH, ROOT_STREAM, {"cond": True}, Source()),
        Node(1, Op.BRANCH, ROOT_STREAM, {"cond": True}, Source(), (0, False)),
    ]
    tokens = Tokens(nodes)
    arms = [tokens.of((1, True)), tokens.of((1, False))]
    assert tokens.join(arms) == frozenset([(0, False)])
    assert tokens.join([*arms, tokens.of((0, True))]) is None
