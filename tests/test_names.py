"""Identifiers name their content: `one`, `found`, `several` and `there` are not names."""

from __future__ import annotations

import ast
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


def test_identifiers_are_not_vague() -> None:
    assert find_names(("renderers", "tests"), VAGUE) == {}


def test_program_has_no_participles_as_names() -> None:
    assert find_names(("renderers",), PARTICIPLES) == {}
