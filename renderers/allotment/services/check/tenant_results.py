"""Checks tenants in batches, and takes the results of unchanged tenants from a cache.

The cache has each tenant that has neither errors nor warnings, with its tally entry: the summary that the checks of
other tenants need. A cached result is valid while the tenant's files, the catalog, the day and the program are
unchanged. Every check reads all other tenants.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache, program_key
from allotment.declared.layout import Scope
from allotment.problems import Problem
from allotment.rules.tally import TallyEntry
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.workers import TenantCheck, TenantResult, count_cores, run_batches

A = TypeVar("A")


class CachedResult(NamedTuple):
    """The cached result of a tenant without problems: the fields of TenantResult that identify and summarize it."""

    stamp: Any
    content_key: str
    file_count: int
    tally_entry: TallyEntry


class CachedTenants(NamedTuple):
    """The tenants that an earlier check accepted and that have not changed since then."""

    tally_entries: dict[str, TallyEntry]
    content_keys: dict[Scope, str]
    file_counts: dict[str, int]


class TenantResults(NamedTuple):
    """The results of checked tenants, by tenant.

    `problems` has only the tenants with problems, and `tracebacks` has only the tenants with a trace.
    """

    tally_entries: dict[str, TallyEntry]
    content_keys: dict[Scope, str]
    file_counts: dict[str, int]
    problems: dict[str, list[Problem]]
    tracebacks: dict[str, str]


def format_cache_key(as_of: datetime.date, content_keys: Mapping[Scope, str], invalid_clusters: Collection[str]) -> str:
    """Return the key of a cache. If the program, the day, the catalog or the invalid clusters change, the key changes.

    The content keys do not determine the invalid clusters, because they cover only regular files: a symbolic link in
    the folder of a cluster makes the cluster invalid.
    """
    contents = sorted((*scope, content) for scope, content in content_keys.items())
    return f"{program_key()} {as_of} " + json.dumps([contents, sorted(invalid_clusters)])


def read_cached_tenants(source: Source, cache: FileCache, tenants: Iterable[str]) -> CachedTenants:
    """Return the tenants of a source that are in the cache and have no changed files."""
    names = set(tenants)
    cached = CachedTenants({}, {}, {})
    for name, (stamp, content, count, entry) in cache.values.items():
        if name in names and source.is_unchanged(scope := Scope("tenant", name), stamp):
            cached.content_keys[scope] = content
            cached.tally_entries[name] = entry
            cached.file_counts[name] = count
    return cached


def check_tenants(
    task: TenantCheck[A],
    tenants: Sequence[str],
    options: CheckOptions,
    store: Callable[[str, A | None], object] | None = None,
    cache: FileCache | None = None,
) -> TenantResults:
    """Return the results of `tenants`, in the order of `tenants`. `store` receives the artifact of each tenant.

    Adds each tenant without problems to the cache, and removes each tenant with problems from the cache.
    """
    results: list[TenantResult[A]] = []
    for count, result in enumerate(run_batches(task, list(tenants), options.processes or count_cores()), 1):
        if store is not None:
            store(result.name, result.artifact)
        if cache is not None:
            _update_cache(cache, result)
        if options.report_progress is not None:
            options.report_progress(count, len(tenants))
        results.append(result._replace(artifact=None))
    return TenantResults(
        tally_entries={result.name: result.tally_entry for result in results},
        content_keys={Scope("tenant", result.name): result.content_key for result in results},
        file_counts={result.name: result.file_count for result in results},
        problems={result.name: result.problems for result in results if result.problems},
        tracebacks={result.name: result.traceback for result in results if result.traceback},
    )


def _update_cache(cache: FileCache, result: TenantResult[A]) -> None:
    if result.problems or result.stamp is None:
        cache.remove(result.name)
    else:
        cache.put(result.name, CachedResult(result.stamp, result.content_key, result.file_count, result.tally_entry))
