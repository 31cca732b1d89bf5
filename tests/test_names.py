"""Identifiers name their content: `one`, `found`, `several` and `there` are not names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.conftest import PROJECT

VAGUE = frozenset({"one", "found", "several", "there"})
EXEMPT = "renderers/allotment/programs/"  # the hash of these files is part of a ConfigMap's name


def names(tree: ast.AST) -> Iterator[str]:
    """Yield each identifier that a tree binds or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def test_identifiers_are_not_vague() -> None:
    paths = [path for folder in ("renderers", "tests") for path in (PROJECT / folder).rglob("*.py")]
    checked = {path.relative_to(PROJECT).as_posix(): path for path in paths if EXEMPT not in path.as_posix()}
    vague = {name: VAGUE.intersection(names(ast.parse(path.read_text("utf-8")))) for name, path in checked.items()}
    assert len(paths) > 500
    assert {name: identifiers for name, identifiers in vague.items() if identifiers} == {}
