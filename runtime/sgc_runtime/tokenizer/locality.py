"""Finds out from a chat template's source whether each turn's text depends on that turn alone.

Proven, not tried: the template must be one loop over the messages whose body looks at its own
message, at the first messages (by constant index) and at its index (compared to a constant or
modulo one) only, and nothing may follow the loop but the generation prompt. Whatever is not known
to be harmless (namespaces, macros, `loop.last`, the time, chance) makes the answer None.
"""

from __future__ import annotations

from math import lcm
from typing import Any

from jinja2 import nodes

from sgc_runtime.executor.rendering import Splice

_GENERATION = "add_generation_prompt"
_PURE_CALLS = ("raise_exception",)
_REFUSED = (
    nodes.Macro,
    nodes.CallBlock,
    nodes.Block,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Extends,
    nodes.NSRef,
    nodes.AssignBlock,
    nodes.Break,
    nodes.With,
    nodes.ExprStmt,
    nodes.FilterBlock,
)


class _NotLocal(Exception):
    pass


def splice_of(template: nodes.Template) -> Splice | None:
    """What may be left out of the messages that `template` sees, or None when that is not known."""
    proof = _Proof()
    try:
        proof.statements(template.body)
    except _NotLocal:
        return None
    if proof.num_loops != 1:
        return None
    return Splice(proof.offset + proof.head, proof.period)


