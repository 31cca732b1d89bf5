"""Joins the merged, the published and the reported state of each resource, as one clone sees them."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple, TypeVar

from allotment.adapters.git.commit_source import READ_AHEAD_FILES, CommitSource
from allotment.branches.branch import Branch
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.declared_resources import (
    DeclaredResource,
    find_cluster,
    is_declared_in,
    is_marked_for_deletion,
    list_resources,
    prefetch_published,
    read_declaration_at,
    read_published_blobs,
)
from allotment.branches.platform_settings import ORIGIN, read_consoles, read_publisher_key
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.branches.retention_ref import RETAINED, LastRecord, last_record
from allotment.branches.status_reader import NEVER_REPORTED, ReportedStatus, read_history, read_reported_status
from allotment.conditions import STOPPED
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.layout import PLATFORM, path_of
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.declared.tenant_resources import parse_file_stem as thing_of
from allotment.manifests import paths
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.rollout import BlobVersions, Resource, ResourceRef, RolloutStage, derive_stage
from allotment.observed.status import Instance, TenantStatus, Transition
from allotment.problems import OperationRefused
from allotment.reports.links import Consoles
from allotment.services.status_view.clone_refs import CloneRefs

POLL_SECONDS = 5  # seconds between two reads of the status; by default, a reporter commits at most once a minute
ReportedResource = tuple[TenantStatus, Resource]
T = TypeVar("T")


class PublishedRelease(NamedTuple):
    """The published release: its source commit, each cluster's branch, and the record of the retained tenants.

    If the source commit is not known, `source` is None and `trouble` is the reason. `never_published` is true if
    nothing was ever published, or if the clone has no remote to publish to.
    """

    source: CommitSource | None
    branches: Mapping[str, Branch]
    trouble: str = ""
    never_published: bool = False
    record: LastRecord = LastRecord(None, None)

    @property
    def tips(self) -> list[str]:
        """The tips of the branches, the source commit, and the commit of the record."""
        tips = [branch.tip or "" for branch in self.branches.values()]
        return [*tips, self.source.commit if self.source else "", self.record.commit or ""]


class _OutdatedResource(NamedTuple):
    """A declared resource without a report of its declared version, with its declaration and its live state."""

    resource: ResourceRef
    path: str
    declaration: DeclarationFile[Declaration] | None
    live_status: Resource | None


class StatusView(CloneRefs):
    """The state at one point in time, as one clone sees it. Reads the published release only if it is needed."""

    def __init__(
        self, clone: DeclarationsClone, tenant: str | None = None, *, selection: Collection[str] | None = None
    ) -> None:
        """Read the state of a tenant, of the tenants of a selection, or by default of all tenants.

        Raises OperationRefused if a remote doesn't answer.
        """
        super().__init__(clone)
        self._read_at = datetime.datetime.now(datetime.UTC)
        self.tenants = sorted(
            {scope.name for scope in self.declared_commit.source.scopes()[0] if scope.kind == "tenant"}
        )
        self._tenant = tenant
        self._selection = selection if tenant is None else {tenant}
        self.reported_status = now = self._read_reported_status()
        self._reported_resources: dict[tuple[str, str, str], list[ReportedResource]] = defaultdict(list)
        self._statuses: dict[str, list[TenantStatus]] = defaultdict(list)
        for status in now.tenants:
            self._statuses[status.tenant].append(status)
            for resource_kind in RESOURCE_KINDS.values():
                for resource in getattr(status, resource_kind.plural) if resource_kind.reported else ():
                    self._reported_resources[resource_kind.word, status.tenant, resource.name].append(
                        (status, resource)
                    )

    def _read_reported_status(self) -> ReportedStatus:
        if self.clone.has_remote(self.branch_urls.status):
            keys = sorted(self.reporter_keys.items())
            return read_reported_status(
                self.clone.repository, self.clone.remote(self.branch_urls.status), keys, self._selection
            )
        message = f"this repository has no remote named {ORIGIN} for the status branches"
        return ReportedStatus([], [], dict.fromkeys(self.reporter_keys, message), {})

    def read_transitions(self, tenant: str, name: str, cluster: str | None, most: int) -> list[tuple[str, Transition]]:
        """Return the newest transitions of a tenant or of one of its resources, with their clusters, by time."""
        if not self.clone.has_remote(self.branch_urls.status):
            return []
        clusters = [
            (cluster_name, key)
            for cluster_name, key in sorted(self.reporter_keys.items())
            if cluster in (None, cluster_name)
        ]
        remote = self.clone.remote(self.branch_urls.status)
        return read_history(self.clone.repository, remote, clusters, tenant, name or None, most)

    @property
    def gpu_specs(self) -> list[str]:
        """The names of the declared GPUSpecs."""
        folder = path_of(GPUSpec.__name__, PLATFORM, "")
        files = self.declared_commit.source.files(PLATFORM).paths
        return [PurePath(path).stem for path in files if PurePath(path).parent == PurePath(folder).parent]

    @cached_property
    def consoles(self) -> Consoles:
        """The URLs of Argo CD and Grafana."""
        return read_consoles(self.declared_commit.source)

    @cached_property
    def rows(self) -> list[ResourceStatus]:
        """All declared, observed or published resources, sorted by tenant, name and cluster."""
        names = list(filter(self._is_selected, self.tenants))
        declared_resources = [
            declared_resource
            for name in names
            for declared_resource in list_resources(self.declared_commit.source, name)
        ]
        rows = [row for chunk in _split(declared_resources) for row in self._build_declared_rows(chunk)]
        row_keys = {row.resource[:4] for row in rows}
        orphans = list[tuple[ResourceRef, ReportedResource]]()
        for (kind, tenant, name), observations in self._reported_resources.items():
            for observation in observations:
                resource = ResourceRef(kind, tenant, name, observation[0].cluster, "")
                if resource[:4] not in row_keys:
                    orphans.append((resource, observation))
                    row_keys.add(resource[:4])
        for chunk in _split(orphans):
            self._prefetch_published([resource for resource, _ in chunk])
            rows += [self._build_orphan_row(resource, *observation) for resource, observation in chunk]
        for resources in _split([resource for resource in self._list_published() if resource[:4] not in row_keys]):
            self._prefetch_published(resources)
            rows += [self._build_deleting_row(resource) for resource in resources]
        self._prefetch_published([])
        self.declared_commit.source.prefetch([])
        return sorted(rows, key=lambda entry: (entry.resource.tenant, entry.resource.name, entry.resource.cluster))

    def _prefetch_published(self, resources: Sequence[ResourceRef]) -> None:
        """Read the published files of some resources at once, and drop those of the previous call."""
        if self.published_release.source is not None:
            prefetch_published(resources, self.published_release.source, self.published_release.branches)

    def _build_declared_rows(self, resources: Sequence[DeclaredResource]) -> Iterator[ResourceStatus]:
        self.declared_commit.source.prefetch([resource.path for resource in resources])
        rows = [self._build_current_row(resource) or self._identify_outdated(resource) for resource in resources]
        self._prefetch_published([row.resource for row in rows if isinstance(row, _OutdatedResource)])
        return (self._build_outdated_row(row) if isinstance(row, _OutdatedResource) else row for row in rows)

    def _build_current_row(self, declared_resource: DeclaredResource) -> ResourceStatus | None:
        """Return the row of a resource if its cluster reports its declared version, else None."""
        blob = self.declared_commit.source.blob(declared_resource.path) or ""
        observations = self._reported_resources.get(
            (declared_resource.kind, declared_resource.tenant, declared_resource.name), []
        )
        current = next((observation for observation in observations if observation[1].observed_blob == blob), None)
        if current is None or not is_declared_in(self.declared_commit.source, declared_resource, current[0].cluster):
            return None
        status, resource_status = current
        resource = ResourceRef(
            declared_resource.kind, declared_resource.tenant, declared_resource.name, status.cluster, blob
        )
        rollout_stage = derive_stage(resource, BlobVersions(blob, blob), [status], now=self._read_at)
        row = ResourceStatus(
            resource,
            rollout_stage,
            resource_status,
            status,
            declared_resource.path,
            getattr(resource_status, "gpu_spec", ""),
            is_marked_for_deletion=is_marked_for_deletion(self.declared_commit.source, declared_resource.path),
        )
        if not isinstance(resource_status, Instance) or resource_status.replicas or resource_status.state == STOPPED:
            return row
        return row._replace(
            replicas=_count_declared_replicas(read_declaration_at(self.declared_commit.source, declared_resource.path))
        )

    def _identify_outdated(self, resource: DeclaredResource) -> _OutdatedResource:
        """Return a resource without a report of its declared version."""
        blob = self.declared_commit.source.blob(resource.path) or ""
        observations = self._reported_resources.get((resource.kind, resource.tenant, resource.name), [])
        declared = read_declaration_at(self.declared_commit.source, resource.path)
        cluster = find_cluster(self.declared_commit.source, declared)
        if not cluster and len(observations) == 1:
            cluster = observations[0][0].cluster  # its declaration can't be read, so assume the reported cluster
        return _OutdatedResource(
            ResourceRef(resource.kind, resource.tenant, resource.name, cluster, blob),
            resource.path,
            declared,
            next((candidate for status, candidate in observations if status.cluster == cluster), None),
        )

    def _build_outdated_row(self, outdated: _OutdatedResource) -> ResourceStatus:
        resource, path, declared, live_status = outdated
        spec = declared.model.spec.gpu_spec if declared and isinstance(declared.model, GPUInstance) else ""
        return ResourceStatus(
            resource=resource,
            stage=self._find_stage(resource),
            observed=live_status,
            status=self._find_status(resource),
            path=path,
            gpu_spec=spec or getattr(live_status, "gpu_spec", ""),
            replicas=_count_declared_replicas(declared),
            storage=declared.model.spec.storage if declared and isinstance(declared.model, GPUStorageSnapshot) else "",
            is_marked_for_deletion=is_marked_for_deletion(self.declared_commit.source, path),
        )

    def _build_orphan_row(self, resource: ResourceRef, status: TenantStatus, live_status: Resource) -> ResourceStatus:
        path = RESOURCE_KINDS[resource.kind].declaration_path(resource.tenant, resource.name)
        return ResourceStatus(
            resource, self._find_stage(resource), live_status, status, path, getattr(live_status, "gpu_spec", "")
        )

    def _list_published(self) -> Iterator[ResourceRef]:
        """Yield the published resources, including volumes that are being deleted, each with an empty declared blob."""
        for cluster, branch in self.published_release.branches.items():
            for path in branch.files:
                tree_path = paths.parse_tree_path(path)
                kind_and_name = (
                    thing_of(tree_path.part, tree_path.name.removesuffix(paths.DELETING_SUFFIX)) if tree_path else None
                )
                if (
                    tree_path is None
                    or not tree_path.is_resource_file
                    or kind_and_name is None
                    or not self._is_selected(tree_path.tenant)
                ):
                    continue
                kind, name = kind_and_name
                if kind.reported:  # otherwise no status can say that the resource runs or is gone
                    yield ResourceRef(kind.word, tree_path.tenant, name, cluster, "")

    def _is_selected(self, tenant: str) -> bool:
        return self._selection is None or tenant in self._selection

    def _build_deleting_row(self, resource: ResourceRef) -> ResourceStatus:
        path = RESOURCE_KINDS[resource.kind].declaration_path(resource.tenant, resource.name)
        return ResourceStatus(resource, self._find_stage(resource), None, self._find_status(resource), path)

    def _find_status(self, resource: ResourceRef) -> TenantStatus | None:
        return next(
            (status for status in self._statuses.get(resource.tenant, ()) if status.cluster == resource.cluster), None
        )

    def _find_stage(self, resource: ResourceRef) -> RolloutStage:
        published = self.published_release
        if published.source is None:
            return derive_stage(resource, None, ())
        blobs = read_published_blobs(resource, published.source, published.branches)
        behind = blobs.source != resource.blob and not self.is_behind
        statuses = self._statuses.get(resource.tenant, ())
        rollout_stage = derive_stage(
            resource, None if behind else blobs, statuses, self.reported_status.troubles, now=self._read_at
        )
        if rollout_stage.state == "published" and self.reported_status.troubles.get(resource.cluster) == NEVER_REPORTED:
            return rollout_stage._replace(remedy=suggest_reporter(resource.cluster))
        return rollout_stage

    @property
    def kept_tenants(self) -> set[str]:
        """The tenants with a declaration that the last publish did not apply.

        The commit with the declaration is published, but the published manifests lack the resource or come from an
        earlier version of the declaration.
        """
        return {row.resource.tenant for row in self.rows if row.stage.state == "kept"}

    @property
    def tenant(self) -> str | None:
        """The tenant of the view; None for several tenants."""
        return self._tenant

    @cached_property
    def is_behind(self) -> bool:
        """Whether the published commit is newer than the declared commit, because this clone lacks newer commits.

        If the declared commit is the tip of a branch at origin, this is false. A tip without the published commit means
        that the branch was rewound.
        """
        source, declared = self.published_release.source, self.declared_commit
        if source is None or declared.branch or source.commit == declared.source.commit:
            return False
        return self.clone.repository.is_ancestor(declared.source.commit, source.commit)

    @cached_property
    def published_release(self) -> PublishedRelease:
        """The published release."""
        if not self.clone.has_remote(self.branch_urls.rendered):
            return PublishedRelease(
                None, {}, f"this repository has no remote named {ORIGIN} to publish to", never_published=True
            )
        repository, key = (
            self.clone.repository,
            read_publisher_key(self.clone.find_settings_commit(self.declared_commit)),
        )
        try:
            remote_state = read_rendered_branches(
                repository, self.clone.remote(self.branch_urls.rendered), self.reporter_keys, key
            )
        except OperationRefused as error:
            return PublishedRelease(None, {}, str(error))
        if remote_state.source is None:
            return PublishedRelease(
                None,
                remote_state.branches,
                "nothing has been published yet: run `allot publish` or `allot run`",
                never_published=True,
            )
        if not repository.has_object(remote_state.source):
            return PublishedRelease(
                None, remote_state.branches, f"the published commit {remote_state.source} isn't in this clone"
            )
        source = CommitSource(self.clone.root, remote_state.source, repository, like=self.declared_commit.source)
        return PublishedRelease(
            source, remote_state.branches, record=last_record(repository, remote_state.refs.get(RETAINED), key)
        )

    @property
    def published_tenants(self) -> set[str]:
        """The tenants with published files, such as a retained tenant, or a tenant that is leaving the clusters."""
        files = (path for branch in self.published_release.branches.values() for path in branch.files)
        return {tree_path.tenant for path in files if (tree_path := paths.parse_tree_path(path))}

    def find_publishing_clusters(self, tenant: str, name: str, cluster: str | None) -> list[str]:
        """Return the clusters that a resource is published to, including those where it is being deleted."""
        files = {
            paths.resource_file(tenant, kind.tree_part, f"{kind.file_stem(name)}{leaving}")
            for kind in RESOURCE_KINDS.values()
            for leaving in ("", paths.DELETING_SUFFIX)
        }
        branches = self.published_release.branches.items()
        return [where for where, branch in branches if cluster in (None, where) and files & branch.files.keys()]


def _split(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in chunks. The files of a chunk are read with one request."""
    for at in range(0, len(values), READ_AHEAD_FILES):
        yield values[at : at + READ_AHEAD_FILES]


def _count_declared_replicas(declared: DeclarationFile[Declaration] | None) -> int:
    """Return the number of replicas that an instance declares.

    Returns 0 if the instance is declared stopped or on hold, or if the declaration can't be read or is no instance.
    """
    model = declared.model if declared is not None else None
    return model.spec.replicas if isinstance(model, GPUInstance) and model.spec.is_running else 0


def suggest_reporter(cluster: str) -> str:
    """Return the advice to start a reporter for a cluster."""
    return f"to report it, run `allot run --report {cluster}`, or `allot report --cluster {cluster}` in the cluster"
