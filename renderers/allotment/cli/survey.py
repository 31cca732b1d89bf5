"""Reads a whole source, checks everything, tenant by tenant on all cores; what was found fine before is remembered.

A tenant that was fine stays fine while its files, the offers and the program are the same: its part of the tally is
all that the others need of it. Tenants with problems or warnings are read again every time.
"""

from __future__ import annotations

import datetime
import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.adapters.memory import Memory, program_key
from allotment.adapters.source import ScopeFiles, Source, blob_id, content_key, place_problem
from allotment.declared.layout import Scope
from allotment.problems import Finding, Problem

if TYPE_CHECKING:
    from allotment.declared.inventory import Folder, Offers
    from allotment.rules.tally import Part

CHUNK = 50
ALONE = 60  # fewer tenants than this aren't worth other processes

Each = Callable[["Offers", "list[Folder]"], list[Any]]


class Raw(NamedTuple):
    """A scope's files with their bytes, the problems of files that can't be had, and the key of the content."""

    scope: Scope
    files: list[tuple[str, bytes]]
    problems: list[Problem]
    content: str
    stamp: Any


class TenantResult(NamedTuple):
    """What came of a tenant: how many files, its content's key and stamp, its part, its problems, what `each` made."""

    name: str
    files: int
    content: str
    stamp: Any
    part: tuple[Any, ...]
    problems: list[Problem]
    made: Any


class Survey(NamedTuple):
    """What was read and found. `remembered` counts the tenants that were known to be fine.

    `problems` are all of them, sorted; `by_tenant` those of each tenant's own files, `of_offers` the platform's.
    """

    offers: Offers
    parts: dict[str, Part]
    problems: list[Problem]
    files: int
    remembered: int
    made: dict[str, Any]
    of_offers: list[Problem]
    by_tenant: dict[str, list[Problem]]

    @property
    def errors(self) -> list[Problem]:
        """The problems that aren't warnings."""
        return [problem for problem in self.problems if not problem.warning]


def survey(
    source: Source,
    as_of: datetime.date,
    *,
    memory_name: str | None = None,
    each: Each | None = None,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    base: Source | None = None,
) -> Survey:
    """Return everything about `source`. `each` makes something of tenants without errors, in whatever process has them."""
    scopes, problems = source.scopes()
    tenants = [scope.name for scope in scopes if scope.kind == "tenant"]
    raw = [_read(source, scope) for scope in scopes if scope.kind != "tenant"]
    contents = {one.scope: one.content for one in raw}
    key = f"{program_key()} {as_of} " + json.dumps(sorted((*scope, content) for scope, content in contents.items()))
    memory = Memory.none() if memory_name is None or each is not None else Memory.load(memory_name, key)
    recall = _Recall(source, memory)
    offers, wrong = _offers(raw, as_of, source)
    problems = [*problems, *wrong]
    parts, files = _recalled(recall, memory, set(tenants), contents)
    remembered = len(parts)
    unknown = [name for name in tenants if name not in parts]
    work = _Work(source, offers, each, memory_name is not None and each is None)
    made: dict[str, Any] = {}
    by_tenant: dict[str, list[Problem]] = {}
    for done, result in enumerate(_results(work, unknown, processes or _cores()), 1):
        if result.problems:
            by_tenant[result.name] = result.problems
        contents[Scope("tenant", result.name)] = result.content
        parts[result.name] = _part(result.part)
        files += result.files
        made[result.name] = result.made
        if not result.problems and result.stamp is not None:
            memory.put(result.name, [result.stamp, result.content, result.files, result.part])
        else:
            memory.forget(result.name)
        if progress is not None:
            progress(done, len(unknown))
    memory.keep_only(set(tenants))
    if all(problem.warning for problem in wrong):
        memory.save()
    before, changed = None, list[Problem]()
    if base is not None:
        changed, before = _changes(source, offers, base, contents, parts)
    shared = _shared(offers, parts, before, source)
    files += sum(len(one.files) for one in raw)
    everything = _sorted(problems, changed, shared, *by_tenant.values())
    return Survey(offers, parts, everything, files, remembered, made, problems, by_tenant)


