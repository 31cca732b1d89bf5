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

from allotment.adapters.memory import Memory, program_key
from allotment.adapters.source import Source
from allotment.declared.layout import Scope
from allotment.pipeline.check.workers import Raw, Render, TenantCheck, cores, placed, read_scope, results
from allotment.problems import Finding, Problem
from allotment.readiness.standing import Standings, nothing_known

if TYPE_CHECKING:
    from allotment.declared.inventory import Folder, Offers
    from allotment.pipeline.check.platform_faults import PlatformFaults
    from allotment.rules.tally import Base, ChangedFiles, Part


Recall = Callable[[str], Memory]


class Survey(NamedTuple):
    """The checked source: catalog, tally parts, problems, and the results of rendering.

    `remembered` counts the tenants that an earlier check accepted. `problems` are all problems, sorted; `by_tenant`
    those in each tenant's own files, `of_offers` those of the platform, `shared` those that several owners cause.
    `standings` returns the runtime state that was known of each tenant. `traces` has, by tenant, the trace of a bug.
    """

    offers: Offers
    parts: dict[str, Part]
    problems: list[Problem]
    files: int
    remembered: int
    made: dict[str, Any]
    of_offers: list[Problem]
    by_tenant: dict[str, list[Problem]]
    shared: list[Problem]
    standings: Standings
    traces: Mapping[str, str] = MappingProxyType({})
    sound: Offers | None = None

    @property
    def sound_offers(self) -> Offers:
        """The catalog with the clusters that have no error."""
        return self.sound or self.offers

    @property
    def faults(self) -> PlatformFaults:
        """The errors of the platform and the clusters, by reach."""
        from allotment.pipeline.check.platform_faults import platform_faults

        return platform_faults(self.of_offers, self.offers.clusters)

    def letters(self, cluster: str) -> set[str]:
        """Return the first letters of the tenants that declare something in a cluster."""
        return {name[0] for name, part in self.parts.items() if cluster in part.clusters}

    @property
    def errors(self) -> list[Problem]:
        """The problems that aren't warnings."""
        return [problem for problem in self.problems if not problem.warning]

    def by_owner(self) -> tuple[list[Problem], dict[str, list[Problem]]]:
        """Return the errors of what the platform declares, and those of each tenant that has any. A file beside the
        tenants is nobody's: nothing reads it."""
        platform = list[Problem]()
        tenants = defaultdict[str, list[Problem]](list)
        for problem in self.of_offers:
            parts = problem.path.split("/")
            if problem.warning or (parts[0] == "tenants" and len(parts) < 3):
                continue
            (tenants[parts[1]] if parts[0] == "tenants" else platform).append(problem)
        for name, problems in self.by_tenant.items():
            if errors := [problem for problem in problems if not problem.warning]:
                tenants[name] += errors
        return sorted(platform), dict(tenants)


