"""Finds the declarations that a command edits or refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import (
    DEFAULT_MAX_NAME_LENGTH,
    MAX_NAME_LENGTHS,
    PLATFORM,
    DeclarationPath,
    Scope,
    name_error,
    parse_path,
    path_of,
)
from allotment.declared.reading import read_declaration, suggest_name
from allotment.problems import OperationRefused, quote_value

D = TypeVar("D", bound=Declaration)


class Declarations(NamedTuple):
    """The files of declarations.

    - `read` returns the content of a path, or None if there is no such file.
    - `list_paths` returns the sorted paths of a scope; empty if the scope has no folder.
    - `list_scopes` returns the sorted names of the scopes of a kind: `tenant` or `cluster`.
    """

    read: Callable[[str], bytes | None]
    list_paths: Callable[[Scope], list[str]]
    list_scopes: Callable[[str], list[str]]

    def list_names(self, kind: type[Declaration], scope: Scope = PLATFORM) -> list[str]:
        """Return the sorted names of the declarations of a kind in a scope. The files may be invalid."""
        declaration_paths = map(parse_path, self.list_paths(scope))
        return sorted(
            declaration_path.name
            for declaration_path in declaration_paths
            if isinstance(declaration_path, DeclarationPath) and declaration_path.kind.name == kind.__name__
        )

    def find(self, kind: type[D], scope: Scope, name: str) -> DeclarationFile[D]:
        """Return a declaration. Raises OperationRefused, with the known names, if it is absent or can't be read."""
        self.check_scope(scope)
        data = self.read(path := path_of(kind.__name__, scope, name)) if _is_name(name) else None
        if data is None:
            other_kinds = [
                path.kind.name
                for path in map(parse_path, self.list_paths(scope))
                if isinstance(path, DeclarationPath) and path.name == name
            ]
            hint = suggest_name(name, self.list_names(kind, scope)) or "; it has none"
            if other_kinds:
                hint = f"; a {other_kinds[0]} has this name"
            owner = f"{scope.name} has" if scope.name else "the platform has"
            raise OperationRefused(f"{owner} no {kind.__name__} named {quote_value(name)}{hint}")
        declaration_path = parse_path(path)
        assert isinstance(declaration_path, DeclarationPath), path
        declared, problems = read_declaration(path, data, declaration_path)
        if declared is None:
            raise OperationRefused(f"{problems[0]}: correct the file first")
        assert isinstance(declared.model, kind)
        return declared  # type: ignore[return-value]  # the model was checked above

    def create_path(self, kind: type[Declaration], scope: Scope, name: str) -> str:
        """Return the path of a new declaration. Raises OperationRefused if the name is invalid, or if the file exists."""
        is_new_scope = kind.__name__ in ("Tenant", "Cluster")
        if not is_new_scope:
            self.check_scope(scope)
        longest = MAX_NAME_LENGTHS.get(scope.kind if is_new_scope else kind.__name__, DEFAULT_MAX_NAME_LENGTH)
        if wrong := name_error(name, longest):
            raise OperationRefused(f"name {quote_value(name)} {wrong}")
        path = path_of(kind.__name__, scope, name)
        if self.read(path) is not None:
            raise OperationRefused(f"{path} exists already: choose another name, or change the file with `allot set`")
        return path

    def check_scope(self, scope: Scope) -> None:
        """Raise OperationRefused if no such tenant or cluster is declared. The error suggests similar names."""
        if scope.kind != "platform" and scope.name not in (names := self.list_scopes(scope.kind)):
            raise OperationRefused(
                f"no {scope.kind} is named {quote_value(scope.name)}{suggest_name(scope.name, names)}"
            )


def split_cluster_name(text: str) -> tuple[str, str]:
    """Return the cluster and the name of CLUSTER/NAME. Raises OperationRefused for another format."""
    cluster, slash, name = text.partition("/")
    if not (cluster and slash and name) or "/" in name:
        raise OperationRefused(f"{quote_value(text)} is not in the format CLUSTER/NAME, such as eu-1/l4-whole")
    return cluster, name


def _is_name(name: str) -> bool:
    return name_error(name, DEFAULT_MAX_NAME_LENGTH) is None
