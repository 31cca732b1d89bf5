"""Joins the state of a tenant's resources with explanations, links and costs for its pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from allotment.billing.invoices import Invoice
from allotment.billing.periods import parse_moment, split_days
from allotment.capacity.offers import Offers, declared_snapshot_cost
from allotment.capacity.pricing import scale_to_month
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.tenant_facts import TenantFacts
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE, ResourceKind
from allotment.observed.availability import StateStep, measure_availability
from allotment.observed.resource_rows import build_instance_rows, build_storage_rows
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Instance, Snapshot, parse_time
from allotment.portal.pages.change_history import StateHistory
from allotment.portal.pages.inert_text import hide_tenants, is_file_name
from allotment.portal.pages.tenant_area import InstanceDetail, SnapshotDetail, StorageDetail
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.plots import Plot, draw_availability
from allotment.reports.reason_pages import REASONS
from allotment.services.billing.month_forecasts import CurrentMonth

MAX_RESOURCES = 200  # of each kind that the pages of a tenant show


class ResourceInputs(NamedTuple):
    """The inputs of the resources of all tenants. `statuses` has the resources of each tenant.

    `tenants` has the names of all tenants, which no page of another tenant shows.
    """

    offers: Offers
    consoles: Consoles
    facts: Mapping[str, TenantFacts]
    statuses: Mapping[str, Sequence[ResourceStatus]]
    month: CurrentMonth
    tenants: Collection[str]


class TenantResources(NamedTuple):
    """The resources of a tenant. `clusters` are the clusters that have or should have them.

    `omitted` is the number of resources that have no page, because the tenant has too many. `instance_names` and
    `storage_names` are the names of all declared instances and storages.
    `running_mounts` has the running instances that mount each storage. `edited_storages` are the storages with an accessor that may
    change their files.
    """

    instances: tuple[InstanceDetail, ...]
    storages: tuple[StorageDetail, ...]
    snapshots: tuple[SnapshotDetail, ...]
    clusters: frozenset[str]
    omitted: int
    instance_names: tuple[str, ...]
    storage_names: tuple[str, ...]
    running_mounts: Mapping[str, Sequence[str]]
    edited_storages: frozenset[str]


def read_resources(
    inputs: ResourceInputs, folder: ScopeDeclarations, invoice: Invoice | None, history: StateHistory
) -> TenantResources:
    """Return the resources of a tenant.

    `folder` has its declarations. `invoice` is that of the current month, and `history` has the changes of their states.
    """
    reader = _ResourceReader(inputs, folder, invoice, history)
    snapshots = tuple(reader.list_snapshots())
    instances, storages = tuple(reader.list_instances()), tuple(reader.list_storages(snapshots))
    clusters = frozenset(status.resource.cluster for status in reader.statuses)
    return TenantResources(
        instances=instances,
        storages=storages,
        snapshots=snapshots,
        clusters=clusters,
        omitted=reader.omitted,
        instance_names=reader.list_declared_names(INSTANCE),
        storage_names=reader.list_declared_names(STORAGE),
        running_mounts=reader.find_running_mounts(),
        edited_storages=frozenset(
            name
            for name, storage in folder.of_kind(GPUStorage).items()
            if storage.model.spec.accessor is not None and storage.model.spec.accessor.allows_writing
        ),
    )


class _ResourceReader:
    """Reads the resources of one tenant."""

    def __init__(
        self, inputs: ResourceInputs, folder: ScopeDeclarations, invoice: Invoice | None, history: StateHistory
    ) -> None:
        self._inputs, self._folder, self._tenant, self._history = inputs, folder, folder.name, history
        self._facts = inputs.facts[folder.name]
        self.statuses = [
            status for status in inputs.statuses.get(folder.name, ()) if is_file_name(status.resource.name)
        ]
        self._names = frozenset(status.resource.name for status in self.statuses if status.resource.blob)
        self.omitted = 0
        self._has_invoice = invoice is not None
        self._amounts: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
        for line in invoice.lines if invoice is not None else ():
            if not line.adjusts:
                self._amounts[line.key.kind, line.key.cluster, line.key.name] += line.amount

    def list_instances(self) -> Iterator[InstanceDetail]:
        """Yield the instances."""
        chosen = self._choose(INSTANCE)
        rows = build_instance_rows([status for status, _ in chosen], {self._tenant: self._facts}, self._inputs.offers)
        for row, (status, page) in zip(rows, chosen, strict=True):
            observed = status.observed if isinstance(status.observed, Instance) else Instance(row.name, "", "", "")
            yield InstanceDetail(
                row=msgspec.structs.replace(row, message=self._hide(row.message)),
                page=page,
                meaning=_find_meaning(row.reason),
                remedy=_find_remedy(status),
                ssh_command=observed.ssh_command,
                other_urls=observed.links,
                links=self._find_links(row.cluster, status),
                nodes=observed.nodes,
                restarts=observed.restarts,
                cost_so_far=self._find_cost(INSTANCE, row.cluster, row.name),
                availability=self._draw_availability(status),
                text=self._find_text(GPUInstance, status),
            )

    def list_storages(self, snapshots: Sequence[SnapshotDetail]) -> Iterator[StorageDetail]:
        """Yield the storages, each with its snapshots."""
        chosen = self._choose(STORAGE)
        rows = build_storage_rows([status for status, _ in chosen], {self._tenant: self._facts}, self._inputs.offers)
        for row, (status, page) in zip(rows, chosen, strict=True):
            yield StorageDetail(
                row=msgspec.structs.replace(row, message=self._hide(row.message)),
                page=page,
                meaning=_find_meaning(row.reason),
                remedy=_find_remedy(status),
                snapshots=tuple(snapshot for snapshot in snapshots if snapshot.storage == row.name),
                cost_so_far=self._find_cost(STORAGE, row.cluster, row.name),
                text=self._find_text(GPUStorage, status),
                snapshot_cost=self._find_snapshot_cost(row.name),
            )

    def list_snapshots(self) -> Iterator[SnapshotDetail]:
        """Yield the snapshots."""
        declared = {snapshot.name: snapshot for snapshot in self._facts.snapshots}
        for status, page in self._choose(SNAPSHOT):
            observed = status.observed if isinstance(status.observed, Snapshot) else None
            name = status.resource.name
            facts = declared.get(name) if status.resource.blob else None
            yield SnapshotDetail(
                name=name,
                page=page,
                cluster=status.resource.cluster,
                path=status.path if facts is not None else "",
                storage=facts.storage if facts is not None else observed.storage if observed is not None else "",
                state=status.displayed_state,
                message=self._hide(status.explanation),
                created_at=observed.creation_time if observed is not None else "",
                is_marked_for_deletion=facts is not None and facts.deletion_policy == "Delete",
                cost_per_month=self._find_snapshot_cost(facts.storage) if facts is not None else None,
            )

    def list_declared_names(self, kind: ResourceKind) -> tuple[str, ...]:
        """Return the names of the files of a kind, valid or not."""
        resources = [status.resource for status in self.statuses]
        return tuple(sorted({each.name for each in resources if each.blob and each.kind == kind.word}))

    def find_running_mounts(self) -> dict[str, list[str]]:
        """Return the names of the instances that mount each storage and are declared as running."""
        mounts: dict[str, list[str]] = defaultdict(list)
        for instance in self._facts.instances:
            if instance.state == "Running":
                for storage in instance.storages:
                    mounts[storage].append(instance.name)
        return dict(mounts)

    def _choose(self, kind: ResourceKind) -> list[tuple[ResourceStatus, str]]:
        """Return the resources of a kind that have a page, each with the name of its page."""
        assigned = assign_pages(self.statuses, kind)
        chosen = [(status, page) for status, page in assigned if page]
        self.omitted += len(assigned) - len(chosen)
        return chosen

    def _find_text(self, kind: type[GPUInstance] | type[GPUStorage], status: ResourceStatus) -> str:
        """Return the file of a declared resource; empty if it is not declared for this cluster, or is invalid."""
        declared = self._folder.of_kind(kind).get(status.resource.name) if status.resource.blob else None
        return declared.data.decode() if declared is not None else ""

    def _hide(self, text: str) -> str:
        return hide_tenants(text, self._tenant, self._inputs.tenants, self._names)

    def _find_links(self, cluster: str, status: ResourceStatus) -> InstanceLinks:
        if not isinstance(status.observed, Instance):
            return InstanceLinks()
        return instance_links(self._inputs.consoles, self._tenant, cluster, status.observed)

    def _find_cost(self, kind: ResourceKind, cluster: str, name: str) -> Decimal | None:
        """Return the cost of a resource in the current month so far; None without a record."""
        return self._amounts[kind.kind.name, cluster, name] if self._has_invoice else None

    def _find_snapshot_cost(self, storage: str) -> Decimal | None:
        """Return the cost of a snapshot of a storage in a month of 730 hours; None if it is unknown."""
        facts = next((each for each in self._facts.storages if each.name == storage), None)
        return scale_to_month(declared_snapshot_cost(facts, self._inputs.offers)) if facts is not None else None

    def _draw_availability(self, status: ResourceStatus) -> Plot | None:
        """Return the availability of an instance in the current month."""
        resource, month = status.resource, self._inputs.month
        steps = [
            StateStep(parse_moment(change.time), change.source, change.target)
            for change in self._history.changes
            if (change.cluster, change.kind, change.name) == (resource.cluster, INSTANCE.kind.name, resource.name)
        ]
        observed = status.observed
        state = observed.state if isinstance(observed, Instance) else ""
        since = parse_time(observed.since) if isinstance(observed, Instance) else None
        start = self._history.starts.get(resource.cluster)
        if steps and start is not None:  # the state before is unknown
            steps.insert(0, StateStep(min(start, steps[0].time), "", steps[0].source))
        elif not steps and since is None:
            return None
        elif not steps and since is not None and since.timestamp() >= month.period.start:
            steps = [StateStep(int(since.timestamp()), "", state)]
        starts = [start for start in split_days(month.period, month.zone) if start < month.now]
        return draw_availability(measure_availability(steps, state, starts, month.now, month.zone)) if starts else None


def assign_pages(statuses: Iterable[ResourceStatus], kind: ResourceKind) -> list[tuple[ResourceStatus, str]]:
    """Return the resources of a kind of a tenant, each with the name of its page.

    The pages are for at most MAX_RESOURCES, declared resources first. The remaining resources have no page: their name is empty.
    If several clusters have a name, the later pages have a number, too.
    """
    chosen = [status for status in statuses if status.resource.kind == kind.word and is_file_name(status.resource.name)]
    chosen.sort(key=lambda status: not status.resource.blob)
    counts: dict[str, int] = defaultdict(int)
    assigned = []
    for status in sorted(chosen[:MAX_RESOURCES], key=lambda status: (status.resource.name, not status.resource.blob)):
        name = status.resource.name
        counts[name] += 1
        assigned.append((status, name if counts[name] == 1 else f"{name}--{counts[name]}"))
    return assigned + [(status, "") for status in chosen[MAX_RESOURCES:]]


def _find_meaning(reason: str) -> str:
    return REASONS[reason].meaning if reason in REASONS else ""


def _find_remedy(status: ResourceStatus) -> str:
    """Return what to do about the state of a resource; empty if it is as declared."""
    if status.is_as_declared:
        return ""
    return status.stage.remedy or (REASONS[status.reason].remedy if status.reason in REASONS else "")
