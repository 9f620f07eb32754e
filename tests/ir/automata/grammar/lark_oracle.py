"""Lark's Earley parser with the lexer `dynamic_complete`, asked whether it takes a text."""

from __future__ import annotations

from collections.abc import Callable

import lark


def recogniser(grammar: str) -> Callable[[str], bool]:
    """Whether lark's parser of `grammar` takes a text; raises what lark raises for the grammar."""
    parser = lark.Lark(
        grammar, parser="earley", lexer="dynamic_complete", ambiguity="forest", import_paths=[]
    )

    def takes(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        except RuntimeError as error:
            # Lark found the start rule to be complete in two ways, which it calls a bug of its own.
            if "multiple start symbol items" not in str(error):
                raise
        return True

    return takes
