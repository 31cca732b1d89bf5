"""Reads and checks scopes: one here, many tenants on all cores."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from allotment.adapters.source import ScopeFiles, Source, content_key, place_problem
from allotment.declared.inventory import blob_id
from allotment.declared.layout import Scope, folder_of
from allotment.pipeline.check.share import MOST_BYTES, MOST_FILES, TOO_LONG, Spent, Stopped, TimeShare
from allotment.pipeline.check.tenant_error import rejection_of
from allotment.problems import Finding, Problem
from allotment.readiness.standing import Standing, Standings

if TYPE_CHECKING:
    from allotment.declared.inventory import Folder, Offers

CHUNK = 50
MOST_PROBLEMS = 1_000  # of a tenant that are looked up in its files: each costs a reading of its own
ALONE = 60  # fewer tenants than this aren't worth other processes

Entrant = tuple["Folder", Standing, TimeShare]  # a tenant without errors, and what is known of it
Render = Callable[["Offers", list[Entrant]], list[Any]]  # `pipeline.render.Renderer`, whose `keep` says what is made
R = TypeVar("R")


class Chunked(Protocol[R]):
    """Work on tenants that may be shared out among processes."""

    def check(self, names: list[str]) -> list[R]:
        """Return what came of some tenants, in their order."""
        ...


class Raw(NamedTuple):
    """A scope's files with their bytes, the problems of files that can't be had, and the key of the content."""

    scope: Scope
    files: list[tuple[str, bytes]]
    problems: list[Problem]
    content: str
    stamp: Any


class TenantResult(NamedTuple):
    """The outcome of one tenant: its file count, the key and stamp of its content, its part, its problems, the
    result of `render`, and the trace of the bug that it ran into, if any."""

    name: str
    files: int
    content: str
    stamp: Any
    part: tuple[Any, ...]
    problems: list[Problem]
    made: Any
    trace: str = ""


def cores() -> int:
    """Return how many processes may run at once."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def read_scope(source: Source, scope: Scope, *, stamped: bool = False) -> Raw:
    """Return a scope's files with their bytes; of a tenant that has more than its share, nothing beyond that."""
    listed: ScopeFiles = source.files(scope, stamped=stamped)
    problems = list(listed.problems)
    files: list[tuple[str, bytes]] = []
    room = MOST_BYTES
    for path in listed.paths:
        if scope.kind == "tenant" and (room < 0 or len(files) >= MOST_FILES):
            words = (
                f"a tenant's folder holds at most {MOST_FILES:,} files of {MOST_BYTES >> 20} MiB together: remove some"
            )
            problems.append(place_problem(folder_of(scope), words, "size"))
            break
        try:
            files.append((path, source.read(path)))
            room -= len(files[-1][1])
        except OSError as error:
            problems.append(place_problem(path, f"can't be read: {error.strerror}", "unreadable"))
    content = listed.content or content_key([(path, blob_id(data)) for path, data in files])
    return Raw(scope, files, problems, content, listed.stamp)


def placed(findings: Iterable[Finding], source: Source) -> list[Problem]:
    """Return findings as problems; a finding about a file that isn't there stands at its first line."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    if not by_path:
        return []
    from allotment.declared.reading import place

    problems: list[Problem] = []
    for path, file_findings in by_path.items():
        try:
            data = source.read(path)
        except (OSError, KeyError):
            data = b""
        problems += place(file_findings, data)
    return problems


def _placed_most(findings: list[Finding], source: Source) -> list[Problem]:
    """Return a tenant's findings as problems, the first of very many, and how many there are besides."""
    problems = placed(findings[:MOST_PROBLEMS], source)
    if (remaining := len(findings) - MOST_PROBLEMS) > 0:
        problems.append(place_problem(findings[-1].path, f"and {remaining:,} more problems of this tenant", "size"))
    return problems


