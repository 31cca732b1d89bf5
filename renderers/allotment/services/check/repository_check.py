"""Reads a whole source, checks everything, tenant by tenant on all cores; what was found fine before is remembered.

A tenant that was fine stays fine while its files, the offers and the program are the same: its part of the tally is
all that the others need of it. Tenants with problems or warnings are read again every time.
"""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache, program_key
from allotment.declared.layout import Scope
from allotment.preparation.runtime_state import RuntimeStates, unknown_state
from allotment.problems import Finding, Problem
from allotment.services.check.workers import (
    RenderBatch,
    ScopeContent,
    TenantCheck,
    count_cores,
    locate_findings,
    read_scope,
    run_batches,
)

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog, ScopeDeclarations
    from allotment.rules.tally import ChangedFiles, TallyBase, TallyEntry
    from allotment.services.check.platform_faults import PlatformFaults


OpenCache = Callable[[str], FileCache]


class RepositoryCheck(NamedTuple):
    """The checked source: catalog, tally parts, problems, and the results of rendering.

    `cached_count` counts the tenants that an earlier check accepted. `problems` are all problems, sorted; `tenant_problems`
    those in each tenant's own files, `platform_problems` those of the platform, `shared_problems` those that several owners cause.
    `runtime_states` returns the runtime state that was known of each tenant. `traces` has, by tenant, the trace of a bug.
    """

    catalog: Catalog
    tally_entries: dict[str, TallyEntry]
    problems: list[Problem]
    file_count: int
    cached_count: int
    artifacts: dict[str, Any]
    platform_problems: list[Problem]
    tenant_problems: dict[str, list[Problem]]
    shared_problems: list[Problem]
    runtime_states: RuntimeStates
    traces: Mapping[str, str] = MappingProxyType({})
    valid_subset: Catalog | None = None

    @property
    def valid_catalog(self) -> Catalog:
        """The catalog with the clusters that have no error."""
        return self.valid_subset or self.catalog

    @property
    def faults(self) -> PlatformFaults:
        """The errors of the platform and the clusters, by reach."""
        from allotment.services.check.platform_faults import classify_faults

        return classify_faults(self.platform_problems, self.catalog.clusters)

    def list_letters(self, cluster: str) -> set[str]:
        """Return the first letters of the tenants that declare something in a cluster."""
        return {name[0] for name, part in self.tally_entries.items() if cluster in part.clusters}

    @property
    def errors(self) -> list[Problem]:
        """The problems that aren't warnings."""
        return [problem for problem in self.problems if not problem.warning]

    def split_errors_by_owner(self) -> tuple[list[Problem], dict[str, list[Problem]]]:
        """Return the errors of what the platform declares, and those of each tenant that has any. A file beside the
        tenants is nobody's: nothing reads it."""
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
    *,
    recall: OpenCache | None = None,
    render: RenderBatch | None = None,
    take: Callable[[str, Any], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    base: Source | None = None,
    standings: RuntimeStates = unknown_state,
    share: float | None = None,
    partial: bool = False,
    today: datetime.date | None = None,
    changed_files: ChangedFiles | None = None,
) -> RepositoryCheck:
    """Return everything about `source`. `render` renders tenants without errors, in whatever process has read them;
    what it makes of each goes to `take` in the order of their names, or else is kept.

    `share` is the processor time that each tenant may take, in seconds: one that takes longer has a problem that
    says so. `standings` says what is known of each tenant. `recall` returns the memory for a key. Tenants that are
    remembered aren't read, nor rendered. With `partial` a fault of a cluster rejects the tenants of that cluster alone; else
    any fault of the platform keeps all tenants from being rendered. `today` is the day that no new price may begin on, where that isn't `as_of`.
    `changed_files` returns the files that differ from the last commit: without `base`, their declarations count as new. It is
    called only where a stock is oversold.
    """
    scopes, problems = source.scopes()
    tenants = [scope.name for scope in scopes if scope.kind == "tenant"]
    raw = [read_scope(source, scope) for scope in scopes if scope.kind != "tenant"]
    contents = {scope_files.scope: scope_files.content_key for scope_files in raw}
    memory = recall(_cache_key(as_of, contents)) if recall else FileCache.disabled()
    offers, wrong = _read_catalog(raw, as_of, source)
    problems = [*problems, *wrong]
    parts, files = _read_cached(source, memory, set(tenants), contents)
    remembered = len(parts)
    unknown = [name for name in tenants if name not in parts]
    from allotment.services.check.platform_faults import classify_faults

    faults = classify_faults(problems, offers.clusters)
    fine = all(problem.warning for problem in wrong) or (partial and not faults.blocking)
    rejected = faults.by_cluster if partial else {}
    sound = offers._replace(clusters={name: folder for name, folder in offers.clusters.items() if name not in rejected})
    clusters = {name: str(cluster_problems[0]) for name, cluster_problems in rejected.items()}
    work = TenantCheck(
        source=source,
        catalog=offers,
        render=render if fine else None,
        with_stamps=recall is not None,
        runtime_states=standings,
        cpu_seconds=share,
        valid_catalog=sound,
        invalid_clusters=clusters,
    )
    artifacts: dict[str, Any] = {}
    take = take or artifacts.__setitem__
    by_tenant: dict[str, list[Problem]] = {}
    traces: dict[str, str] = {}
    for done, result in enumerate(run_batches(work, unknown, processes or count_cores()), 1):
        if result.problems:
            by_tenant[result.name] = result.problems
        if result.trace:
            traces[result.name] = result.trace
        contents[Scope("tenant", result.name)] = result.content_key
        parts[result.name] = to_tally_entry(result.tally_entry)
        files += result.file_count
        take(result.name, result.artifacts)
        if not result.problems and result.stamp is not None:
            memory.put(result.name, [result.stamp, result.content_key, result.file_count, parts[result.name]])
        else:
            memory.remove(result.name)
        if progress is not None:
            progress(done, len(unknown))
    memory.keep_only(set(tenants))
    if fine:
        memory.save()
    was, changed = None, list[Problem]()
    if base is not None:
        changed, was = _check_changes(source, offers, base, contents, parts, today or as_of)
    shared = _check_shared_rules(offers, parts, was, source, changed_files)
    files += sum(len(scope_files.files) for scope_files in raw)
    everything = _merge_problems(problems, changed, shared, *by_tenant.values())
    return RepositoryCheck(
        catalog=offers,
        tally_entries=parts,
        problems=everything,
        file_count=files,
        cached_count=remembered,
        artifacts=artifacts,
        platform_problems=problems,
        tenant_problems=by_tenant,
        shared_problems=shared,
        runtime_states=standings,
        traces=traces,
        valid_subset=sound,
    )


