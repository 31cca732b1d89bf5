"""Prints the test files of what a change touches: `python -m tests.changed [BASE]`, for `make test-changed`.

A change is what differs from BASE, origin/main unless given, in commits and in the working tree. A test file belongs to it if
it changed, if it mirrors a changed module, or if it imports a changed file: directly, through another test file, or through the
module of the program that imports the changed one. Tests that reach a module through the command line alone are in `make test`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PROGRAM = "renderers/"
SHARED = "tests/conftest.py"  # every test imports it, so that it selects none


def find_changed_files(base: str) -> list[str]:
    """Return the paths of the files that differ from a commit, those that Git does not track yet among them."""
    commands = (("diff", "--name-only", "--merge-base", base), ("ls-files", "--others", "--exclude-standard"))
    return sorted({path for command in commands for path in _git(*command).splitlines()})


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(PROJECT), *words], capture_output=True, text=True, check=True).stdout


def module_name(path: str) -> str:
    """Return the name of the module of a Python file, such as `allotment.cli.main` or `tests.conftest`."""
    return path.removeprefix(PROGRAM).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def read_imports() -> Mapping[str, frozenset[str]]:
    """Return the names that each Python file of the program and of the tests imports, by path; a name may be in a module."""
    paths = [path for folder in ("renderers/allotment", "tests") for path in sorted((PROJECT / folder).rglob("*.py"))]
    return {path.relative_to(PROJECT).as_posix(): frozenset(_imports(path)) for path in paths}


def _imports(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_importers(paths: Iterable[str], *, below: str) -> set[str]:
    """Return the files below a folder that import one of these files."""
    modules = {module_name(path) for path in paths}
    return {path for path, imports in read_imports().items() if path.startswith(below) and imports & modules}


def select_tests(changed: Iterable[str]) -> list[str]:
    """Return the test files of a change, sorted."""
    program = {path for path in changed if path.startswith(PROGRAM) and path.endswith(".py")}
    mirrors = {
        f"tests/{path.removeprefix('renderers/allotment/').rpartition('/')[0]}/test_{Path(path).name}".replace(
            "//", "/"
        )
        for path in program
    }
    touched = {path for path in changed if path.startswith("tests/") and path.endswith(".py")}
    touched |= find_importers(program | find_importers(program, below=PROGRAM), below="tests/")
    touched |= mirrors & read_imports().keys()
    while (
        helpers := find_importers((path for path in touched - {SHARED} if not _holds_tests(path)), below="tests/")
        - touched
    ):
        touched |= helpers
    return sorted(path for path in touched if _holds_tests(path) and (PROJECT / path).exists())


def _holds_tests(path: str) -> bool:
    return Path(path).name.startswith("test_")


def main() -> None:
    """Print the test files of a change, a line each, and to standard error what is not selected by them."""
    changed = find_changed_files(sys.argv[1] if len(sys.argv) > 1 else "origin/main")
    others = sorted(path for path in changed if not path.endswith((".py", ".md")))
    if others:
        print(f"{', '.join(others[:5])}: `make test` has the tests of files that are not Python", file=sys.stderr)
    print("\n".join(select_tests(changed)))


if __name__ == "__main__":
    main()
