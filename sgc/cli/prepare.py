"""`sgc compile --tokenizer`: constraints made ahead of a run, and held against their budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sgc.cli.failure import say
from sgc_ir.errors import CompileError
from sgc_ir.graph import Node, is_constant
from sgc_ir.graph import Program as Graphs
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES, SamplingParams, normalize
from sgc_kernels.cache_dir import cache_dir

if TYPE_CHECKING:
    from sgc_runtime.constraints.of_tokenizer import Prepared


def prepare(program: Graphs, model: str, quiet: bool) -> None:
    """Make the automata and first masks of all constraints that stand in `program`, and keep them
    on disk for runs of `model`; one line a gen on standard error.

    Args:
        model: named model, Hugging Face directory, `.gguf` file or hub id.

    Raises:
        CompileError: no text of a gen's dtype or schema is as short as its `max_tokens`.
        ModelError: the tokenizer cannot be loaded.
    """
    found = list(_constrained(program))
    if not found:
        if not quiet:
            say("sgc: no gen has a constraint that is known here: there are no masks to make")
        return
    from sgc_runtime.constraints.of_tokenizer import Preparation
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    preparation = Preparation(load_tokenizer(resolve(model)))
    for node, params in found:
        prepared = preparation.prepare(params, max(params.max_tokens, 1024))
        _check_budget(node, params, prepared, None if quiet else say)
        if not quiet:
            say(f"sgc: {_name(node)}: {_line(params, prepared)}")


def _constrained(program: Graphs) -> Iterator[tuple[Node, SamplingParams]]:
    """The gens whose constraints are constants, in program order."""
    for node in program.walk():
        if node.op is not Op.GEN:
            continue
        values = {k: v for k, v in node.attrs.items() if k in PARAM_NAMES and is_constant(v)}
        params = SamplingParams(**normalize(values))
        if params.binds_text:
            yield node, params


def _check_budget(
    node: Node, params: SamplingParams, prepared: Prepared, warn: Callable[[str], None] | None
) -> None:
    needed, given = prepared.fewest.tokens, params.max_tokens
    if needed <= given:
        return
    own = isinstance(node.attrs.get("max_tokens"), int)
    said = f"max_tokens={given}" if own else f"max_tokens is left out, and its default {given}"
    reason = f"{said} is too little: its {params.constraint} needs {_at_least(prepared)}"
    if own and params.reads_value:
        raise CompileError(f"gen {node.attrs['name']!r}: {reason}", *_place(node))
    if warn is not None:
        warn(f"sgc: warning: {_name(node)}: {reason}; its text will be cut short")


def _line(params: SamplingParams, prepared: Prepared) -> str:
    masks = f"masks of {prepared.states} states are kept"
    if not prepared.kept:
        masks = f"no masks are kept, {cache_dir()} cannot be written; set SGC_CACHE"
    return f"{params.constraint}, {_at_least(prepared)}; {masks} ({prepared.seconds:.2f} s)"


def _at_least(prepared: Prepared) -> str:
    count = prepared.fewest.tokens
    return f"at least {count} token{'' if count == 1 else 's'}"


def _name(node: Node) -> str:
    return f"{node.source}: gen {node.attrs['name']!r}"


def _place(node: Node) -> tuple[str | None, int | None]:
    return node.source.file or None, node.source.line or None
