"""Reads and checks scopes: one here, many tenants on all cores."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from allotment.adapters.source import ScopeFiles, Source, content_key, place_problem
from allotment.declared.inventory import blob_id
from allotment.declared.layout import Scope
from allotment.problems import Finding, Problem

if TYPE_CHECKING:
    from allotment.declared.inventory import Folder, Offers

CHUNK = 50
MOST_PROBLEMS = 1_000  # of a tenant that are looked up in its files: each costs a reading of its own
ALONE = 60  # fewer tenants than this aren't worth other processes

Each = Callable[["Offers", "list[Folder]"], list[Any]]
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
    """What came of a tenant: how many files, its content's key and stamp, its part, its problems, what `each` made."""

    name: str
    files: int
    content: str
    stamp: Any
    part: tuple[Any, ...]
    problems: list[Problem]
    made: Any


def cores() -> int:
    """Return how many processes may run at once."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def read_scope(source: Source, scope: Scope, *, stamped: bool = False) -> Raw:
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


def placed(findings: Iterable[Finding], source: Source) -> list[Problem]:
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


def _placed_most(findings: list[Finding], source: Source) -> list[Problem]:
    """Return a tenant's findings as problems, the first of very many, and how many there are besides."""
    problems = placed(findings[:MOST_PROBLEMS], source)
    if (left := len(findings) - MOST_PROBLEMS) > 0:
        problems.append(place_problem(findings[-1].path, f"and {left:,} more problems of this tenant", "size"))
    return problems


class Work(NamedTuple):
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

        raw = [read_scope(self.source, Scope("tenant", name), stamped=self.stamped) for name in names]
        read = [read_folder(one.scope, one.files) for one in raw]
        problems = [
            one.problems
            + wrong
            + _placed_most(
                [found for check in TENANT_RULES.values() for found in check(self.offers, folder)], self.source
            )
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