class TenantCheck(NamedTuple):
    """What a process needs to check tenants; `standings` says what is known of each, `seconds` is each one's share of
    processor time, None for any. Tenants are rendered with `sound`, the catalog without the clusters that have an error;
    `unsound` has those clusters' first errors, and a tenant that declares something there is rejected."""

    source: Source
    offers: Offers
    render: Render | None
    stamped: bool
    standings: Standings
    seconds: float | None = None
    sound: Offers | None = None
    unsound: Mapping[str, str] = MappingProxyType({})

    def check(self, names: list[str]) -> list[TenantResult]:
        """Read, check and perhaps render some tenants, all of them step by step: each step's code stays in the caches."""
        raw = [read_scope(self.source, Scope("tenant", name), stamped=self.stamped) for name in names]
        tenant_jobs = [_Checked(scope_files, TimeShare(self.seconds)) for scope_files in raw]
        for tenant_job in tenant_jobs:
            tenant_job.read()
        for tenant_job in tenant_jobs:
            tenant_job.judge(self.offers, self.source)
        for tenant_job in tenant_jobs:
            tenant_job.count(self.offers, self.standings)
        if self.render is not None:
            for tenant_job in tenant_jobs:
                tenant_job.require(self.unsound)
            fine = [(tenant_job, folder) for tenant_job in tenant_jobs if (folder := tenant_job.fine()) is not None]
            some = [(folder, self.standings(folder.name), tenant_job.share) for tenant_job, folder in fine]
            artifacts = self.render(self.sound or self.offers, some)
            for (tenant_job, _), files in zip(fine, artifacts, strict=True):
                tenant_job.take(files)
        return [tenant_job.result() for tenant_job in tenant_jobs]


class _Checked:
    """A tenant on its way. One that is stopped is wrong for that, and nothing more is done for it."""

    def __init__(self, raw: Raw, share: TimeShare) -> None:
        from allotment.rules.tally import Part

        self.raw, self.share = raw, share
        self.folder: Folder | None = None
        self.problems: list[Problem] = list(raw.problems)
        self.part: tuple[Any, ...] = ((),) * len(Part._fields)
        self.made: Any = None
        self.trace = ""

    def read(self) -> None:
        """Read its files."""
        from allotment.declared.reading import read_folder

        with self._within_its_share():
            self.folder, wrong = read_folder(self.raw.scope, self.share.through(self.raw.files))
            self.problems += wrong

    def judge(self, offers: Offers, source: Source) -> None:
        """Hold it against the rules."""
        from allotment.rules import TENANT_RULES

        if (folder := self.folder) is not None:
            with self._within_its_share():
                every = (finding for check in TENANT_RULES.values() for finding in check(offers, folder))
                self.problems += _placed_most(list(self.share.through(every)), source)

    def count(self, offers: Offers, standings: Standings) -> None:
        """Count what it claims."""
        from allotment.rules.tally import part_of

        if (folder := self.folder) is not None:
            with self._within_its_share():
                self.part = tuple(part_of(offers, folder, standings(folder.name)))

    def require(self, unsound: Mapping[str, str]) -> None:
        """Reject it where it declares something in a cluster that has an error."""
        if (folder := self.fine()) is None or not unsound:
            return
        from allotment.declared.placement import clusters_of

        for cluster in clusters_of(folder):
            if cluster in unsound:
                self._stop(Stopped(f"cluster {cluster} is invalid: {unsound[cluster]}", "cluster"))
                return

    def fine(self) -> Folder | None:
        """Return its folder if there is nothing wrong with it."""
        return self.folder if all(problem.warning for problem in self.problems) else None

    def take(self, artifact: Any) -> None:
        """Take what was made of it."""
        if isinstance(artifact, Stopped):
            self._stop(artifact)
        else:
            self.made = artifact

    def result(self) -> TenantResult:
        """Return what came of it."""
        raw = self.raw
        return TenantResult(
            name=raw.scope.name,
            files=len(raw.files),
            content=raw.content,
            stamp=raw.stamp,
            part=self.part,
            problems=self.problems,
            made=self.made,
            trace=self.trace,
        )

    @contextmanager
    def _within_its_share(self) -> Iterator[None]:
        try:
            with self.share.taken():
                yield
        except Spent:
            self._stop(TOO_LONG)
        except Exception as error:
            self._stop(rejection_of(error))

    def _stop(self, why: Stopped) -> None:
        self.folder = None
        self.trace = why.trace
        self.problems.append(place_problem(folder_of(self.raw.scope), why.words, why.rule))


_work: Chunked[Any] | None = None  # what a forked process inherits


def _quiet_collector() -> None:
    """A process that lives for seconds and makes trees, not cycles, gains nothing from a cycle collector's rounds."""
    gc.freeze()
    gc.disable()


def _check_chunk(names: list[str]) -> list[Any]:
    assert _work is not None
    return _work.check(names)


def results(work: Chunked[R], names: list[str], processes: int) -> Iterator[R]:
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
        for some in pool.map(_check_chunk, chunks):
            yield from some