def survey(
    source: Source,
    as_of: datetime.date,
    *,
    recall: Recall | None = None,
    render: Render | None = None,
    take: Callable[[str, Any], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    base: Source | None = None,
    standings: Standings = nothing_known,
    share: float | None = None,
    partial: bool = False,
    today: datetime.date | None = None,
    changed_files: ChangedFiles | None = None,
) -> Survey:
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
    contents = {scope_files.scope: scope_files.content for scope_files in raw}
    memory = recall(_memory_key(as_of, contents)) if recall else Memory.none()
    offers, wrong = _offers(raw, as_of, source)
    problems = [*problems, *wrong]
    parts, files = _recalled(source, memory, set(tenants), contents)
    remembered = len(parts)
    unknown = [name for name in tenants if name not in parts]
    from allotment.pipeline.check.platform_faults import platform_faults

    faults = platform_faults(problems, offers.clusters)
    fine = all(problem.warning for problem in wrong) or (partial and not faults.of_all)
    rejected = faults.by_cluster if partial else {}
    sound = offers._replace(clusters={name: folder for name, folder in offers.clusters.items() if name not in rejected})
    clusters = {name: str(cluster_problems[0]) for name, cluster_problems in rejected.items()}
    work = TenantCheck(
        source=source,
        offers=offers,
        render=render if fine else None,
        stamped=recall is not None,
        standings=standings,
        seconds=share,
        sound=sound,
        unsound=clusters,
    )
    artifacts: dict[str, Any] = {}
    take = take or artifacts.__setitem__
    by_tenant: dict[str, list[Problem]] = {}
    traces: dict[str, str] = {}
    for done, result in enumerate(results(work, unknown, processes or cores()), 1):
        if result.problems:
            by_tenant[result.name] = result.problems
        if result.trace:
            traces[result.name] = result.trace
        contents[Scope("tenant", result.name)] = result.content
        parts[result.name] = tenants_part(result.part)
        files += result.files
        take(result.name, result.made)
        if not result.problems and result.stamp is not None:
            memory.put(result.name, [result.stamp, result.content, result.files, parts[result.name]])
        else:
            memory.forget(result.name)
        if progress is not None:
            progress(done, len(unknown))
    memory.keep_only(set(tenants))
    if fine:
        memory.save()
    was, changed = None, list[Problem]()
    if base is not None:
        changed, was = _changes(source, offers, base, contents, parts, today or as_of)
    shared = _shared(offers, parts, was, source, changed_files)
    files += sum(len(scope_files.files) for scope_files in raw)
    everything = _sorted(problems, changed, shared, *by_tenant.values())
    return Survey(
        offers=offers,
        parts=parts,
        problems=everything,
        files=files,
        remembered=remembered,
        made=artifacts,
        of_offers=problems,
        by_tenant=by_tenant,
        shared=shared,
        standings=standings,
        traces=traces,
        sound=sound,
    )


def resurvey(
    last: Survey,
    source: Source,
    tenants: Collection[str],
    render: Render | None = None,
    base: Source | None = None,
    changed_files: ChangedFiles | None = None,
) -> Survey:
    """Return a survey after nothing but these tenants' folders changed: they are read again, and all that crosses
    files.

    With `base`, which `last` is of, rules about change are checked too. Changes of offers need a whole `survey`.
    """
    parts, by_tenant, artifacts, traces = dict(last.parts), dict(last.by_tenant), dict[str, Any](), dict(last.traces)
    scopes, astray = source.scopes()
    present_tenants = {scope.name for scope in scopes if scope.kind == "tenant"}
    was, changed = None, list[Problem]()
    if base is not None:
        from allotment.rules.tally import Base

        was = Base(last.parts, last.offers.clusters)
        ends = [(Scope("tenant", name), name in last.parts, name in present_tenants) for name in tenants]
        findings = [
            finding
            for scope, was_there, is_there in ends
            for finding in _change(
                source,
                last.offers,
                base,
                scope=scope,
                was_there=was_there,
                is_there=is_there,
                today=last.offers.as_of,
            )[1]
        ]
        changed = placed(findings, source)
    for name in tenants:
        parts.pop(name, None)
        by_tenant.pop(name, None)
        traces.pop(name, None)
        if name in present_tenants:
            result = TenantCheck(source, last.offers, render, False, last.standings).check([name])[0]
            parts[name], artifacts[name] = tenants_part(result.part), result.made
            if result.problems:
                by_tenant[name] = result.problems
            if result.trace:
                traces[name] = result.trace
    shared = _shared(last.offers, parts, was, source, changed_files)
    stays = [
        finding
        for finding in last.of_offers
        if not any(finding.path.startswith(f"tenants/{name}/") for name in tenants)
    ]
    of_offers = [*stays, *(problem for problem in astray if problem not in stays)]
    everything = _sorted(of_offers, shared, changed, *by_tenant.values())
    return Survey(
        offers=last.offers,
        parts=parts,
        problems=everything,
        files=last.files,
        remembered=len(parts) - len(artifacts),
        made=artifacts,
        of_offers=of_offers,
        by_tenant=by_tenant,
        shared=shared,
        standings=last.standings,
        traces=traces,
    )


def _sorted(*problem_groups: Iterable[Problem]) -> list[Problem]:
    """Return all problems in order, one for each mistake: where a name isn't on offer to its tenant at all, that there is
    none left of it says nothing more."""
    from allotment.rules import references, stock

    unique_problems = {problem for problems in problem_groups for problem in problems}
    missing = {candidate[:4] for candidate in unique_problems if candidate.rule == references.RULE}
    return sorted(
        candidate for candidate in unique_problems if candidate.rule != stock.RULE or candidate[:4] not in missing
    )


def tenants_part(plain: Iterable[Any]) -> Part:
    """Return a part from its tuples or from JSON's lists; a part as it is."""
    from allotment.accounts.capacity import Claim
    from allotment.rules.tally import Held, Part, Read, Share, UnknownStorage

    if type(plain) is Part:
        return plain
    claims, storages, clusters, shares, reads, invalid, unknown = plain
    return Part(
        claims=tuple([Claim(*fields) for fields in claims]),
        storages=tuple([Held(*fields) for fields in storages]),
        clusters=tuple(clusters),
        shares=tuple([Share(cluster, tenant, storage, tuple(readers)) for cluster, tenant, storage, readers in shares]),
        reads=tuple([Read(*fields) for fields in reads]),
        invalid=tuple(invalid),
        unknown=tuple([UnknownStorage(path, tuple(field), tenant, name) for path, field, tenant, name in unknown]),
    )


def _memory_key(as_of: datetime.date, contents: Mapping[Scope, str]) -> str:
    """What was fine is fine only under the same program, day and offers."""
    return f"{program_key()} {as_of} " + json.dumps(sorted((*scope, content) for scope, content in contents.items()))


def _recalled(
    source: Source, memory: Memory, tenants: set[str], contents: dict[Scope, str]
) -> tuple[dict[str, Part], int]:
    """Return the parts of tenants that are as they were when they were found fine, and how many files they have."""
    parts: dict[str, Part] = {}
    files = 0
    for name, (stamp, content, count, part) in memory.values.items():
        scope = Scope("tenant", name)
        if name in tenants and source.unchanged(scope, stamp):
            contents[scope] = content
            parts[name] = tenants_part(part)
            files += count
    return parts, files


def _offers(raw: list[Raw], as_of: datetime.date, source: Source) -> tuple[Offers, list[Problem]]:
    from allotment.declared.inventory import Folder, Offers
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder
    from allotment.rules import PLATFORM_RULES

    problems: list[Problem] = []
    folders: dict[Scope, Folder] = {PLATFORM: Folder(PLATFORM)}
    for scope_files in raw:
        folders[scope_files.scope], wrong = read_folder(scope_files.scope, scope_files.files)
        problems += scope_files.problems + wrong
    clusters = {scope.name: folder for scope, folder in sorted(folders.items()) if scope.kind == "cluster"}
    offers = Offers(folders[PLATFORM], clusters, as_of)
    findings = [finding for check in PLATFORM_RULES.values() for finding in check(offers)]
    return offers, problems + placed(findings, source)


def _shared(
    offers: Offers, parts: Mapping[str, Part], base: Base | None, source: Source, changed_files: ChangedFiles | None
) -> list[Problem]:
    from allotment.rules import SHARED_RULES
    from allotment.rules.tally import Tally, nothing_changed

    tally = Tally(parts, base, changed_files or nothing_changed)
    return placed([finding for check in SHARED_RULES.values() for finding in check(offers, tally)], source)


def _changes(
    source: Source,
    offers: Offers,
    base: Source,
    contents: Mapping[Scope, str],
    parts: Mapping[str, Part],
    today: datetime.date,
) -> tuple[list[Problem], Base]:
    """Return the problems of what changed since `base`, and what all tenants and clusters were there."""
    from allotment.rules.tally import Base, part_of

    old_scopes = set(base.scopes()[0])
    base_parts = {name: part for name, part in parts.items() if Scope("tenant", name) in old_scopes}
    clusters = dict(offers.clusters)
    findings: list[Finding] = []
    for scope in sorted(old_scopes | contents.keys()):
        if scope not in old_scopes or base.files(scope).content != contents.get(scope):
            was, scope_findings = _change(
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
                base_parts[scope.name] = part_of(offers, was)
            elif scope.kind == "cluster":
                clusters[scope.name] = was
    return placed(findings, source), Base(base_parts, clusters)


def _change(
    source: Source, offers: Offers, base: Source, *, scope: Scope, was_there: bool, is_there: bool, today: datetime.date
) -> tuple[Folder, list[Finding]]:
    """Return a folder as it was at the base, empty where it wasn't there, and what is wrong with its change."""
    from allotment.declared.inventory import Folder
    from allotment.declared.reading import read_folder
    from allotment.rules import CHANGE_RULES
    from allotment.rules.change import Change

    was = read_folder(scope, read_scope(base, scope).files)[0] if was_there else Folder(scope)
    is_now = read_folder(scope, read_scope(source, scope).files)[0] if is_there else Folder(scope)
    change = Change(offers, was, is_now, today)
    return was, [finding for check in CHANGE_RULES.values() for finding in check(change)]
