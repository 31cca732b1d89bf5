"""Index the declarations of one commit by scope: platform, clusters and tenants.

A tenant's folder is self-contained. A repository with thousands of tenants is therefore read, checked and rendered one
tenant at a time. Checks across tenants use only the small tally entry of each tenant (`allotment.rules.tally`).
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import Scope
from allotment.problems import Finding

D = TypeVar("D", bound=Declaration)
D_co = TypeVar("D_co", bound=Declaration, covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


def compute_blob_id(data: bytes) -> str:
    """Return the object ID of a Git blob with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class DeclarationFile(NamedTuple, Generic[D_co]):
    """A declaration with its file."""

    path: str
    data: bytes
    model: D_co

    @property
    def blob(self) -> str:
        """Return the Git blob ID of the file, which identifies this version of the declaration."""
        return compute_blob_id(self.data)

    def make_finding(
        self, field: str, message: str, rule: str, *, warning: bool = False, related: tuple[str, ...] = ()
    ) -> Finding:
        """Return a finding about a field. `field` is written with dots, such as `spec.storages.0.name`."""
        parts = tuple(int(part) if part.isdigit() else part for part in field.split(".") if part)
        return Finding(self.path, parts, message, rule, warning, related)


class ScopeDeclarations:
    """The declarations of one scope, by kind and name, sorted by name.

    `broken` has the kind and name of each invalid file. The rules therefore do not report a reference to an invalid
    declaration as a reference to a missing declaration.
    """

    def __init__(
        self,
        scope: Scope,
        declared: Iterable[DeclarationFile[Declaration]] = (),
        broken: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.scope = scope
        self.name = scope.name
        self.invalid = frozenset(broken)
        self.derived: dict[Hashable, Any] = {}  # results of the functions that `cached_by_scope` decorates
        self._kinds: dict[str, dict[str, DeclarationFile[Declaration]]] = {}
        for declaration in sorted(declared, key=lambda declaration: declaration.path.removesuffix(".yaml")):
            self._kinds.setdefault(declaration.model.kind, {})[declaration.model.metadata.name] = declaration

    def of_kind(self, kind: type[D]) -> Mapping[str, DeclarationFile[D]]:
        """Return all declarations of a kind by name."""
        # mypy does not know that `_kinds` maps the name of a kind only to declarations of this kind.
        return self._kinds.get(kind.__name__, {})  # type: ignore[return-value]

    def is_absent(self, kind: type[D], name: str) -> bool:
        """Return whether no file, not even an invalid file, is a declaration of this kind and name."""
        return name not in self.of_kind(kind) and (kind.__name__, name) not in self.invalid

    def get_singleton(self, kind: type[D]) -> DeclarationFile[D] | None:
        """Return the only declaration of a kind such as Tenant or Cluster; None if it is absent or invalid."""
        return next(iter(self.of_kind(kind).values()), None)

    def all_declarations(self) -> Iterable[DeclarationFile[Declaration]]:
        """Return every declaration, grouped by kind and sorted by name."""
        return (declaration for kind in self._kinds.values() for declaration in kind.values())

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all valid declarations."""
        return tuple(declaration.path for declaration in self.all_declarations())


def cached_by_scope(
    function: Callable[Concatenate[ScopeDeclarations, P], R],
) -> Callable[Concatenate[ScopeDeclarations, P], R]:
    """Decorate a function so that it caches its results in its first argument, the ScopeDeclarations.

    The cached results are released together with the ScopeDeclarations.
    """

    @wraps(function)
    def cached(scope: ScopeDeclarations, /, *args: P.args, **kwargs: P.kwargs) -> R:
        key = function, args, tuple(kwargs.items())
        if key not in scope.derived:
            scope.derived[key] = function(scope, *args, **kwargs)
        result: R = scope.derived[key]
        return result

    return cached


class Catalog(NamedTuple):
    """The declarations of the platform and of all clusters. The prices of the day `as_of` apply."""

    platform: ScopeDeclarations
    clusters: Mapping[str, ScopeDeclarations]
    as_of: datetime.date
