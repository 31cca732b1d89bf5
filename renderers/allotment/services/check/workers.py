"""Reads the files of scopes, and checks tenants. Uses all cores if there are many tenants."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from allotment.adapters.declaration_source import ScopeFiles, Source, content_key, path_problem
from allotment.declared.inventory import compute_blob_id
from allotment.declared.layout import Scope, folder_of
from allotment.preparation.runtime_state import RuntimeStates
from allotment.problems import Finding, Problem
from allotment.services.check.artifacts import ArtifactBuilder, ValidTenant
from allotment.services.check.cpu_budget import (
    BUDGET_REJECTION,
    MAX_BYTES,
    MAX_FILES,
    BudgetExceeded,
    CpuBudget,
    Rejection,
)
from allotment.services.check.tenant_error import build_rejection

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog, ScopeDeclarations
    from allotment.rules.tally import TallyEntry

BATCH_SIZE = 50
# The number of findings of one tenant that become problems. The remaining findings are only counted, because Allotment
# must parse the file of a finding again to find the line.
MAX_PROBLEMS = 1_000
MIN_PARALLEL_TENANTS = 60  # for fewer tenants, worker processes cost more time than they save

A = TypeVar("A")
R = TypeVar("R")


class BatchTask(Protocol[R]):
    """Work on tenants that can be split among processes."""

    def run_batch(self, names: list[str]) -> list[R]:
        """Return the results of some tenants, in the order of `names`."""

    def load_modules(self) -> None:
        """Load the modules that `run_batch` needs, so that the processes need not load them."""


class ScopeContent(NamedTuple):
    """The files of a scope with their bytes, and the problems of its paths and of unreadable files.

    `content_key` is a hash of the files. With `stamp`, a later check finds out whether the files have changed.
    """

    scope: Scope
    files: list[tuple[str, bytes]]
    problems: list[Problem]
    content_key: str
    stamp: Any


class TenantResult(NamedTuple, Generic[A]):
    """The result of the check of one tenant.

    - `content_key` and `stamp` identify the content of the tenant's files, as in `ScopeContent`.
    - `tally_entry` is a summary of the tenant for the rules that compare several tenants.
    - `artifact` is the value that the builder of artifacts returned for the tenant.
    - `traceback` is the traceback if a bug of Allotment occurred on this tenant.
    """

    name: str
    file_count: int
    content_key: str
    stamp: Any
    tally_entry: TallyEntry
    problems: list[Problem]
    artifact: A | None
    traceback: str = ""


def count_cores() -> int:
    """Return the number of processes that can run at once."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def read_scope(source: Source, scope: Scope, *, stamped: bool = False) -> ScopeContent:
    """Return the files of a scope with their bytes.

    If a tenant exceeds MAX_FILES or MAX_BYTES, the remaining files are not read.
    """
    listed: ScopeFiles = source.files(scope, stamped=stamped)
    problems = list(listed.problems)
    files: list[tuple[str, bytes]] = []
    room = MAX_BYTES
    for path in listed.paths:
        if scope.kind == "tenant" and (room < 0 or len(files) >= MAX_FILES):
            message = (
                f"a tenant's folder holds at most {MAX_FILES:,} files of {MAX_BYTES >> 20} MiB together: remove some"
            )
            problems.append(path_problem(folder_of(scope), message, "size"))
            break
        try:
            files.append((path, source.read(path)))
            room -= len(files[-1][1])
        except OSError as error:
            problems.append(path_problem(path, f"can't be read: {error.strerror}", "unreadable"))
    content = listed.content_hash or content_key([(path, compute_blob_id(data)) for path, data in files])
    return ScopeContent(scope, files, problems, content, listed.stamp)


