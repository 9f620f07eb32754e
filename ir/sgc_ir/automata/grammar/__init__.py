"""Grammars in lark's syntax, GBNF and EBNF as expressions over bytes."""