def resurvey(last: Survey, source: Source, tenants: Iterable[str], each: Each | None = None) -> Survey:
    """Return a survey after nothing but these tenants' folders changed: they are read again, and all that crosses files.

    For who watches the files (`--watch`); changes of offers, and rules about change, need a whole `survey`.
    """
    parts, by_tenant, made = dict(last.parts), dict(last.by_tenant), dict[str, Any]()
    there = {scope.name for scope in source.scopes()[0] if scope.kind == "tenant"}
    for name in tenants:
        parts.pop(name, None)
        by_tenant.pop(name, None)
        if name in there:
            result = _Work(source, last.offers, each, False).check([name])[0]
            parts[name], made[name] = _part(result.part), result.made
            if result.problems:
                by_tenant[name] = result.problems
    shared = _shared(last.offers, parts, None, source)
    everything = _sorted(last.of_offers, shared, *by_tenant.values())
    return Survey(last.offers, parts, everything, last.files, len(parts) - len(made), made, last.of_offers, by_tenant)


def _sorted(*several: Iterable[Problem]) -> list[Problem]:
    return sorted({problem for problems in several for problem in problems})


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _part(plain: Iterable[Any]) -> Part:
    """Return a part from its tuples or from JSON's lists."""
    from allotment.accounts.capacity import Claim
    from allotment.rules.tally import Held, Part

    claims, storages, clusters = plain
    return Part(tuple(Claim(*one) for one in claims), tuple(Held(*one) for one in storages), tuple(clusters))


def _read(source: Source, scope: Scope, *, stamped: bool = False) -> Raw:
    """Return a scope's files with their bytes."""
    listed: ScopeFiles = source.files(scope, stamped=stamped)
    problems = list(listed.problems)
    files: list[tuple[str, bytes]] = []
    for path in listed.paths:
        try:
            files.append((path, source.read(path)))
        except OSError as error:
            problems.append(place_problem(path, f"can't be read: {error.strerror}", "unreadable"))
    content = listed.content or content_key([(path, blob_id(data)) for path, data in files])
    return Raw(scope, files, problems, content, listed.stamp)


class _Recall:
    """Asks the source which remembered tenants are unchanged, in another process while this one loads its rules."""

    def __init__(self, source: Source, memory: Memory) -> None:
        self._pipe = -1
        self._child = 0
        self._names: list[str] = []
        if not memory.values:
            return
        if len(memory.values) < ALONE or not hasattr(os, "fork"):
            self._names = _unchanged(source, memory)
            return
        self._pipe, write = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            status = 1
            try:
                with os.fdopen(write, "w") as file:
                    json.dump(_unchanged(source, memory), file)
                status = 0
            finally:
                os._exit(status)
        os.close(write)

    def names(self) -> list[str]:
        """Return the names of unchanged tenants; none when the other process failed."""
        if self._child:
            with os.fdopen(self._pipe) as file:
                text = file.read()
            _, status = os.waitpid(self._child, 0)
            self._names = json.loads(text) if status == 0 else []
            self._child = 0
        return self._names


def _unchanged(source: Source, memory: Memory) -> list[str]:
    return [name for name, (stamp, *_) in memory.values.items() if source.unchanged(Scope("tenant", name), stamp)]


def _recalled(
    recall: _Recall, memory: Memory, tenants: set[str], contents: dict[Scope, str]
) -> tuple[dict[str, Part], int]:
    """Return the parts of tenants that are as they were when they were found fine, and how many files they have."""
    parts: dict[str, Part] = {}
    files = 0
    for name in recall.names():
        if name in tenants:
            _, content, count, part = memory.values[name]
            contents[Scope("tenant", name)] = content
            parts[name] = _part(part)
            files += count
    return parts, files


def _offers(raw: list[Raw], as_of: datetime.date, source: Source) -> tuple[Offers, list[Problem]]:
    from allotment.declared.inventory import Folder, Offers
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder
    from allotment.rules import PLATFORM_RULES

    problems: list[Problem] = []
    folders: dict[Scope, Folder] = {PLATFORM: Folder(PLATFORM)}
    for one in raw:
        folders[one.scope], wrong = read_folder(one.scope, one.files)
        problems += one.problems + wrong
    clusters = {scope.name: folder for scope, folder in sorted(folders.items()) if scope.kind == "cluster"}
    offers = Offers(folders[PLATFORM], clusters, as_of)
    findings = [finding for check in PLATFORM_RULES.values() for finding in check(offers)]
    return offers, problems + _placed(findings, source)


