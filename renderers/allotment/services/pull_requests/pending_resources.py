"""Finds the instances and storages that open pull requests add, change or remove."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from allotment.adapters.forge.forge import Forge, PullRequest
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.merge import list_changed_files, merge_base
from allotment.adapters.git.remote import FetchTooCostly, Remote, UnsoundObjects
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.adapters.processes import Limit
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.declared.tenant_facts import (
    InstanceFacts,
    StorageFacts,
    TenantFacts,
    summarize_instance,
    summarize_storage,
)
from allotment.observed.resource_rows import PullRequestOutput
from allotment.problems import OperationRefused, pluralize
from allotment.services.pull_requests.plan_sandbox import PlanBudget

MAX_FILES = 200  # files of instances and storages that are read of one pull request
_KINDS = (GPUInstance.__name__, GPUStorage.__name__)
_CHANGES: dict[str, Literal["add", "change", "remove"]] = {"added": "add", "changed": "change", "removed": "remove"}


class PendingLimits(NamedTuple):
    """The number of pull requests that are read, and the seconds for each pull request and for all together.

    The oldest pull requests are read first, so a newer pull request can't displace them.
    """

    pull_requests: int = 100
    seconds_each: float = 30.0
    seconds: float = 120.0


DEFAULT_LIMITS = PendingLimits()


class PendingChange(NamedTuple):
    """A change of an instance or a storage by an open pull request.

    `facts` is None if the pull request removes the resource, or if its file is invalid there.
    """

    pull_request: PullRequestOutput
    kind: str
    tenant: str
    name: str
    path: str
    facts: InstanceFacts | StorageFacts | None


class PendingResources(NamedTuple):
    """The changes of all open pull requests, and a note for each pull request that can't be read completely."""

    changes: list[PendingChange]
    notes: list[str]


class _UnreadableRequest(OperationRefused):
    """One pull request can't be read. The others can."""


class PendingReader:
    """Reads the open pull requests into `branch`.

    `declared` is the commit of the branch, `remote` has the heads of the pull requests, and `tenants` are the facts of the
    declared tenants.
    """

    def __init__(
        self,
        declared: CommitSource,
        branch: str,
        forge: Forge,
        remote: Remote,
        tenants: Mapping[str, TenantFacts],
        limits: PendingLimits = DEFAULT_LIMITS,
    ) -> None:
        self._declared, self._branch, self._forge, self._remote = declared, branch, forge, remote
        self._tenants, self._limits = tenants, limits

    def read(self) -> PendingResources:
        """Return the changes. Raises ForgeError, and OperationRefused if the remote doesn't answer."""
        pending = PendingResources([], [])
        end = time.monotonic() + self._limits.seconds
        requests = sorted(self._forge.open_pull_requests(self._branch))
        for index, request in enumerate(requests):
            seconds = min(self._limits.seconds_each, end - time.monotonic())
            if index >= self._limits.pull_requests or seconds <= 0:
                pending.notes.append(self._describe_rest(requests[index:]))
                break
            try:
                self._fetch_head(request, seconds)
                pending.changes.extend(self._read_changes(request, pending.notes))
            except _UnreadableRequest as error:
                pending.notes.append(f"#{request.number} can't be read: {error}")
        return pending

    def _describe_rest(self, requests: list[PullRequest]) -> str:
        limits = self._limits
        return (
            f"#{requests[0].number} and later: {pluralize(len(requests), 'pull request')} not read, because the limit is"
            f" {limits.pull_requests:,} pull requests or {limits.seconds:g} seconds: close old pull requests"
        )

    def _fetch_head(self, request: PullRequest, seconds: float) -> None:
        """Fetch the head. Raises _UnreadableRequest, and OperationRefused if the remote doesn't answer."""
        limit = Limit(*PlanBudget()._replace(seconds=seconds))
        try:
            self._remote.fetch_limited(limit, f"refs/allotment/pulls/{request.number}", request.head)
        except (FetchTooCostly, UnsoundObjects) as error:
            raise _UnreadableRequest(str(error)) from None
        except OperationRefused:
            self._remote.look(f"refs/heads/{self._branch}")  # raises if the remote doesn't answer
            raise _UnreadableRequest(
                f"the remote doesn't give its head {request.head[:12]}: if the pull request has changed, try again"
            ) from None

    def _read_changes(self, request: PullRequest, notes: list[str]) -> list[PendingChange]:
        """Return the changes of a fetched pull request. Raises _UnreadableRequest if its author's objects are at fault."""
        try:
            before, after = self._find_trees(request)
            changes = [*_select_resources(list_changed_files(self._declared.repository, before, after))]
            source = TreeSource(self._declared.repository, after)
            described = [self._describe_change(request, source, file, path) for file, path in changes[:MAX_FILES]]
        except OperationRefused as error:
            raise _UnreadableRequest(str(error)) from None
        if len(changes) > MAX_FILES:
            notes.append(f"#{request.number} changes {len(changes):,} resources: only {MAX_FILES} are listed")
        return described

    def _find_trees(self, request: PullRequest) -> tuple[str, str]:
        """Return the trees of the declarations at the fork point and at the head."""
        repository = self._declared.repository
        fork = merge_base(repository, self._declared.commit, request.head)
        if fork is None:
            raise _UnreadableRequest(f"it has no common history with {self._branch}")
        prefix = repository.folder_prefix(self._declared.root)
        before, after = (repository.tree_of(commit, prefix) for commit in (fork, request.head))
        if before is None or after is None:
            raise _UnreadableRequest(f"it has no folder {prefix}")
        return before, after

    def _describe_change(
        self, request: PullRequest, source: TreeSource, file: ChangedFile, path: DeclarationPath
    ) -> PendingChange:
        reference = PullRequestOutput(request.number, request.url, _CHANGES[file.action])
        facts = None if file.action == "removed" else self._read_facts(source, file.path, path)
        return PendingChange(reference, path.kind.name, path.scope.name, path.name, file.path, facts)

    def _read_facts(self, source: TreeSource, file: str, path: DeclarationPath) -> InstanceFacts | StorageFacts | None:
        try:
            declared = read_declaration(file, source.read(file), path)[0]
        except KeyError:  # the file became a link
            return None
        model = declared.model if declared is not None else None
        if isinstance(model, GPUInstance):
            return summarize_instance(path.scope.name, model)
        tenant = self._tenants.get(path.scope.name)
        instances = tenant.instances if tenant is not None else ()
        return summarize_storage(path.scope.name, model, instances) if isinstance(model, GPUStorage) else None


def _select_resources(files: Iterable[ChangedFile]) -> Iterator[tuple[ChangedFile, DeclarationPath]]:
    """Yield the changed declarations of instances and storages with their parsed paths."""
    for file in files:
        path = parse_path(file.path) if file.path.startswith("tenants/") else None
        if isinstance(path, DeclarationPath) and path.kind.name in _KINDS:
            yield file, path
