"""Keeps the last check of a repository, and updates it after changes of files."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable

from allotment.adapters.declaration_source import Source
from allotment.services.check.check_options import NO_COMPARISON, Comparison
from allotment.services.check.repository_check import RepositoryCheck, recheck_catalog, recheck_tenants


class IncrementalCheck:
    """The last check of a repository. An update reads only the tenants with changed files, if no other file changed.

    `check_all` checks all declarations. With `always_checks_all`, each update checks all declarations, for a check that
    compares them with a base.

    An update after a change of the platform or of a cluster has two forms. `update` returns a check of all tenants. An
    editor can't wait for this check: `update_changed` checks the platform, the clusters and the changed tenants, and
    `recheck_stale` then checks the other tenants in portions.
    """

    def __init__(
        self,
        check_all: Callable[[], RepositoryCheck],
        comparison: Comparison = NO_COMPARISON,
        *,
        always_checks_all: bool = False,
    ) -> None:
        self._check_all = check_all
        self._comparison = comparison
        self._always_checks_all = always_checks_all
        self._stale: set[str] = set()
        self.last = check_all()

    @property
    def is_complete(self) -> bool:
        """Whether `last` has no results of tenants that were checked with a former catalog."""
        return not self._stale

    def update(self, source: Source, paths: Iterable[str]) -> RepositoryCheck:
        """Return the check of `source`, in which only the files at `paths` changed since the last check."""
        tenants, catalog_changed = _split_by_scope(paths)
        if self._always_checks_all or catalog_changed or self._stale:
            self.last, self._stale = self._check_all(), set()
        elif tenants:
            self.last = recheck_tenants(self.last, source, tenants, comparison=self._comparison)
        return self.last

    def update_changed(self, source: Source, paths: Iterable[str], as_of: datetime.date) -> RepositoryCheck:
        """Return the check of `source` with up-to-date results for the platform, the clusters and the changed tenants.

        If a file of the platform or of a cluster changed, or if the day of the prices changed, the results of the other
        tenants become stale.
        """
        tenants, catalog_changed = _split_by_scope(paths)
        if catalog_changed or as_of != self.last.catalog.as_of:
            last = recheck_catalog(self.last, source, as_of, self._comparison)
            self._stale = {scope.name for scope in source.scopes()[0] if scope.kind == "tenant"}
            self.last = last
        if tenants:
            self.last = recheck_tenants(self.last, source, tenants, comparison=self._comparison)
            self._stale -= tenants
        return self.last

    def recheck_stale(self, source: Source, limit: int) -> RepositoryCheck:
        """Return the check of `source` after it checked at most `limit` of the stale tenants, in the order of names."""
        tenants = sorted(self._stale)[:limit]
        if tenants:
            self.last = recheck_tenants(self.last, source, tenants, comparison=self._comparison)
            self._stale.difference_update(tenants)
        return self.last


def _split_by_scope(paths: Iterable[str]) -> tuple[set[str], bool]:
    """Return the tenants with a path among `paths`, and whether another path is among them."""
    tenants: set[str] = set()
    catalog_changed = False
    for path in paths:
        root, _, rest = path.partition("/")
        if root == "tenants" and rest:
            tenants.add(rest.partition("/")[0])
        else:
            catalog_changed = True
    return tenants, catalog_changed
