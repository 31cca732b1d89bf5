"""Joins the declared facts, the price and the reported state of instances and storages into the rows of lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Literal, TypeVar

import msgspec

from allotment.capacity.cordons import PlannedCordon
from allotment.capacity.offers import Offers, count_held_units, declared_instance_cost, declared_storage_cost
from allotment.declared.tenant_facts import InstanceFacts, StorageFacts, TenantFacts
from allotment.declared.tenant_resources import INSTANCE, STORAGE
from allotment.declared.values import format_size
from allotment.manifests import names
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Instance, Storage
from allotment.output_part import Part

F = TypeVar("F")
R = TypeVar("R", "InstanceRowOutput", "StorageRowOutput")
_NEW_TENANT = TenantFacts(
    tenant="", plan="", lifecycle="Active", labels={}, instances=(), storages=(), snapshots=(), members=()
)
_NO_INSTANCE = InstanceFacts(
    tenant="", name="", cluster="", gpu_spec="", state="", replicas=0, app="", storages=(), labels={}
)
_NO_STORAGE = StorageFacts(
    tenant="", name="", cluster="", storage_spec="", size=0, source="", mounted_by=(), labels={}, deletion_policy=""
)


class PullRequestOutput(Part, frozen=True):
    """An open pull request that adds, changes or removes a resource."""

    number: int
    url: str
    change: Literal["add", "change", "remove"]


class InstanceRowOutput(Part, frozen=True, kw_only=True):
    """An instance.

    `state` is the declared state; it is null if the instance is not declared, or if its file is invalid. `reportedState`,
    `reason` and `message` are as in `allot status`; they are empty for a pull request. `units` are the units that the instance holds now: 0 if it is stopped.
    `readyReplicas` is null if the cluster has not reported the instance. `gpuMemory` is the memory of each GPU or GPU
    slice. `nodes` are the nodes of its pods, as the cluster reports them. `maintenance` has the days and the reason of the cordons of these nodes, and their effect on the instance; it is null without a cordon. `costPerHour` is in the currency of the list; it is null if the cost is unknown. `pullRequest` is null unless the
    row is from an open pull request.
    """

    tenant: str
    name: str
    cluster: str
    state: str | None
    reported_state: str | None
    reason: str
    message: str
    is_as_declared: bool = msgspec.field(name="asDeclared")
    replicas: int
    units: int
    ready: int | None = msgspec.field(name="readyReplicas")
    gpu_spec: str
    gpu_model: str | None
    gpu_memory: str | None
    app: str | None
    url: str | None
    since: str | None
    nodes: tuple[str, ...]
    maintenance: str | None
    cost_per_hour: Decimal | None
    storages: tuple[str, ...]
    labels: dict[str, str]
    path: str
    pull_request: PullRequestOutput | None

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


class StorageRowOutput(Part, frozen=True, kw_only=True):
    """A storage.

    `reportedState`, `reason` and `message` are as in `allot status`; they are empty for a pull request. `storageSpec`, `size` and
    `deletionPolicy` are null if the storage is not declared, or if its file is invalid. `deletionPolicy` is Delete if the storage
    is marked for deletion: the next merge that removes its file deletes its data. `capacity` is the size that the cluster reports. `source` is the kind of source that
    fills the storage. `preparation` is the state of the last attempt, and null if the cluster reports no preparation.
    `attempt` is the number of this attempt. `mountedBy` names the instances that mount the storage. `costPerHour` is in the currency of the
    list; it is null if the cost is unknown. `pullRequest` is null unless the row is from an open pull request.
    """

    tenant: str
    name: str
    cluster: str
    reported_state: str | None
    reason: str
    message: str
    is_as_declared: bool = msgspec.field(name="asDeclared")
    storage_spec: str | None
    size: str | None
    capacity: str | None
    source: str | None
    preparation: str | None
    attempt: int
    mounted_by: tuple[str, ...]
    url: str | None
    since: str | None
    cost_per_hour: Decimal | None
    labels: dict[str, str]
    deletion_policy: str | None
    path: str
    pull_request: PullRequestOutput | None

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"

    @property
    def is_marked_for_deletion(self) -> bool:
        """Whether the next merge that removes the file deletes the data."""
        return self.deletion_policy == "Delete"


def build_instance_rows(
    statuses: Iterable[ResourceStatus], tenants: Mapping[str, TenantFacts], offers: Offers
) -> list[InstanceRowOutput]:
    """Return a row for each instance among `statuses`, in the given order."""
    facts = {(each.tenant, each.name): each for tenant in tenants.values() for each in tenant.instances}
    return [
        instance_row(status, _declared_facts(facts, status), tenants.get(status.resource.tenant), offers)
        for status in statuses
        if status.resource.kind == INSTANCE.word
    ]


def build_storage_rows(
    statuses: Iterable[ResourceStatus], tenants: Mapping[str, TenantFacts], offers: Offers
) -> list[StorageRowOutput]:
    """Return a row for each storage among `statuses`, in the given order."""
    facts = {(each.tenant, each.name): each for tenant in tenants.values() for each in tenant.storages}
    return [
        storage_row(status, _declared_facts(facts, status), offers)
        for status in statuses
        if status.resource.kind == STORAGE.word
    ]


def _declared_facts(facts: Mapping[tuple[str, str], F], status: ResourceStatus) -> F | None:
    return facts.get((status.resource.tenant, status.resource.name)) if status.resource.blob else None


def declared_instance_row(
    facts: InstanceFacts, tenant: TenantFacts | None, offers: Offers, path: str, pull_request: PullRequestOutput | None
) -> InstanceRowOutput:
    """Return the row of an instance as its file declares it, without the state in its cluster."""
    offer = offers.gpu_specs.get(facts.gpu_spec)
    return InstanceRowOutput(
        tenant=facts.tenant,
        name=facts.name,
        cluster=facts.cluster,
        state=facts.state or None,
        reported_state=None,
        reason="",
        message="",
        is_as_declared=False,
        replicas=facts.replicas,
        units=count_held_units(facts, tenant) if tenant is not None else 0,
        ready=None,
        gpu_spec=facts.gpu_spec,
        gpu_model=offer.model if offer is not None else None,
        gpu_memory=format_size(offer.memory) if offer is not None else None,
        app=facts.app or None,
        url=None,
        since=None,
        nodes=(),
        maintenance=None,
        cost_per_hour=declared_instance_cost(facts, tenant, offers),
        storages=facts.storages,
        labels=facts.labels,
        path=path,
        pull_request=pull_request,
    )


def instance_row(
    status: ResourceStatus, facts: InstanceFacts | None, tenant: TenantFacts | None, offers: Offers
) -> InstanceRowOutput:
    """Return the row of an instance. `facts` is None if the instance is not declared or its file is invalid."""
    resource, observed = status.resource, status.observed if isinstance(status.observed, Instance) else None
    nodes = observed.nodes if observed is not None else ()
    declared = facts if facts is not None else _NO_INSTANCE._replace(gpu_spec=status.gpu_spec)
    row = declared_instance_row(declared, tenant, offers, status.path, None)
    return msgspec.structs.replace(
        row,
        tenant=resource.tenant,
        name=resource.name,
        cluster=resource.cluster,
        reported_state=status.displayed_state or None,
        reason=status.reason,
        message=status.explanation,
        is_as_declared=status.is_as_declared,
        ready=observed.ready_replicas if observed is not None else None,
        url=observed.url or None if observed is not None else None,
        since=observed.since or None if observed is not None else None,
        nodes=nodes,
        maintenance=describe_maintenance(offers.cordons, resource.cluster, declared.gpu_spec, nodes) or None,
        cost_per_hour=row.cost_per_hour if facts is not None else None,
    )


def describe_maintenance(cordons: Iterable[PlannedCordon], cluster: str, gpu_spec: str, nodes: Collection[str]) -> str:
    """Return the days, the reason and the effect of each cordon of the nodes of an instance; empty without a cordon."""
    return "; ".join(
        f"{cordon.period}: {cordon.reason}; {cordon.effect}"
        for cordon in cordons
        if cordon.covers_instance(cluster, gpu_spec, nodes)
    )


def declared_storage_row(
    facts: StorageFacts, offers: Offers, path: str, pull_request: PullRequestOutput | None
) -> StorageRowOutput:
    """Return the row of a storage as its file declares it, without the state in its cluster."""
    return StorageRowOutput(
        tenant=facts.tenant,
        name=facts.name,
        cluster=facts.cluster,
        reported_state=None,
        reason="",
        message="",
        is_as_declared=False,
        storage_spec=facts.storage_spec or None,
        size=format_size(facts.size) if facts.size else None,
        capacity=None,
        source=facts.source or None,
        preparation=None,
        attempt=0,
        mounted_by=facts.mounted_by,
        url=None,
        since=None,
        cost_per_hour=declared_storage_cost(facts, offers),
        labels=facts.labels,
        deletion_policy=facts.deletion_policy or None,
        path=path,
        pull_request=pull_request,
    )


def storage_row(status: ResourceStatus, facts: StorageFacts | None, offers: Offers) -> StorageRowOutput:
    """Return the row of a storage. `facts` is None if the storage is not declared or its file is invalid."""
    resource, observed = status.resource, status.observed if isinstance(status.observed, Storage) else None
    preparation = observed.prepare if observed is not None else None
    return msgspec.structs.replace(
        declared_storage_row(facts if facts is not None else _NO_STORAGE, offers, status.path, None),
        tenant=resource.tenant,
        name=resource.name,
        cluster=resource.cluster,
        reported_state=status.displayed_state or None,
        reason=status.reason,
        message=status.explanation,
        is_as_declared=status.is_as_declared,
        capacity=observed.capacity or None if observed is not None else None,
        preparation=preparation.state or None if preparation is not None else None,
        attempt=preparation.attempt if preparation is not None else 0,
        url=(observed.url if observed is not None else "") or _find_files_url(facts, offers),
        since=observed.since or None if observed is not None else None,
    )


def _find_files_url(facts: StorageFacts | None, offers: Offers) -> str | None:
    """Return the declared URL of the files of a storage; None without an accessor for people."""
    domain = offers.domains.get(facts.cluster) if facts is not None else None
    if facts is None or domain is None or facts.exposure in ("", "Namespace"):
        return None
    return f"https://{names.files_host(facts.name, facts.tenant, domain)}/"


def pending_instance_row(
    facts: InstanceFacts, tenant: TenantFacts | None, offers: Offers, path: str, pull_request: PullRequestOutput
) -> InstanceRowOutput:
    """Return the row of an instance as a pull request declares it, with its cost after the merge.

    `tenant` is None if the tenant is new; its instances count as running.
    """
    return declared_instance_row(facts, tenant or _NEW_TENANT, offers, path, pull_request)


def removal_rows(rows: Iterable[R], tenant: str, name: str, pull_request: PullRequestOutput) -> list[R]:
    """Return, for each row of a resource, a row that says that a pull request removes the resource."""
    return [
        msgspec.structs.replace(row, pull_request=pull_request, cost_per_hour=Decimal(0))
        for row in rows
        if (row.tenant, row.name) == (tenant, name)
    ]
