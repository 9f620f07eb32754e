"""Finds the program that an argument of the command line names: PROGRAM.py[:function] or G.sgc."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sgc.cli.failure import CommandError, one_line
from sgc_ir.errors import SgcError

if TYPE_CHECKING:
    from sgc.program import Program


def split_name(argument: str) -> tuple[Path, str | None]:
    """Path and function name of `PROGRAM.py[:function]`."""
    head, colon, tail = argument.rpartition(":")
    if colon and tail.isidentifier() and not Path(argument).exists():
        return Path(head), tail
    return Path(argument), None


def is_source(argument: str) -> bool:
    """Whether the argument names a Python file and not an artefact."""
    return split_name(argument)[0].suffix == ".py"


def check_file(path: Path, wanted: str = "a program file or a .sgc file") -> None:
    """Refuse what is no file. Raises CommandError that advises to give what is `wanted`."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder", f"give {wanted}")
    if not path.exists():
        raise CommandError(f"there is no file {path}", f"give {wanted}")


def artifact_path(argument: str) -> Path:
    """The path of an argument that is no Python file. Raises CommandError."""
    path, function = split_name(argument)
    check_file(path)
    if function is not None:
        raise CommandError(f"{path} is one program", f"drop the :{function}")
    return path


def load_program(argument: str) -> Program:
    """The program of `PROGRAM.py[:function]`.

    Without a function: the program named like the file, else the only one that the file defines.
    Raises CommandError for a file that cannot be run or a program that is not in it.
    """
    path, name = split_name(argument)
    check_file(path)
    module = load_module(path)
    found = _programs(module)
    if name is not None:
        if name not in found:
            raise CommandError(f"{path} has no program {name!r}", _advice(found))
        return found[name]
    if path.stem in found:
        return found[path.stem]
    own = [n for n, program in found.items() if Path(program.spec.file).resolve() == path.resolve()]
    if len(own) == 1:
        return found[own[0]]
    count = "several programs" if own else "no program of its own" if found else "no program"
    raise CommandError(f"{path} has {count}", _advice(found, path))


def load_module(path: Path) -> ModuleType:
    """Run a Python file as a module; its folder is searched for its imports.

    Raises CommandError for a file that cannot be run, and what sgc says of a program in it.
    """
    check_file(path, "a Python file")
    path = path.resolve()
    packaged = _packaged(path)
    if packaged is not None:
        return packaged
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is not a Python file", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SgcError | KeyboardInterrupt):
            raise
        raise CommandError(_broken(path, error), "mend the file") from error
    return module


def _packaged(path: Path) -> ModuleType | None:
    # A file of a package that has been imported is not run twice, and its folder is not searched:
    # names in it may be those of other packages.
    modules = [module for name, module in list(sys.modules.items()) if "." in name]
    return next((m for m in modules if getattr(m, "__file__", None) == str(path)), None)


def _module_name(path: Path) -> str:
    # The name by which other files import this one, so that it is not run twice; a file that is
    # named like another module gets a name of its own.
    try:
        spec = importlib.util.find_spec(path.stem)
    except (ImportError, ValueError):
        spec = None
    found = spec.origin if spec is not None else None
    return path.stem if found == str(path) else f"sgc_file_{path.stem}"


def _programs(module: ModuleType) -> dict[str, Program]:
    from sgc.program import Program

    return {name: value for name, value in vars(module).items() if isinstance(value, Program)}


def _advice(found: dict[str, Program], path: Path | None = None) -> str:
    if not found:
        return "decorate a function with @sgc.function"
    names = ", ".join(found)
    return f"name one of them as {path}:NAME: {names}" if path else f"it has {names}"


def _broken(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename or path}:{error.lineno or 0}: {error.msg}"
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not UTF-8 text"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return one_line(f"{place}: {type(error).__name__}: {error}")
