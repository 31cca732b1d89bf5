"""Finds the instances and storages that open pull requests add, change or remove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.forge.forge import Forge, PullRequest
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.merge import list_changed_files, merge_base
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.remote import FetchTooCostly, Remote, UnsoundObjects
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.adapters.git.trees import MalformedTree
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
from allotment.observed.resource_rows import PullRequestRef
from allotment.problems import OperationRefused
from allotment.services.pull_requests.plan_sandbox import PlanBudget

MAX_FILES = 200  # files of instances and storages that are read of one pull request
_KINDS = (GPUInstance.__name__, GPUStorage.__name__)
_CHANGES = {"added": "add", "changed": "change", "removed": "remove"}


class PendingChange(NamedTuple):
    """A change of an instance or a storage by an open pull request.

    `facts` is None if the pull request removes the resource, or if its file is invalid there.
    """

    pull_request: PullRequestRef
    kind: str
    tenant: str
    name: str
    path: str
    facts: InstanceFacts | StorageFacts | None


class PendingResources(NamedTuple):
    """The changes of all open pull requests, and a note for each pull request that can't be read completely."""

    changes: list[PendingChange]
    notes: list[str]


class PendingReader:
    """Reads the open pull requests into `branch`.

    `declared` is the commit of the branch, `remote` has the heads of the pull requests, and `tenants` are the facts of the
    declared tenants.
    """

    def __init__(
        self, declared: CommitSource, branch: str, forge: Forge, remote: Remote, tenants: Mapping[str, TenantFacts]
    ) -> None:
        self._declared, self._branch, self._forge, self._remote = declared, branch, forge, remote
        self._tenants = tenants

    def read(self) -> PendingResources:
        """Return the changes. Raises ForgeError, and OperationRefused if the remote doesn't answer."""
        pending = PendingResources([], [])
        for request in sorted(self._forge.open_pull_requests(self._branch)):
            try:
                self._add_changes(request, pending)
            except (FetchTooCostly, UnsoundObjects, LimitExceeded, MalformedTree) as error:
                pending.notes.append(f"#{request.number} can't be read: {error}")
        return pending

    def _add_changes(self, request: PullRequest, pending: PendingResources) -> None:
        repository = self._declared.repository
        self._remote.fetch_limited(Limit(*PlanBudget()), f"refs/allotment/pulls/{request.number}", request.head)
        fork = merge_base(repository, self._declared.commit, request.head)
        if fork is None:
            pending.notes.append(f"#{request.number} has no common history with {self._branch}")
            return
        prefix = repository.folder_prefix(self._declared.root)
        before, after = (repository.tree_of(commit, prefix) for commit in (fork, request.head))
        if before is None or after is None:
            raise OperationRefused(f"#{request.number} has no folder {prefix}")
        changes = [*_select_resources(list_changed_files(repository, before, after))]
        if len(changes) > MAX_FILES:
            pending.notes.append(f"#{request.number} changes {len(changes):,} resources: only {MAX_FILES} are listed")
        source = TreeSource(repository, after)
        for file, path in changes[:MAX_FILES]:
            pending.changes.append(self._describe_change(request, source, file, path))

    def _describe_change(
        self, request: PullRequest, source: TreeSource, file: ChangedFile, path: DeclarationPath
    ) -> PendingChange:
        reference = PullRequestRef(request.number, request.url, _CHANGES[file.action])
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
