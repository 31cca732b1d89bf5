"""A signature says what each argument is: more than six arguments are passed by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment

MOST_POSITIONAL = 6
MOST_LINES = 50
SMALL_FUNCTIONS = (
    "services/check/",
    "services/publish/release_",
)  # folders whose functions also have at most six parameters by name
ROOT = Path(allotment.__path__[0])


Nodes = list[tuple[Path, ast.AST]]


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    """Return each node of each module of the program, with the path of the module: millions of objects, so no cache has them."""
    paths = sorted(ROOT.rglob("*.py"))
    return [
        (path.relative_to(ROOT), node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]


def fields_of(node: ast.ClassDef) -> int:
    """Return how many fields a class declares."""
    return sum(isinstance(part, ast.AnnAssign) for part in node.body)


def long_signatures(nodes: Nodes) -> Iterator[str]:
    """Yield each function and dataclass that takes too many arguments by position."""
    for path, node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [
                arg.arg for arg in (*node.args.posonlyargs, *node.args.args) if arg.arg not in ("self", "cls")
            ]
            if len(positional) > MOST_POSITIONAL:
                yield f"{path}:{node.lineno}: {node.name} takes {len(positional)} arguments by position"
        elif isinstance(node, ast.ClassDef) and fields_of(node) > MOST_POSITIONAL:
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any("dataclass" in text and "kw_only=True" not in text for text in decorators):
                yield f"{path}:{node.lineno}: {node.name} has {fields_of(node)} fields without kw_only=True"


def long_calls(nodes: Nodes) -> Iterator[str]:
    """Yield each call of a class of the program that passes too many arguments by position: a NamedTuple or a Struct
    cannot refuse them."""
    classes = {node.name for _, node in nodes if isinstance(node, ast.ClassDef)}
    variadic = {node.name for _, node in nodes if isinstance(node, ast.ClassDef) and _is_variadic(node)}
    for path, node in nodes:
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL:
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in classes - variadic:
                yield f"{path}:{node.lineno}: {name}(...) passes {len(node.args)} arguments by position"


def _is_variadic(node: ast.ClassDef) -> bool:
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    return any(method.args.vararg for method in methods)


def test_more_than_six_arguments_are_passed_by_name(nodes: Nodes) -> None:
    assert [*long_signatures(nodes), *long_calls(nodes)] == []


def large_functions(nodes: Nodes) -> Iterator[str]:
    """Yield each function of the folders of small functions that takes too many parameters, or has too many lines."""
    for path, node in nodes:
        if isinstance(node, ast.FunctionDef) and path.as_posix().startswith(SMALL_FUNCTIONS):
            parameters = {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)} - {"self", "cls"}
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if len(parameters) > MOST_POSITIONAL or lines > MOST_LINES:
                yield f"{path}:{node.lineno}: {node.name} takes {len(parameters)} parameters and has {lines} lines"


def test_the_functions_of_a_check_are_small(nodes: Nodes) -> None:
    assert list(large_functions(nodes)) == []
