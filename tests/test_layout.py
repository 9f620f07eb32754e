"""The shape of the repository: rooms, the public face, light imports, file lengths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sgc

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("ir", "runtime", "kernels")
MAX_LINES = 400

PUBLIC = [
    "ArtifactError",
    "BackendError",
    "CompileError",
    "CompiledProgram",
    "Event",
    "GenerationError",
    "InputError",
    "ModelError",
    "Program",
    "SamplingParams",
    "SgcError",
    "ToolError",
    "assistant",
    "best_of",
    "call",
    "first",
    "function",
    "gen",
    "image",
    "load",
    "map",
    "reduce",
    "retry_until",
    "select",
    "set_default_backend",
    "system",
    "tool",
    "user",
    "video",
    "vote",
]


def code_files() -> list[Path]:
    roots = [ROOT / "sgc", *(ROOT / room / f"sgc_{room}" for room in ROOMS)]
    return sorted(path for root in roots for path in root.rglob("*.py"))


def python(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_folders_and_not_packages(room: str) -> None:
    """`kernels/__init__.py` would shadow the package `kernels` that transformers imports."""
    assert not (ROOT / room / "__init__.py").exists()
    assert (ROOT / room / f"sgc_{room}" / "__init__.py").exists()


def test_the_public_face() -> None:
    assert sgc.__all__ == PUBLIC == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(sgc, name).__name__ == name
    assert set(PUBLIC) <= set(dir(sgc))
    with pytest.raises(AttributeError, match="nope"):
        _ = sgc.nope


def test_import_is_light() -> None:
    """Fresh process: `import sgc` in less than 0.3 s of the processor, without torch and what
    drags it in; the best of five, since others may use the machine too."""
    probe = (
        "import sys, time; begin = time.process_time(); import sgc; "
        "took = time.process_time() - begin; "
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic', 'networkx', 'lark', 'rich'}; "
        "print(took, *sorted(heavy & set(sys.modules)))"
    )
    runs = [python("-c", probe) for _ in range(5)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    fields = [run.stdout.split() for run in runs]
    assert all(len(found) == 1 for found in fields), fields
    assert min(float(found[0]) for found in fields) < 0.3


def test_running_a_program_on_the_scripted_backend_needs_no_torch() -> None:
    probe = (
        "import sys, sgc\n"
        "from sgc.testing import ScriptedBackend\n"
        "f = sgc.function(lambda s: s.extend('a' + sgc.gen('v')))\n"
        "state = f.run(backend=ScriptedBackend(lambda p, q: ' x'), mode='interpreted')\n"
        "print(state['v'], 'torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert python("-c", probe).stdout.split() == ["x", "False", "False"]


def test_a_bare_clone_works_without_an_install(tmp_path: Path) -> None:
    """The source roots are found although only the top folder is on the path."""
    probe = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import importlib.util as u\n"
        "assert u.find_spec('sgc_ir') is None\n"
        "import sgc, sgc_runtime, sgc_kernels\n"
        "print(sgc.gen('v').name)"
    )
    run = python("-S", "-c", probe, cwd=tmp_path)
    assert run.stdout.strip() == "v", run.stderr


def test_package_init_files_hold_a_docstring_only() -> None:
    for path in code_files():
        if path.name == "__init__.py" and path != ROOT / "sgc" / "__init__.py":
            body = path.read_text().strip()
            assert body.startswith('"""'), path
            assert body.endswith('"""'), path
            assert body.count('"""') == 2, path


def test_files_are_short_and_say_what_they_are() -> None:
    long = [p for p in code_files() if len(p.read_text().splitlines()) > MAX_LINES]
    silent = [p for p in code_files() if not p.read_text().startswith(('"""', 'r"""'))]
    assert long == []
    assert silent == []


def test_imports_are_absolute() -> None:
    for path in code_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not line.lstrip().startswith("from ."), f"{path}:{number}"
