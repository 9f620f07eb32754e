"""The evaluation suites by name; the module of a suite is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from sgc.eval.suite import Suite
from sgc_ir.errors import InputError

ALL = "all"

# name -> module below sgc.eval.suites, in the order of reports
MODULES: dict[str, str] = {
    "mmlu": "mmlu",
    "hellaswag": "hellaswag",
    "gsm8k": "gsm8k",
    "react": "react",
    "react-live": "react",
    "generative-agents": "generative_agents",
    "tree-of-thought": "tree_of_thought",
    "tree-of-thought-3": "tree_of_thought",
    "game24": "game24",
    "skeleton-of-thought": "skeleton_of_thought",
    "llm-judge": "llm_judge",
    "json": "json_objects",
    "json-city": "json_objects",
    "json-fields": "json_objects",
    "chat-short": "chat",
    "chat-long": "chat",
    "rag": "rag",
    "long-doc": "long_doc",
}


def find_suite(name: str) -> Suite:
    """The suite `name`. Raises InputError for a name that none has."""
    if name not in MODULES:
        raise InputError(f"there is no suite {name}; the suites are {', '.join(MODULES)}, {ALL}")
    module = import_module(_module_name(name))
    suites: tuple[Suite, ...] = getattr(module, "SUITES", None) or (module.SUITE,)
    return next(suite for suite in suites if suite.name == name)


def find_suites(names: Sequence[str]) -> list[Suite]:
    """The suites of these names, each once, in the order given; `all` is every one.

    Raises InputError for a name that none has.
    """
    wanted = [known for name in names for known in (MODULES if name == ALL else (name,))]
    return [find_suite(name) for name in dict.fromkeys(wanted)]


def program_of(suite: Suite) -> str:
    """The program of a suite as `sgc run` takes it: `FILE.py:FUNCTION`."""
    module = import_module(_module_name(suite.name))
    return f"{Path(str(module.__file__))}:{suite.program}"


def _module_name(name: str) -> str:
    return f"sgc.eval.suites.{MODULES[name]}"
