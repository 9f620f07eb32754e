"""The closed table of node kinds: builder, verifier, printer, codec and executor all read it.

| op           | runs in stream | value                                                         |
|--------------|----------------|---------------------------------------------------------------|
| ConstantText | yes            | the text                                                      |
| Argument     | if `append`    | parameter `name` of the graph (data, or a captured fork)      |
| Variable     | if `append`    | variable `name` of `of`; with `field` its meta, or a text     |
| Expr         | if `append`    | `fn(*args, **kwargs)`, `fn` from `sgc_ir.expr.FUNCTIONS`      |
| Gen, Select  | yes            | the generated value (list for n > 1) / the choice             |
| Fork         | yes            | a family of `width` branches, or one a member of `items`      |
| GetForkItem  | opens a stream | branch `index` of `fork`, itself a stream                     |
| Join         | yes            | "gather": lists of the branches' variables; "append": texts   |
| RoleBegin/End| yes            | none                                                          |
| Image, Video | yes            | none                                                          |
| Call         | no             | result of a tool, plain JSON data                             |
| SubProgram   | no             | handle of a program that runs in a stream of its own          |
| First        | no             | list of what the first `count` of several streams give        |
| PrefixHint   | yes            | none; tells the backend what follows                          |
| Branch       | no             | truth of `cond`; with `on`, whether it has failed             |
| Merge        | no             | of `values` the one whose token arrived                       |
| Loop         | if body does   | list with one value a pass                                    |
| Return       | no             | the program's value, and its variables                        |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sgc_ir.params import PARAM_NAMES


class Op(StrEnum):
    CONSTANT_TEXT = "ConstantText"
    ARGUMENT = "Argument"
    VARIABLE = "Variable"
    EXPR = "Expr"
    GEN = "Gen"
    SELECT = "Select"
    FORK = "Fork"
    GET_FORK_ITEM = "GetForkItem"
    JOIN = "Join"
    ROLE_BEGIN = "RoleBegin"
    ROLE_END = "RoleEnd"
    IMAGE = "Image"
    VIDEO = "Video"
    CALL = "Call"
    SUB_PROGRAM = "SubProgram"
    FIRST = "First"
    PREFIX_HINT = "PrefixHint"
    BRANCH = "Branch"
    MERGE = "Merge"
    LOOP = "Loop"
    RETURN = "Return"


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Row of the table.

    Attributes:
        required: attributes that must be there.
        optional: further attributes that may be there.
        in_stream: the node takes its turn in its stream.
        path_kind: letter of its path component (`g`, `f`, `c`), or "" when it has no ordinal.
        owns_body: the node owns a body graph.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    in_stream: bool = False
    path_kind: str = ""
    owns_body: bool = False


# Gen's sampling arguments are attributes of the node itself, set ones only.
_GEN_PARAMS = tuple(n for n in PARAM_NAMES if n not in ("choices", "method"))

# Attributes, beyond the obvious:
#   name      variable that a Gen or Select writes ("_1" ... when unnamed)
#   ordinal   position in `g`, `f` or `c` of the node's path: an int, or a Ref where a run-time
#             width decides
#   of        Variable: the node that wrote it (Gen, Select, Expr, Argument, Call, Join ...), or a
#             run-time stream or handle (GetForkItem, SubProgram, Argument) that is asked by name;
#             left out where "stream_text" or "stream_messages" read the stream of the graph itself
#   field     Variable: "value" (default) | "meta" | "text" | "messages" | "result" (a handle's
#             return value) | "item" (a branch's item) | "stream_text" (text of a stream at this
#             point; ordered in the stream) | "stream_messages" | "output" (of a Loop: what slot
#             `name` of `carried` is after the last pass) | "kind" (of a Loop: how the last pass
#             ended, see Return) | "error" (of a Branch on "failed": facts of the error that it
#             took, see `sgc_ir.taken_error`)
#   items     Fork: the list of fork_each (then `width` is absent)
#   copy      Fork: made by s.copy()
#   more      GetForkItem: further Forks; `index`, which the run decides, counts through the
#             branches of `fork` and then through theirs
#   vars      Join, Return: variable name -> operand
#   over      Loop: tuple of operands that are walked in step (lists, or Forks)
#   item_params, index_param, captures   Loop: parameters of the body for the item of each `over`
#             (a branch index for a Fork), the pass number, and outer values (param -> Ref)
#   after     node or nodes that must have begun, or be dead, before: program order of tools and of
#             loops over one Fork
#   values    Merge: one operand a token, or () where it only joins tokens
#   tokens    Merge: pairs (Ref of a Branch or Merge, arm); it arrives when one of them does
#   on        Branch: "failed": true when the node `cond` failed with an error of which a class is
#             named in `catch`; the error is then taken, and no longer one of the row
#   catch     Branch: names of built-in exceptions and of errors of sgc
#   count     First: how many are chosen; the others are cancelled
#   among     First: the branches or handles among which, or one list of handles
#   results   First: for each branch of `among` variable -> the node that wrote it: what it gives
#   reads     First: what was read of the branches before, which the choice waits for
#   fork      First: instead of `among`, all branches of a fork of run-time width
#   max       Loop: largest number of passes; the shortest of `over` and `max` decides
#   carried   Loop: parameter of the body -> operand of the first pass; the `vars` of the body's
#             Return give those of the next pass
#   kind      Return of a body: 0 the loop goes on, 1 it was left by break, 2 by return
OPS: dict[Op, OpSpec] = {
    Op.CONSTANT_TEXT: OpSpec(("text",), in_stream=True),
    Op.ARGUMENT: OpSpec(("name",), ("append",)),
    Op.VARIABLE: OpSpec(("name",), ("of", "field", "append")),
    Op.EXPR: OpSpec(("fn", "args"), ("kwargs", "append")),
    Op.GEN: OpSpec(("name", "ordinal"), _GEN_PARAMS, in_stream=True, path_kind="g"),
    Op.SELECT: OpSpec(("name", "ordinal", "choices"), ("method",), in_stream=True, path_kind="g"),
    Op.FORK: OpSpec(("ordinal",), ("width", "items", "copy"), in_stream=True, path_kind="f"),
    Op.GET_FORK_ITEM: OpSpec(("fork", "index"), ("more",)),
    Op.JOIN: OpSpec(("fork", "mode"), ("vars",), in_stream=True),
    Op.ROLE_BEGIN: OpSpec(("role",), in_stream=True),
    Op.ROLE_END: OpSpec(("role",), in_stream=True),
    Op.IMAGE: OpSpec(("data",), in_stream=True),
    Op.VIDEO: OpSpec(("data", "num_frames"), in_stream=True),
    Op.CALL: OpSpec(("tool", "effect", "args", "ordinal"), ("kwargs", "after"), path_kind="g"),
    Op.SUB_PROGRAM: OpSpec(("callee", "args", "ordinal"), path_kind="c"),
    Op.FIRST: OpSpec(("count", "ordinal"), ("among", "results", "fork", "reads"), path_kind="g"),
    Op.PREFIX_HINT: OpSpec(("readers",), ("tokens",), in_stream=True),
    Op.BRANCH: OpSpec(("cond",), ("on", "catch")),
    Op.MERGE: OpSpec(("values", "tokens")),
    Op.LOOP: OpSpec(
        ("over", "item_params", "index_param", "captures"),
        ("after", "max", "carried"),
        owns_body=True,
    ),
    Op.RETURN: OpSpec(("value", "vars"), ("kind",)),
}

# attribute -> position in the written forms, per op
ATTR_ORDER: dict[Op, dict[str, int]] = {
    op: {name: i for i, name in enumerate(spec.required + spec.optional)}
    for op, spec in OPS.items()
}
