"""Reads and checks the platform and the clusters of a source: on the whole publish, on a
cluster, or on nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.capacity.cordons import apply_cordons
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import read_folder
from allotment.problems import Problem
from allotment.rules import PLATFORM_RULES
from allotment.services.check.platform_faults import classify_faults
from allotment.services.check.workers import ScopeContent, locate_findings, read_scope


class CatalogCheck(NamedTuple):
    """The checked platform and clusters of a source, with the names of its tenants.

    `content_keys` maps the platform and each cluster to a hash of its files. `scope_problems` are the problems of paths
    that belong neither to the platform nor to a cluster or tenant. `catalog_problems` are the problems of the
    declarations.
    """

    catalog: Catalog
    tenants: list[str]
    content_keys: dict[Scope, str]
    scope_problems: list[Problem]
    catalog_problems: list[Problem]
    file_count: int

    @property
    def problems(self) -> list[Problem]:
        """All problems: `scope_problems` and `catalog_problems`."""
        return [*self.scope_problems, *self.catalog_problems]


class ValidSubset(NamedTuple):
    """The part of a catalog that is used to render tenants.

    `invalid_clusters` maps each cluster that `catalog` lacks to the first error of the cluster. If `can_render` is
    false, an error prevents the rendering of all tenants.
    """

    catalog: Catalog
    invalid_clusters: Mapping[str, str]
    can_render: bool


def check_catalog(source: Source, as_of: datetime.date) -> CatalogCheck:
    """Return the checked platform and clusters of a source."""
    scopes, scope_problems = source.scopes()
    contents = [read_scope(source, scope) for scope in scopes if scope.kind != "tenant"]
    catalog, catalog_problems = _read_catalog(contents, as_of, source)
    return CatalogCheck(
        catalog,
        [scope.name for scope in scopes if scope.kind == "tenant"],
        {content.scope: content.content_key for content in contents},
        scope_problems,
        catalog_problems,
        sum(len(content.files) for content in contents),
    )


class CatalogCache:
    """Checks the platform and the clusters of one repository repeatedly with `check`, and caches the last result."""

    def __init__(self, check: Callable[[Source, datetime.date], CatalogCheck]) -> None:
        self._check = check
        self._last: CatalogCheck | None = None

    def check(self, source: Source, as_of: datetime.date) -> CatalogCheck:
        """Return the check of the source.

        If no file of the platform or of a cluster has changed since the last call, the result has the same declarations
        as the last result. This requires a source that knows the content hashes of its files, such as a commit.
        """
        scopes, scope_problems = source.scopes()
        hashes = {scope: source.files(scope).content_hash for scope in scopes if scope.kind != "tenant"}
        if self._last is None or hashes != self._last.content_keys or as_of != self._last.catalog.as_of:
            self._last = self._check(source, as_of)
        return self._last._replace(
            tenants=[scope.name for scope in scopes if scope.kind == "tenant"], scope_problems=scope_problems
        )


def find_valid_subset(catalog_check: CatalogCheck, *, partial: bool) -> ValidSubset:
    """Return the part of the catalog that is used to render tenants.

    If `partial` is true, this part lacks the clusters that have an error. Otherwise it has all clusters, and any error
    in `catalog_problems` prevents the rendering of all tenants.
    """
    catalog = catalog_check.catalog
    faults = classify_faults(catalog_check.problems, catalog.clusters)
    rejected = faults.by_cluster if partial else {}
    clusters = {name: folder for name, folder in catalog.clusters.items() if name not in rejected}
    is_valid = all(problem.warning for problem in catalog_check.catalog_problems)
    return ValidSubset(
        catalog._replace(clusters=clusters),
        {name: str(problems[0]) for name, problems in rejected.items()},
        is_valid or (partial and not faults.blocking),
    )


def _read_catalog(contents: list[ScopeContent], as_of: datetime.date, source: Source) -> tuple[Catalog, list[Problem]]:
    problems: list[Problem] = []
    folders: dict[Scope, ScopeDeclarations] = {PLATFORM: ScopeDeclarations(PLATFORM)}
    for content in contents:
        folders[content.scope], folder_problems = read_folder(content.scope, content.files)
        problems += content.problems + folder_problems
    clusters = {
        scope.name: apply_cordons(folders[PLATFORM], folder, as_of)
        for scope, folder in sorted(folders.items())
        if scope.kind == "cluster"
    }
    catalog = Catalog(folders[PLATFORM], clusters, as_of)
    findings = [finding for check in PLATFORM_RULES.values() for finding in check(catalog)]
    return catalog, problems + locate_findings(findings, source)