class _Proof:
    """One walk over a template.

    Attributes:
        head: messages, counted behind `offset`, beyond which a body treats all alike.
        offset: messages that a slice leaves out of the loop.
        period: what the loop's index is taken modulo of.
    """

    def __init__(self) -> None:
        self.head, self.offset, self.period = 1, 0, 1
        self.num_loops = 0
        self._lists = {"messages"}  # names of the messages
        self._others: set[str] = set()  # names that were given something else
        self._in_body = False  # directly in the loop over the messages

    def statements(self, body: list[nodes.Node]) -> None:
        for node in body:
            if self.num_loops and not self._in_body:
                self._behind_the_loop(node)
            else:
                self._statement(node)

    def _behind_the_loop(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Output):
            if all(isinstance(n, nodes.TemplateData) and not n.data for n in node.nodes):
                return
        elif isinstance(node, nodes.If) and not node.else_ and not node.elif_:
            test = node.test
            left = test.left if isinstance(test, nodes.And) else test
            if isinstance(left, nodes.Name) and left.name == _GENERATION:
                if isinstance(test, nodes.And):
                    self._expression(test.right)
                self._harmless(node.body)
                return
        raise _NotLocal

    def _harmless(self, body: list[nodes.Node]) -> None:
        for node in body:
            if not isinstance(node, nodes.Output):
                raise _NotLocal
            self._children(node)

    def _statement(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.If):
            self._if(node)
        elif isinstance(node, nodes.For):
            self._for(node)
        elif isinstance(node, nodes.Assign):
            self._assign(node)
        elif isinstance(node, nodes.Scope):
            self.statements(node.body)
        elif isinstance(node, nodes.Continue):
            if not self._in_body:
                raise _NotLocal
        elif isinstance(node, nodes.Output):
            self._children(node)
        else:
            raise _NotLocal

    def _if(self, node: nodes.If) -> None:
        self._expression(node.test)
        before = self.num_loops
        for body in (node.body, *[e.body for e in node.elif_], node.else_):
            self.statements(body)
        for other in node.elif_:
            self._expression(other.test)
        if self.num_loops != before:  # which messages are walked would depend on the test
            raise _NotLocal

    def _for(self, node: nodes.For) -> None:
        if node.test is not None or node.else_ or node.recursive:
            raise _NotLocal
        if not self._is_messages(node.iter):
            self._inner_for(node)
            return
        if self._in_body or not isinstance(node.target, nodes.Name):
            raise _NotLocal
        self._name_other(node.target.name)
        self._in_body = True
        self.statements(node.body)
        self._in_body = False
        self.num_loops += 1

    def _inner_for(self, node: nodes.For) -> None:
        """A loop over something else, for example a message's parts; its `loop` is its own."""
        self._expression(node.iter)
        if any(node.find_all((nodes.For,))) or not isinstance(node.target, nodes.Name):
            raise _NotLocal
        self._name_other(node.target.name)
        outer, self._in_body = self._in_body, False
        try:
            for inner in node.body:
                self._children_of_inner(inner)
        finally:
            self._in_body = outer

    def _children_of_inner(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Assign):
            self._assign(node)
        else:
            self._expression(node)

    def _assign(self, node: nodes.Assign) -> None:
        if not isinstance(node.target, nodes.Name):
            raise _NotLocal
        name = node.target.name
        if self._is_messages(node.node):
            if name in self._others or self._in_body:
                raise _NotLocal
            self._lists.add(name)
            return
        self._expression(node.node)
        self._name_other(name)

    def _name_other(self, name: str) -> None:
        if name in self._lists or name in ("loop", _GENERATION):
            raise _NotLocal
        self._others.add(name)

    # -- expressions

    def _is_messages(self, node: nodes.Node) -> bool:
        """Whether `node` is the list of messages, perhaps without its first ones."""
        if isinstance(node, nodes.Name):
            return node.name in self._lists
        if not isinstance(node, nodes.Getitem) or not isinstance(node.arg, nodes.Slice):
            return False
        if not isinstance(node.node, nodes.Name) or node.node.name not in self._lists:
            return False
        start = _number(node.arg.start)
        if start is None or node.arg.stop is not None or node.arg.step is not None:
            raise _NotLocal
        self.offset += start  # aliases may be cut again: the sum is an upper bound
        return True

    def _expression(self, node: nodes.Node) -> None:
        if isinstance(node, _REFUSED):
            raise _NotLocal
        if isinstance(node, nodes.Name):
            self._name(node)
        elif isinstance(node, nodes.Getitem) and self._is_first_message(node):
            return
        elif self._in_body and self._is_index(node):
            return
        elif isinstance(node, nodes.Call):
            self._call(node)
        elif isinstance(node, nodes.Filter) and node.name == "random":
            raise _NotLocal
        else:
            self._children(node)

    def _children(self, node: nodes.Node) -> None:
        for child in node.iter_child_nodes():
            self._expression(child)

    def _name(self, node: nodes.Name) -> None:
        if node.name in self._lists or node.name == _GENERATION or node.ctx != "load":
            raise _NotLocal
        if node.name == "loop" and self._in_body:
            raise _NotLocal  # but for what `_is_index` takes

    def _is_first_message(self, node: nodes.Getitem) -> bool:
        """Whether `node` is a message at a constant place from the beginning."""
        if not isinstance(node.node, nodes.Name) or node.node.name not in self._lists:
            return False
        at = _number(node.arg)
        if at is None:
            raise _NotLocal
        self.head = max(self.head, at + 1)
        return True

    def _is_index(self, node: nodes.Node) -> bool:
        """Whether `node` looks at the loop's index in a way that tells later turns apart by
        their place modulo a constant only."""
        if _loop_field(node) == "first":
            return True
        if isinstance(node, nodes.Mod) and _loop_field(node.left) in ("index", "index0"):
            modulus = _number(node.right)
            if not modulus:
                raise _NotLocal
            self.period = lcm(self.period, modulus)
            return True
        if isinstance(node, nodes.Compare) and _loop_field(node.expr) in ("index", "index0"):
            constants = [_number(operand.expr) for operand in node.ops]
            for constant in constants:
                if constant is None:
                    raise _NotLocal
                self.head = max(self.head, constant + 2)
            return True
        return False

    def _call(self, node: nodes.Call) -> None:
        called = node.node
        if isinstance(called, nodes.Name):
            if called.name not in _PURE_CALLS or called.name in self._others:
                raise _NotLocal
        elif isinstance(called, nodes.Getattr):  # a method of a text; the sandbox mutates nothing
            self._expression(called.node)
        else:
            raise _NotLocal
        for child in node.iter_child_nodes(exclude=("node",)):
            self._expression(child)


def _loop_field(node: Any) -> str | None:
    """`loop.FIELD` or `loop["FIELD"]`."""
    if not isinstance(node, nodes.Getattr | nodes.Getitem):
        return None
    if not isinstance(node.node, nodes.Name) or node.node.name != "loop":
        return None
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node.arg, nodes.Const) else None


def _number(node: Any) -> int | None:
    """The whole number, 0 or more, that `node` is, or None."""
    value = node.value if isinstance(node, nodes.Const) else None
    return value if type(value) is int and value >= 0 else None