def locate_findings(findings: Iterable[Finding], source: Source) -> list[Problem]:
    """Return the findings as problems, each with its line. If the file is missing, the line is 1."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    if not by_path:
        return []
    from allotment.declared.reading import locate_problems

    problems: list[Problem] = []
    for path, file_findings in by_path.items():
        try:
            data = source.read(path)
        except (OSError, KeyError):
            data = b""
        problems += locate_problems(file_findings, data)
    return problems


def _locate_first_findings(findings: list[Finding], source: Source) -> list[Problem]:
    """Return the first MAX_PROBLEMS findings of a tenant as problems.

    If there are more findings, the last problem gives the number of the remaining findings.
    """
    problems = locate_findings(findings[:MAX_PROBLEMS], source)
    if (remaining := len(findings) - MAX_PROBLEMS) > 0:
        problems.append(path_problem(findings[-1].path, f"and {remaining:,} more problems of this tenant", "size"))
    return problems


class TenantCheck(NamedTuple, Generic[A]):
    """The input that a process needs to check tenants.

    `runtime_states` returns the runtime state of a tenant. `cpu_seconds` limits the processor time of each tenant; None
    is no limit. `builder` builds the artifacts with `valid_catalog`, the catalog without the clusters that have an error.
    `invalid_clusters` maps each cluster with an error to its first error. If `builder` is given, a tenant that declares
    something in an invalid cluster is rejected.
    """

    source: Source
    catalog: Catalog
    builder: ArtifactBuilder[A] | None
    with_stamps: bool
    runtime_states: RuntimeStates
    cpu_seconds: float | None = None
    valid_catalog: Catalog | None = None
    invalid_clusters: Mapping[str, str] = MappingProxyType({})

    def load_modules(self) -> None:
        """Load the rules, and the modules of the builder."""
        import allotment.rules  # noqa: F401

        if self.builder is not None:
            self.builder.load_modules()

    def run_batch(self, names: list[str]) -> list[TenantResult[A]]:
        """Read and check some tenants, and build their artifacts.

        Each step runs for all tenants before the next step begins, so that the code of the step stays in the caches of
        the processor.
        """
        contents = [read_scope(self.source, Scope("tenant", name), stamped=self.with_stamps) for name in names]
        tenant_jobs: list[_TenantJob[A]] = [_TenantJob(content, CpuBudget(self.cpu_seconds)) for content in contents]
        for tenant_job in tenant_jobs:
            tenant_job.read_files()
        for tenant_job in tenant_jobs:
            tenant_job.check_rules(self.catalog, self.source)
        for tenant_job in tenant_jobs:
            tenant_job.build_tally_entry(self.catalog, self.runtime_states)
        if self.builder is not None:
            for tenant_job in tenant_jobs:
                tenant_job.reject_for_clusters(self.invalid_clusters)
            valid_jobs = [
                (tenant_job, ValidTenant(folder, self.runtime_states(folder.name), tenant_job.budget))
                for tenant_job in tenant_jobs
                if (folder := tenant_job.find_valid_folder()) is not None
            ]
            valid_tenants = [tenant for _, tenant in valid_jobs]
            artifacts = self.builder.build_artifacts(self.valid_catalog or self.catalog, valid_tenants)
            for (tenant_job, _), artifact in zip(valid_jobs, artifacts, strict=True):
                tenant_job.store_artifact(artifact)
        return [tenant_job.build_result() for tenant_job in tenant_jobs]


class _TenantJob(Generic[A]):
    """The check of one tenant, step by step. A rejection adds a problem and skips the remaining steps."""

    def __init__(self, content: ScopeContent, budget: CpuBudget) -> None:
        from allotment.rules.tally import TallyEntry

        self.content, self.budget = content, budget
        self.folder: ScopeDeclarations | None = None
        self.problems: list[Problem] = list(content.problems)
        self.tally_entry = TallyEntry((), (), ())
        self.artifact: A | None = None
        self.traceback = ""

    def read_files(self) -> None:
        """Read the files of the tenant."""
        from allotment.declared.reading import read_folder

        with self._within_budget():
            self.folder, problems = read_folder(self.content.scope, self.budget.meter(self.content.files))
            self.problems += problems

    def check_rules(self, catalog: Catalog, source: Source) -> None:
        """Apply the rules to the tenant."""
        from allotment.rules import TENANT_RULES
        from allotment.rules.references import add_names

        if (folder := self.folder) is not None:
            with self._within_budget():
                every = (finding for check in TENANT_RULES.values() for finding in check(catalog, folder))
                self.problems += _locate_first_findings(list(self.budget.meter(every)), source)
                self.problems = [add_names(catalog, folder, problem) for problem in self.problems]

    def build_tally_entry(self, catalog: Catalog, runtime_states: RuntimeStates) -> None:
        """Build the tally entry of the tenant."""
        from allotment.rules.tally import build_tally_entry

        if (folder := self.folder) is not None:
            with self._within_budget():
                self.tally_entry = build_tally_entry(catalog, folder, runtime_states(folder.name))

    def reject_for_clusters(self, invalid_clusters: Mapping[str, str]) -> None:
        """Reject the tenant if it declares something in a cluster that has an error."""
        if (folder := self.find_valid_folder()) is None or not invalid_clusters:
            return
        from allotment.declared.placement import clusters_of

        for cluster in clusters_of(folder):
            if cluster in invalid_clusters:
                self._reject(Rejection(f"cluster {cluster} is invalid: {invalid_clusters[cluster]}", "cluster"))
                return

    def find_valid_folder(self) -> ScopeDeclarations | None:
        """Return the declarations of the tenant if it has no errors, else None."""
        return self.folder if all(problem.warning for problem in self.problems) else None

    def store_artifact(self, artifact: A | Rejection | None) -> None:
        """Store the artifact. If it is a Rejection, reject the tenant instead."""
        if isinstance(artifact, Rejection):
            self._reject(artifact)
        else:
            self.artifact = artifact

    def build_result(self) -> TenantResult[A]:
        """Return the result of the tenant."""
        content = self.content
        return TenantResult(
            name=content.scope.name,
            file_count=len(content.files),
            content_key=content.content_key,
            stamp=content.stamp,
            tally_entry=self.tally_entry,
            problems=self.problems,
            artifact=self.artifact,
            traceback=self.traceback,
        )

    @contextmanager
    def _within_budget(self) -> Iterator[None]:
        try:
            with self.budget.measure():
                yield
        except BudgetExceeded:
            self._reject(BUDGET_REJECTION)
        except Exception as error:
            self._reject(build_rejection(error))

    def _reject(self, why: Rejection) -> None:
        self.folder = None
        self.traceback = why.traceback
        self.problems.append(path_problem(folder_of(self.content.scope), why.message, why.rule))


_task: BatchTask[Any] | None = None  # a forked process inherits it


def _disable_gc() -> None:
    """Disable the garbage collector.

    Garbage collection gains nothing in a process that lives for seconds and builds no reference cycles.
    """
    gc.freeze()
    gc.disable()


def _run_batch(names: list[str]) -> list[Any]:
    assert _task is not None
    return _task.run_batch(names)


def run_batches(work: BatchTask[R], names: list[str], processes: int) -> Iterator[R]:
    """Yield the result of every tenant, in the order of `names`, for any number of processes."""
    global _task  # noqa: PLW0603  # a forked process inherits it without pickling
    chunks = [names[at : at + BATCH_SIZE] for at in range(0, len(names), BATCH_SIZE)]
    if len(names) < MIN_PARALLEL_TENANTS or processes < 2 or not hasattr(os, "fork"):
        for chunk in chunks:
            yield from work.run_batch(chunk)
        return
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor

    work.load_modules()  # once, before the fork
    _task = work
    with ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("fork"), initializer=_disable_gc
    ) as pool:
        running: deque[Future[list[R]]] = deque()
        for chunk in chunks:
            running.append(pool.submit(_run_batch, chunk))
            # If the caller is slower than the workers, the workers wait, so that few results are in memory.
            if len(running) > 2 * processes:
                yield from running.popleft().result()
        for batch in running:
            yield from batch.result()
