"""Identifiers name their content, and tests share helpers only through modules without tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.conftest import PROJECT

VAGUE = frozenset({"one", "found", "several", "there"})
# The program has none of these either. `again` is missing: a log event has a key of that name.
PARTICIPLES = frozenset(
    "told made kept settled taken placed known granted said given shown seen wanted held asked beside apart things thing".split()
)
EXEMPT = "renderers/allotment/programs/"  # the hash of these files is part of a ConfigMap's name


def names(tree: ast.AST) -> Iterator[str]:
    """Yield each identifier that a tree binds or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def find_names(folders: Iterable[str], unwanted: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return by file which of some identifiers it has, without the files that have none."""
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*.py") if EXEMPT not in path.as_posix()]
    assert len(paths) > 300
    uses = {
        path.relative_to(PROJECT).as_posix(): unwanted.intersection(names(ast.parse(path.read_text("utf-8"))))
        for path in paths
    }
    return {path: identifiers for path, identifiers in uses.items() if identifiers}


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the path of each module that a tree imports. For `from a import b`, yield `a.b`, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    """Return whether the path of an imported module or of its member names a test module."""
    return name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))


def test_identifiers_are_not_vague() -> None:
    assert find_names(("renderers", "tests"), VAGUE) == {}


def test_tests_are_named_by_a_subject_and_a_verb() -> None:
    """A name that begins with a clause or a pronoun doesn't say which part of the program failed."""
    tests = re.compile(r"^def (test_(?:what|who|it)_\w+)", re.MULTILINE)
    paths = list((PROJECT / "tests").rglob("test_*.py"))
    assert len(paths) > 300
    assert [name for path in paths for name in tests.findall(path.read_text("utf-8"))] == []


def test_program_has_no_participles_as_names() -> None:
    assert find_names(("renderers",), PARTICIPLES) == {}


def test_no_module_imports_a_test_module() -> None:
    paths = list((PROJECT / "tests").rglob("*.py"))
    assert len(paths) > 300
    imports = {
        path.relative_to(PROJECT).as_posix(): list(
            filter(is_test_module, imported_modules(ast.parse(path.read_text("utf-8"))))
        )
        for path in paths
    }
    assert {path: modules for path, modules in imports.items() if modules} == {}


def test_each_form_of_an_import_is_recognized() -> None:
    for line in (
        "from tests.cli.test_publish import brake",
        "from tests.cli import test_publish",
        "import tests.cli.test_publish",
        "def use():\n    from tests.cli.test_publish import brake",
    ):
        assert any(is_test_module(name) for name in imported_modules(ast.parse(line)))
    assert not any(is_test_module(name) for name in imported_modules(ast.parse("from tests.support import live")))


def test_the_shared_helpers_have_no_tests() -> None:
    for path in (PROJECT / "tests/support").glob("*.py"):
        functions = [node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
        assert not path.name.startswith("test_")
        assert [name for name in functions if name.startswith("test_")] == []
