"""The JSON output of `allot status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec

from allotment.capacity.units import StockUsage
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.publish_state import PublishState
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.retention import RetentionReason
from allotment.observed.status import ClusterStatus, Instance, Snapshot, Storage, TenantStatus
from allotment.output_part import Part
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.outputs.output import Output, output_of


class ConditionOutput(Part, frozen=True):
    """A condition, with the time of its last change and its reason.

    `status` is "True", "False" or "Unknown".
    """

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str | None


class ThingOutput(Part, frozen=True):
    """The common fields of instances, storages and snapshots.

    `state` is the state in the cluster. If no cluster reports the resource, `state` is Merged (not published yet), Kept
    (not published, because its tenant is retained), Published (not reported by its cluster yet) or Overtaken (the
    published commit is newer than this clone). If the resource is removed from Git and still published, `state` is
    Removing.

    `path` is the path of the declaration, and `declaredBlob` its Git blob; the blob is null if the resource is no
    longer declared. `observedBlob` is the blob of the declaration that the cluster has applied. `asDeclared` is true if
    the resource matches its declaration. If `asDeclared` is false, `why` is the cause, and `wayOut` is the remedy if a
    remedy is known.
    """

    name: str
    path: str
    declared_blob: str | None
    observed_blob: str | None
    state: str
    reason: str
    message: str
    progress: Literal["going", "done", "failed"]
    as_declared: bool
    why: str
    way_out: str
    since: str | None


T = TypeVar("T", bound=ThingOutput)


class InstanceOutput(ThingOutput, frozen=True):
    """An instance.

    `pods` counts the pods that hold a unit. `logURL` and `terminalURL` are pages in Argo CD, `graphsURL` is a page in
    Grafana. Each URL is null if the URL of Argo CD or Grafana is not declared, or if no pod has such a page. `sshCommand` is
    the command that logs in to the instance, or null if the instance has no SSH or its cluster does not report it yet.
    """

    gpu_spec: str
    units: int
    replicas: int
    ready_replicas: int
    nodes: tuple[str, ...]
    pods: int
    restarts: int
    start_time: str | None
    url: str | None
    links: tuple[str, ...]
    ssh_command: str | None
    log_url: str | None = msgspec.field(name="logURL")
    terminal_url: str | None = msgspec.field(name="terminalURL")
    graphs_url: str | None = msgspec.field(name="graphsURL")
    conditions: tuple[ConditionOutput, ...]


class PreparationOutput(Part, frozen=True):
    """An attempt to prepare a storage. `log` is the location of its log."""

    uid: str
    attempt: int
    input_hash: str
    state: str
    start_time: str | None
    completion_time: str | None
    exit_code: int | None
    reason: str
    log: str
    is_prune_protected: bool = msgspec.field(name="kept")


class StorageOutput(ThingOutput, frozen=True):
    """A storage.

    People with access see its files at `url`, and the tenant's own pods see them at `inClusterURL`.
    """

    claim: str | None
    size: str | None
    capacity: str | None
    url: str | None
    in_cluster_url: str | None = msgspec.field(name="inClusterURL")
    prepare: PreparationOutput | None
    conditions: tuple[ConditionOutput, ...]


class SnapshotOutput(ThingOutput, frozen=True):
    """A snapshot: the content that the storage `storage` had at `creationTime`."""

    uid: str | None
    storage: str
    restore_size: str | None
    creation_time: str | None
    conditions: tuple[ConditionOutput, ...]


class ApplicationOutput(Part, frozen=True):
    """Argo CD's status of one part (storage or compute) of a tenant.

    `sourceCommit` is the commit of the declarations from which the applied manifests were rendered. `tree` is the Git
    tree of these manifests on the rendered branch.
    """

    name: str
    sync: str
    health: str
    source_commit: str | None
    tree: str | None


class TenantOutput(Part, frozen=True):
    """The resources that a tenant has, or should have, in a cluster.

    `cluster` is null if the cluster can't be read from the declarations.
    """

    tenant: str
    cluster: str | None
    applications: tuple[ApplicationOutput, ...]
    instances: tuple[InstanceOutput, ...]
    storages: tuple[StorageOutput, ...]
    snapshots: tuple[SnapshotOutput, ...]
    namespace: str | None
    conditions: tuple[ConditionOutput, ...] = ()


class StockOutput(Part, frozen=True):
    """Units of a GPUSpec: declared, held by instances, free, and ready on a running node.

    If `tenant` is set, the units are reserved for that tenant. `ready` is null if no reporter has reported the cluster.
    In this case, with --stocks, the other fields come from the declarations.
    """

    name: str
    gpu_spec: str
    count: int
    held_units: int = msgspec.field(name="held")
    free: int
    ready: int | None
    tenant: str | None


class ClusterOutput(Part, frozen=True):
    """A cluster, and the time of its last report; the time is null if there is no report.

    `stale` is true if the report is too old. `trouble` describes a fault of the cluster's status branch. `conditions` name the
    objects of the platform that a person edited by hand.
    """

    cluster: str
    observed_at: str | None
    stale: bool
    silent_since: str | None
    message: str
    trouble: str
    stocks: tuple[StockOutput, ...]
    conditions: tuple[ConditionOutput, ...] = ()


class DeclaredOutput(Part, frozen=True):
    """The commit of the declarations, its time, and the `ref` that points to the commit.

    `differing` counts the local declaration files that differ from the commit. The output describes the commit, not the
    local files.
    """

    ref: str
    commit: str
    committed_at: str
    differing: int


class RetainedTenantOutput(Part, frozen=True):
    """A tenant that stays at its last published manifests.

    `since` is the time of the first publish that retained the tenant; it is null if this time is not recorded.
    `omitted` counts the problems that are left out.
    """

    tenant: str
    reason: RetentionReason
    since: str | None
    problems: tuple[str, ...]
    omitted: int


class PublishedOutput(Part, frozen=True):
    """The progress of publishing.

    `commit` is the published commit of the declarations; it is null if nothing is published. `ahead` counts the
    declared commits that are not published. `reason` is why the declared commit is not published; it is null if the
    declared commit is published. `retained` are the tenants that stay at their last published manifests.
    `retainedTenants` has the reasons for the retention of these tenants, or only of the tenant that the command shows.
    `omittedTenants` counts the retained tenants that the retention record leaves out.
    """

    commit: str | None
    unpublished_commits: int = msgspec.field(name="ahead")
    reason: Literal["pending", "never", "braked", "rewound", "platform-invalid", "unproven", "unknown"] | None
    message: str
    retained: tuple[str, ...]
    retained_tenants: tuple[RetainedTenantOutput, ...] = ()
    omitted_tenants: int = 0


class StatusOutput(Output, frozen=True, kw_only=True, tag="StatusOutput"):
    """The declarations, and their progress in the clusters. With --stocks, `tenants` is empty."""

    declared: DeclaredOutput
    clusters: tuple[ClusterOutput, ...]
    tenants: tuple[TenantOutput, ...]
    published: PublishedOutput | None = None


def published_output(state: PublishState, tenant: str | None = None) -> PublishedOutput:
    """Return the output of the state of publishing.

    The output has the problems of all retained tenants, or only the problems of `tenant`.
    """
    retained = sorted(state.retained_tenants.items())
    return output_of(
        PublishedOutput,
        state,
        retained=tuple(name for name, _ in retained),
        retained_tenants=tuple(
            output_of(RetainedTenantOutput, record, tenant=name) for name, record in retained if tenant in (None, name)
        ),
    )


def cluster_output(
    status: ClusterStatus, trouble: str, *, stale: bool, uses: Iterable[StockUsage] = ()
) -> ClusterOutput:
    """Return the output of a cluster. If the cluster reports no stocks, `uses` are its declared stocks."""
    reported = (output_of(StockOutput, stock) for stock in status.stocks)
    declared = (
        output_of(StockOutput, stock.spec, name=stock.name, held_units=use.held_units, free=use.free_units, ready=None)
        for use in uses
        if (stock := use.stock.model)
    )
    return output_of(ClusterOutput, status, trouble=trouble, stale=stale, stocks=(*reported, *declared))


def tenant_outputs(rows: Iterable[ResourceStatus], consoles: Consoles) -> tuple[TenantOutput, ...]:
    """Return one output for each tenant and each cluster in which the tenant has, or should have, resources."""
    by_place: dict[tuple[str, str], list[ResourceStatus]] = {}
    for row in rows:
        by_place.setdefault((row.resource.tenant, row.resource.cluster), []).append(row)
    return tuple(_tenant_output(*place, by_place[place], consoles) for place in sorted(by_place))


def _tenant_output(tenant: str, cluster: str, rows: list[ResourceStatus], consoles: Consoles) -> TenantOutput:
    def of(kind: str) -> list[ResourceStatus]:
        return [row for row in rows if row.resource.kind == kind]

    return output_of(
        TenantOutput,
        rows[0].status or TenantStatus(tenant, cluster),
        instances=tuple(_instance_output(row, consoles) for row in of(INSTANCE.word)),
        storages=tuple(_resource_output(StorageOutput, Storage, row) for row in of(STORAGE.word)),
        snapshots=tuple(_resource_output(SnapshotOutput, Snapshot, row) for row in of(SNAPSHOT.word)),
    )


def _instance_output(row: ResourceStatus, consoles: Consoles) -> InstanceOutput:
    links = InstanceLinks()
    if isinstance(row.observed, Instance):
        links = instance_links(consoles, row.resource.tenant, row.resource.cluster, row.observed)
    return _resource_output(
        InstanceOutput,
        Instance,
        row,
        gpu_spec=row.gpu_spec,
        log_url=links.log or None,
        terminal_url=links.terminal or None,
        graphs_url=links.graphs or None,
    )


def _resource_output(
    kind: type[T], observed_kind: type[Instance | Storage | Snapshot], row: ResourceStatus, **values: Any
) -> T:
    """Return the output of a resource. If no cluster reports the resource, the fields from the cluster are empty."""
    unobserved = observed_kind(row.resource.name, "", row.state, row.reason)
    return output_of(
        kind,
        row.observed if isinstance(row.observed, observed_kind) else unobserved,
        state=row.state,
        reason=row.reason,
        path=row.path,
        declared_blob=row.resource.blob or None,
        progress=row.stage.progress,
        as_declared=row.is_as_declared,
        why=row.explanation,
        way_out=row.stage.remedy,
        **values,
    )