def recheck_tenants(
    last: RepositoryCheck,
    source: Source,
    tenants: Collection[str],
    render: RenderBatch | None = None,
    base: Source | None = None,
    changed_files: ChangedFiles | None = None,
) -> RepositoryCheck:
    """Return a survey after nothing but these tenants' folders changed: they are read again, and all that crosses
    files.

    With `base`, which `last` is of, rules about change are checked too. Changes of offers need a whole `check_repository`.
    """
    parts, by_tenant, artifacts, traces = (
        dict(last.tally_entries),
        dict(last.tenant_problems),
        dict[str, Any](),
        dict(last.traces),
    )
    scopes, astray = source.scopes()
    present_tenants = {scope.name for scope in scopes if scope.kind == "tenant"}
    was, changed = None, list[Problem]()
    if base is not None:
        from allotment.rules.tally import TallyBase

        was = TallyBase(last.tally_entries, last.catalog.clusters)
        ends = [(Scope("tenant", name), name in last.tally_entries, name in present_tenants) for name in tenants]
        findings = [
            finding
            for scope, was_there, is_there in ends
            for finding in _check_change(
                source,
                last.catalog,
                base,
                scope=scope,
                was_there=was_there,
                is_there=is_there,
                today=last.catalog.as_of,
            )[1]
        ]
        changed = locate_findings(findings, source)
    for name in tenants:
        parts.pop(name, None)
        by_tenant.pop(name, None)
        traces.pop(name, None)
        if name in present_tenants:
            result = TenantCheck(source, last.catalog, render, False, last.runtime_states).run_batch([name])[0]
            parts[name], artifacts[name] = to_tally_entry(result.tally_entry), result.artifacts
            if result.problems:
                by_tenant[name] = result.problems
            if result.trace:
                traces[name] = result.trace
    shared = _check_shared_rules(last.catalog, parts, was, source, changed_files)
    stays = [
        finding
        for finding in last.platform_problems
        if not any(finding.path.startswith(f"tenants/{name}/") for name in tenants)
    ]
    of_offers = [*stays, *(problem for problem in astray if problem not in stays)]
    everything = _merge_problems(of_offers, shared, changed, *by_tenant.values())
    return RepositoryCheck(
        catalog=last.catalog,
        tally_entries=parts,
        problems=everything,
        file_count=last.file_count,
        cached_count=len(parts) - len(artifacts),
        artifacts=artifacts,
        platform_problems=of_offers,
        tenant_problems=by_tenant,
        shared_problems=shared,
        runtime_states=last.runtime_states,
        traces=traces,
    )


def _merge_problems(*problem_groups: Iterable[Problem]) -> list[Problem]:
    """Return all problems in order, one for each mistake: where a name isn't on offer to its tenant at all, that there is
    none left of it says nothing more."""
    from allotment.rules import references, stock

    unique_problems = {problem for problems in problem_groups for problem in problems}
    missing = {candidate[:4] for candidate in unique_problems if candidate.rule == references.RULE}
    return sorted(
        candidate for candidate in unique_problems if candidate.rule != stock.RULE or candidate[:4] not in missing
    )


