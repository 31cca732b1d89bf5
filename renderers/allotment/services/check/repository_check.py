"""Checks all declarations of a source, or checks only the changed tenants again."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache
from allotment.declared.inventory import Catalog
from allotment.declared.layout import Scope
from allotment.preparation.runtime_state import RuntimeStates
from allotment.problems import Problem
from allotment.rules.tally import Tally, TallyEntry, no_changed_files
from allotment.services.check.artifacts import ArtifactHook
from allotment.services.check.catalog_check import check_catalog, find_valid_subset
from allotment.services.check.check_options import DEFAULT_OPTIONS, NO_COMPARISON, CheckOptions, Comparison
from allotment.services.check.cross_checks import (
    NO_CHANGE,
    ChangeCheck,
    Revision,
    blame_changed_stocks,
    check_changes,
    check_shared_rules,
    check_tenant_changes,
    explain_removals,
    merge_problems,
)
from allotment.services.check.platform_faults import PlatformFaults, classify_faults
from allotment.services.check.tenant_results import CachedResult, check_tenants, format_cache_key, read_cached_tenants
from allotment.services.check.workers import TenantCheck

A = TypeVar("A")
V = TypeVar("V")


class RepositoryCheck(NamedTuple):
    """The result of a check of all declarations.

    - `tally_entries` has the tally entry of each tenant: a summary for the rules that compare several tenants.
    - `problems` are all problems, sorted and without duplicates.
    - `tenant_file_counts` maps each tenant to the number of its declared files, and `catalog_file_count` is the number of
      the other declared files.
    - `cached_count` is the number of tenants with results from an earlier check.
    - `platform_problems` are the problems of the platform, of the clusters, and of files that belong to no folder.
    - `tenant_problems` maps a tenant to the problems of its declarations.
    - `shared_problems` are the problems that the declarations of several owners cause together.
    - `runtime_states` returns the runtime state of a tenant: its succeeded preparations and its allocated units.
    - `tracebacks` maps a tenant to a stack trace, if a bug in Allotment ended the check of this tenant.
    - `valid_subset` is the catalog without the invalid clusters; None if the check did not compute this catalog.
    """

    catalog: Catalog
    tally_entries: dict[str, TallyEntry]
    problems: list[Problem]
    catalog_file_count: int
    tenant_file_counts: dict[str, int]
    cached_count: int
    platform_problems: list[Problem]
    tenant_problems: dict[str, list[Problem]]
    shared_problems: list[Problem]
    runtime_states: RuntimeStates
    tracebacks: Mapping[str, str] = MappingProxyType({})
    valid_subset: Catalog | None = None

    @property
    def file_count(self) -> int:
        """The number of declared files."""
        return self.catalog_file_count + sum(self.tenant_file_counts.values())

    @property
    def valid_catalog(self) -> Catalog:
        """The catalog without the invalid clusters; the whole catalog if the check did not compute this subset."""
        return self.valid_subset or self.catalog

    @property
    def faults(self) -> PlatformFaults:
        """The errors of the platform and the clusters, sorted by their effect on a publish."""
        return classify_faults(self.platform_problems, self.catalog.clusters)

    def list_letters(self, cluster: str) -> set[str]:
        """Return the first letters of the names of the tenants that declare a resource in a cluster."""
        return {name[0] for name, part in self.tally_entries.items() if cluster in part.clusters}

    @property
    def errors(self) -> list[Problem]:
        """All problems except the warnings."""
        return [problem for problem in self.problems if not problem.warning]

    def split_errors_by_owner(self) -> tuple[list[Problem], dict[str, list[Problem]]]:
        """Return the errors of the platform and the clusters, and the errors of each tenant that has errors.

        Leaves out the errors that several owners cause together, and the errors about files directly in `tenants/`.
        These files have no owner, and Allotment does not read them.
        """
        platform = list[Problem]()
        tenants = defaultdict[str, list[Problem]](list)
        for problem in self.platform_problems:
            parts = problem.path.split("/")
            if problem.warning or (parts[0] == "tenants" and len(parts) < 3):
                continue
            (tenants[parts[1]] if parts[0] == "tenants" else platform).append(problem)
        for name, problems in self.tenant_problems.items():
            if errors := [problem for problem in problems if not problem.warning]:
                tenants[name] += errors
        return sorted(platform), dict(tenants)


def check_repository(
    source: Source,
    as_of: datetime.date,
    options: CheckOptions = DEFAULT_OPTIONS,
    comparison: Comparison = NO_COMPARISON,
    hook: ArtifactHook[A] | None = None,
) -> RepositoryCheck:
    """Check `source` with the prices of `as_of` and the changes since the base of `comparison`; `hook` builds artifacts."""
    catalog_check = (options.check_catalog or check_catalog)(source, as_of)
    valid_subset = find_valid_subset(catalog_check, partial=options.partial)
    cache = FileCache.disabled()
    if options.open_cache:
        key = format_cache_key(as_of, catalog_check.content_keys, valid_subset.invalid_clusters)
        cache = options.open_cache(key, CachedResult)
    cached = read_cached_tenants(source, cache, catalog_check.tenants)
    hook = hook if valid_subset.can_render else None
    task = TenantCheck(
        source=source,
        catalog=catalog_check.catalog,
        builder=hook.builder if hook else None,
        with_stamps=options.open_cache is not None,
        runtime_states=options.runtime_states,
        cpu_seconds=options.cpu_seconds,
        valid_catalog=valid_subset.catalog,
        invalid_clusters=valid_subset.invalid_clusters,
    )
    tenants = [name for name in catalog_check.tenants if name not in cached.tally_entries]
    results = check_tenants(task, tenants, options, hook.store if hook else None, cache)
    cache.keep_only(set(catalog_check.tenants))
    if valid_subset.can_render:
        cache.save()
    tally_entries = cached.tally_entries | results.tally_entries
    content_keys = catalog_check.content_keys | cached.content_keys | results.content_keys
    revision = Revision(source, catalog_check.catalog, tally_entries, content_keys)
    change = check_changes(revision, comparison, as_of) if comparison.base else NO_CHANGE
    checked = RepositoryCheck(
        catalog=catalog_check.catalog,
        tally_entries=tally_entries,
        problems=[],
        catalog_file_count=catalog_check.file_count,
        tenant_file_counts=cached.file_counts | results.file_counts,
        cached_count=len(cached.tally_entries),
        platform_problems=catalog_check.problems,
        tenant_problems=results.problems,
        shared_problems=[],
        runtime_states=options.runtime_states,
        tracebacks=results.tracebacks,
        valid_subset=valid_subset.catalog,
    )
    return _with_shared_problems(checked, source, change, comparison)


def recheck_tenants(
    last: RepositoryCheck,
    source: Source,
    tenants: Collection[str],
    comparison: Comparison = NO_COMPARISON,
    hook: ArtifactHook[A] | None = None,
) -> RepositoryCheck:
    """Return the check of a source in which only the folders of `tenants` changed since the check `last`.

    Reads only the folders of these tenants. The rules that compare several tenants are applied again, to the tally
    entries of all tenants. If `comparison` has a base, the base must be the source of `last`. After a change of the
    platform or of a cluster, call `recheck_catalog` first, or call `check_repository` instead. `hook` builds and stores an
    artifact of each valid tenant among `tenants`.
    """
    listed_scopes, scope_problems = source.scopes()
    scopes, names = set(listed_scopes), frozenset(tenants)
    change = NO_CHANGE
    if comparison.base is not None:
        base_revision = Revision(comparison.base, last.catalog, last.tally_entries, {})
        change = check_tenant_changes(base_revision, source, tenants, comparison.committed)
    task = TenantCheck(source, last.catalog, hook.builder if hook else None, False, last.runtime_states)
    present_tenants = [name for name in tenants if Scope("tenant", name) in scopes]
    results = check_tenants(task, present_tenants, CheckOptions(processes=1), hook.store if hook else None)
    unchanged_problems = [
        problem
        for problem in last.platform_problems
        if not any(f"{problem.path}/".startswith(f"tenants/{name}/") for name in tenants)
    ]
    tally_entries = _without(last.tally_entries, names) | results.tally_entries
    checked = last._replace(
        tally_entries=tally_entries,
        tenant_file_counts=_without(last.tenant_file_counts, names) | results.file_counts,
        cached_count=len(tally_entries) - len(results.tally_entries),
        platform_problems=[
            *unchanged_problems,
            *(problem for problem in scope_problems if problem not in unchanged_problems),
        ],
        tenant_problems=_without(last.tenant_problems, names) | results.problems,
        tracebacks=_without(last.tracebacks, names) | results.tracebacks,
        valid_subset=None,
    )
    return _with_shared_problems(checked, source, change, comparison)


def recheck_catalog(
    last: RepositoryCheck, source: Source, as_of: datetime.date, comparison: Comparison = NO_COMPARISON
) -> RepositoryCheck:
    """Return the check `last` with the platform and the clusters that the source has now.

    The results of tenants are those of `last`, which used the former catalog. Tenants that the source no longer has are
    left out. Call `recheck_tenants` for all other tenants. The rules about changes are not applied.
    """
    catalog_check = check_catalog(source, as_of)
    removed = last.tally_entries.keys() - set(catalog_check.tenants)
    checked = last._replace(
        catalog=catalog_check.catalog,
        tally_entries=_without(last.tally_entries, removed),
        catalog_file_count=catalog_check.file_count,
        tenant_file_counts=_without(last.tenant_file_counts, removed),
        platform_problems=catalog_check.problems,
        tenant_problems=_without(last.tenant_problems, removed),
        tracebacks=_without(last.tracebacks, removed),
        valid_subset=None,
    )
    return _with_shared_problems(checked, source, NO_CHANGE, comparison)


def _with_shared_problems(
    checked: RepositoryCheck, source: Source, change: ChangeCheck, comparison: Comparison
) -> RepositoryCheck:
    """Return the check with its `shared_problems`, and with `problems` from all parts of the check."""
    tally = Tally(checked.tally_entries, change.base, comparison.changed_files or no_changed_files)
    shared = check_shared_rules(source, checked.catalog, tally)
    platform = blame_changed_stocks(source, checked.catalog, tally, checked.platform_problems)
    problems = merge_problems(platform, change.problems, shared, *checked.tenant_problems.values())
    problems = explain_removals(problems, comparison.base)
    return checked._replace(platform_problems=platform, shared_problems=shared, problems=problems)


def _without(values: Mapping[str, V], names: Collection[str]) -> dict[str, V]:
    return {name: value for name, value in values.items() if name not in names}