def _placed(findings: Iterable[Finding], source: Source) -> list[Problem]:
    """Return findings as problems; a finding about a file that isn't there stands at its first line."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    if not by_path:
        return []
    from allotment.declared.reading import place

    problems: list[Problem] = []
    for path, several in by_path.items():
        try:
            data = source.read(path)
        except (OSError, KeyError):
            data = b""
        problems += place(several, data)
    return problems


class _Work(NamedTuple):
    """What a process needs to check tenants."""

    source: Source
    offers: Offers
    each: Each | None
    stamped: bool

    def check(self, names: list[str]) -> list[TenantResult]:
        """Read, check and perhaps render some tenants, all of them step by step: each step's code stays in the caches."""
        from allotment.declared.reading import read_folder
        from allotment.rules import TENANT_RULES
        from allotment.rules.tally import part_of

        raw = [_read(self.source, Scope("tenant", name), stamped=self.stamped) for name in names]
        read = [read_folder(one.scope, one.files) for one in raw]
        problems = [
            one.problems
            + wrong
            + _placed([found for check in TENANT_RULES.values() for found in check(self.offers, folder)], self.source)
            for one, (folder, wrong) in zip(raw, read, strict=True)
        ]
        parts = [tuple(part_of(self.offers, folder)) for folder, _ in read]
        made: dict[str, Any] = {}
        if self.each is not None:
            fine = [
                folder
                for (folder, _), wrong in zip(read, problems, strict=True)
                if all(problem.warning for problem in wrong)
            ]
            made = dict(zip([folder.name for folder in fine], self.each(self.offers, fine), strict=True))
        return [
            TenantResult(one.scope.name, len(one.files), one.content, one.stamp, part, wrong, made.get(one.scope.name))
            for one, part, wrong in zip(raw, parts, problems, strict=True)
        ]


_work: _Work | None = None  # what a forked process inherits


def _quiet_collector() -> None:
    """A process that lives for seconds and makes trees, not cycles, gains nothing from a cycle collector's rounds."""
    gc.freeze()
    gc.disable()


def _check_chunk(names: list[str]) -> list[TenantResult]:
    assert _work is not None
    return _work.check(names)


def _results(work: _Work, names: list[str], processes: int) -> Iterator[TenantResult]:
    """Yield every tenant's result, in the order of names whatever the number of processes."""
    global _work  # noqa: PLW0603  # a forked process inherits it without pickling
    chunks = [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)]
    if len(names) < ALONE or processes < 2 or not hasattr(os, "fork"):
        for chunk in chunks:
            yield from work.check(chunk)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import allotment.rules  # noqa: F401  # loaded once, before the fork

    _work = work
    with ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("fork"), initializer=_quiet_collector
    ) as pool:
        for results in pool.map(_check_chunk, chunks):
            yield from results


def _shared(
    offers: Offers, parts: Mapping[str, Part], before: Mapping[str, Part] | None, source: Source
) -> list[Problem]:
    from allotment.rules import SHARED_RULES
    from allotment.rules.tally import Tally

    tally = Tally(parts, before)
    return _placed([finding for check in SHARED_RULES.values() for finding in check(offers, tally)], source)


def _changes(
    source: Source, offers: Offers, base: Source, contents: Mapping[Scope, str], parts: Mapping[str, Part]
) -> tuple[list[Problem], dict[str, Part]]:
    """Return the problems of what changed since `base`, and every tenant's part as it was there."""
    from allotment.declared.inventory import Folder
    from allotment.declared.reading import read_folder
    from allotment.rules import CHANGE_RULES
    from allotment.rules.change import Change
    from allotment.rules.tally import part_of

    old_scopes = set(base.scopes()[0])
    before = {name: part for name, part in parts.items() if Scope("tenant", name) in old_scopes}
    findings: list[Finding] = []
    for scope in sorted(old_scopes | contents.keys()):
        if scope in old_scopes and base.files(scope).content == contents.get(scope):
            continue
        was = read_folder(scope, _read(base, scope).files)[0] if scope in old_scopes else Folder(scope)
        is_now = read_folder(scope, _read(source, scope).files)[0] if scope in contents else Folder(scope)
        if scope.kind == "tenant" and scope in old_scopes:
            before[scope.name] = part_of(offers, was)
        change = Change(offers, was, is_now)
        findings += [finding for check in CHANGE_RULES.values() for finding in check(change)]
    return _placed(findings, source), before