def to_tally_entry(plain: Iterable[Any]) -> TallyEntry:
    """Return a part from its tuples or from JSON's lists; a part as it is."""
    from allotment.capacity.units import UnitClaim
    from allotment.rules.tally import SharedStorage, StorageCopy, StorageUsage, TallyEntry, UnknownStorage

    if type(plain) is TallyEntry:
        return plain
    claims, storages, clusters, shares, reads, invalid, unknown = plain
    return TallyEntry(
        claims=tuple([UnitClaim(*fields) for fields in claims]),
        storages=tuple([StorageUsage(*fields) for fields in storages]),
        clusters=tuple(clusters),
        shares=tuple(
            [SharedStorage(cluster, tenant, storage, tuple(readers)) for cluster, tenant, storage, readers in shares]
        ),
        copies=tuple([StorageCopy(*fields) for fields in reads]),
        invalid_storages=tuple(invalid),
        unknown_storages=tuple(
            [UnknownStorage(path, tuple(field), tenant, name) for path, field, tenant, name in unknown]
        ),
    )


def _cache_key(as_of: datetime.date, contents: Mapping[Scope, str]) -> str:
    """What was fine is fine only under the same program, day and offers."""
    return f"{program_key()} {as_of} " + json.dumps(sorted((*scope, content) for scope, content in contents.items()))


def _read_cached(
    source: Source, memory: FileCache, tenants: set[str], contents: dict[Scope, str]
) -> tuple[dict[str, TallyEntry], int]:
    """Return the parts of tenants that are as they were when they were found fine, and how many files they have."""
    parts: dict[str, TallyEntry] = {}
    files = 0
    for name, (stamp, content, count, part) in memory.values.items():
        scope = Scope("tenant", name)
        if name in tenants and source.is_unchanged(scope, stamp):
            contents[scope] = content
            parts[name] = to_tally_entry(part)
            files += count
    return parts, files


def _read_catalog(raw: list[ScopeContent], as_of: datetime.date, source: Source) -> tuple[Catalog, list[Problem]]:
    from allotment.declared.inventory import Catalog, ScopeDeclarations
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder
    from allotment.rules import PLATFORM_RULES

    problems: list[Problem] = []
    folders: dict[Scope, ScopeDeclarations] = {PLATFORM: ScopeDeclarations(PLATFORM)}
    for scope_files in raw:
        folders[scope_files.scope], wrong = read_folder(scope_files.scope, scope_files.files)
        problems += scope_files.problems + wrong
    clusters = {scope.name: folder for scope, folder in sorted(folders.items()) if scope.kind == "cluster"}
    offers = Catalog(folders[PLATFORM], clusters, as_of)
    findings = [finding for check in PLATFORM_RULES.values() for finding in check(offers)]
    return offers, problems + locate_findings(findings, source)


def _check_shared_rules(
    offers: Catalog,
    parts: Mapping[str, TallyEntry],
    base: TallyBase | None,
    source: Source,
    changed_files: ChangedFiles | None,
) -> list[Problem]:
    from allotment.rules import SHARED_RULES
    from allotment.rules.tally import Tally, no_changed_files

    tally = Tally(parts, base, changed_files or no_changed_files)
    return locate_findings([finding for check in SHARED_RULES.values() for finding in check(offers, tally)], source)


def _check_changes(
    source: Source,
    offers: Catalog,
    base: Source,
    contents: Mapping[Scope, str],
    parts: Mapping[str, TallyEntry],
    today: datetime.date,
) -> tuple[list[Problem], TallyBase]:
    """Return the problems of what changed since `base`, and what all tenants and clusters were there."""
    from allotment.rules.tally import TallyBase, build_tally_entry

    old_scopes = set(base.scopes()[0])
    base_parts = {name: part for name, part in parts.items() if Scope("tenant", name) in old_scopes}
    clusters = dict(offers.clusters)
    findings: list[Finding] = []
    for scope in sorted(old_scopes | contents.keys()):
        if scope not in old_scopes or base.files(scope).content_hash != contents.get(scope):
            was, scope_findings = _check_change(
                source,
                offers,
                base,
                scope=scope,
                was_there=scope in old_scopes,
                is_there=scope in contents,
                today=today,
            )
            findings += scope_findings
            if scope.kind == "tenant" and scope in old_scopes:
                base_parts[scope.name] = build_tally_entry(offers, was)
            elif scope.kind == "cluster":
                clusters[scope.name] = was
    return locate_findings(findings, source), TallyBase(base_parts, clusters)


def _check_change(
    source: Source,
    offers: Catalog,
    base: Source,
    *,
    scope: Scope,
    was_there: bool,
    is_there: bool,
    today: datetime.date,
) -> tuple[ScopeDeclarations, list[Finding]]:
    """Return a folder as it was at the base, empty where it wasn't there, and what is wrong with its change."""
    from allotment.declared.inventory import ScopeDeclarations
    from allotment.declared.reading import read_folder
    from allotment.rules import CHANGE_RULES
    from allotment.rules.folder_change import FolderChange

    was = read_folder(scope, read_scope(base, scope).files)[0] if was_there else ScopeDeclarations(scope)
    is_now = read_folder(scope, read_scope(source, scope).files)[0] if is_there else ScopeDeclarations(scope)
    change = FolderChange(offers, was, is_now, today)
    return was, [finding for check in CHANGE_RULES.values() for finding in check(change)]
