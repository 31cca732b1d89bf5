"""Defines the facts of a tenant that its pages show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from allotment.billing.declared_costs import TenantMonth
from allotment.capacity.cordons import PlannedCordon
from allotment.capacity.pricing import scale_to_month
from allotment.declared.tenant_facts import MemberFacts
from allotment.declared.values import format_decimal, format_size
from allotment.observed.resource_rows import InstanceRowOutput, StorageRowOutput
from allotment.portal.pages.change_history import Merge, StateChange
from allotment.portal.pages.site_facts import GpuSpecEntry
from allotment.reports.links import InstanceLinks
from allotment.reports.plots import Plot
from allotment.rules.availability import TenantAllowance
from allotment.rules.quota import QuotaLimits, QuotaUsage


class QuotaBar(NamedTuple):
    """The used part of a limit of the quota. `text` has both as text."""

    label: str
    used: float
    limit: float
    text: str


class InstanceDetail(NamedTuple):
    """An instance with the explanation of its state. `page` is the name of its page.

    `remedy` says what to do; it is empty if nothing is to be done. `ssh_command` and `links` are empty if the instance has none.
    `cost_so_far` is the cost in the current month; None without a record. `availability` is None if its changes of state are
    unknown. `text` is the file of the declaration; empty if it is not declared.
    """

    row: InstanceRowOutput
    page: str
    meaning: str
    remedy: str
    ssh_command: str
    other_urls: tuple[str, ...]
    links: InstanceLinks
    nodes: tuple[str, ...]
    restarts: int
    cost_so_far: Decimal | None
    availability: Plot | None
    text: str

    @property
    def cost_per_month(self) -> Decimal | None:
        """The cost in a month of 730 hours."""
        return scale_to_month(self.row.cost_per_hour)


class StorageDetail(NamedTuple):
    """A storage with the explanation of its state, as in `InstanceDetail`.

    `snapshot_cost` is the cost of a snapshot in a month of 730 hours; None if it is unknown.
    """

    row: StorageRowOutput
    page: str
    meaning: str
    remedy: str
    snapshots: tuple[SnapshotDetail, ...]
    cost_so_far: Decimal | None
    text: str
    snapshot_cost: Decimal | None

    @property
    def cost_per_month(self) -> Decimal | None:
        """The cost in a month of 730 hours."""
        return scale_to_month(self.row.cost_per_hour)


class SnapshotDetail(NamedTuple):
    """A snapshot of a storage. `created_at` is the time when it was taken; empty before that.

    `is_marked_for_deletion` says whether the next merge that removes its file deletes it. `page` is the name of its page.
    `path` is the path of its declaration; empty if it is not declared. `cost_per_month` is the cost in a month of 730 hours;
    None if it is unknown.
    """

    name: str
    page: str
    cluster: str
    path: str
    storage: str
    state: str
    message: str
    created_at: str
    is_marked_for_deletion: bool
    cost_per_month: Decimal | None


class PullRequestEntry(NamedTuple):
    """An open pull request with its changes of one tenant, such as `add GPUInstance webui`. `verdict` is that of its plan."""

    number: int
    url: str
    changes: tuple[str, ...]
    verdict: str


class InvoiceView(NamedTuple):
    """An invoice. `bill` has its texts for the template `invoice.j2`."""

    month: str
    bill: dict[str, Any]


class TenantArea(NamedTuple):
    """The facts of a tenant. `retention` says why the tenant stays at its last published manifests; empty if it does not.

    `month` is None without a readable declaration. `stale_clusters` are the clusters with a possibly outdated report.
    `reserved` has the units that are reserved for the tenant.
    `members_text` is the file of its members; empty without a file, and None if the file is invalid.
    `omitted` is the number of resources that have no page, because the tenant has too many.
    `instance_names` and `storage_names` are the names of all declared instances and storages, and `secret_names` those of the readable
    secrets.
    `running_mounts` has the running instances that mount each storage, and `edited_storages` are the storages with an accessor that
    may change their files.
    `cordons` are those of all clusters that have not ended.
    `seconds_left` are the seconds until the end of the month, and `recorded_clusters` are the clusters with a usage record of it.
    `invoices`, `merges` and `state_changes` are sorted, the newest first; the first invoice is that of the current month.
    """

    name: str
    title: str
    description: str
    plan: str
    lifecycle: str
    instances: tuple[InstanceDetail, ...]
    storages: tuple[StorageDetail, ...]
    snapshots: tuple[SnapshotDetail, ...]
    members: tuple[MemberFacts, ...]
    allowance: TenantAllowance
    reserved: tuple[GpuSpecEntry, ...]
    members_text: str | None
    month: TenantMonth | None
    invoices: tuple[InvoiceView, ...]
    pull_requests: tuple[PullRequestEntry, ...]
    merges: tuple[Merge, ...]
    state_changes: tuple[StateChange, ...]
    omitted: int
    instance_names: tuple[str, ...]
    storage_names: tuple[str, ...]
    secret_names: tuple[str, ...]
    running_mounts: Mapping[str, Sequence[str]]
    cordons: tuple[PlannedCordon, ...]
    edited_storages: frozenset[str]
    seconds_left: int
    recorded_clusters: frozenset[str]
    retention: str
    stale_clusters: tuple[str, ...]

    @property
    def quota(self) -> tuple[QuotaBar, ...]:
        """A bar for each limit of the quota; none if the tariff plan can't be read."""
        limits = self.allowance.limits
        return tuple(_list_bars(limits, self.allowance.usage)) if limits is not None else ()

    @property
    def plots(self) -> list[Plot]:
        """The plots of the current month."""
        return self.invoices[0].bill["invoices"][0]["plots"] if self.invoices else []


def _list_bars(limits: QuotaLimits, usage: QuotaUsage) -> Iterator[QuotaBar]:
    for model in sorted({*limits.gpus, *usage.gpus}):
        used, limit = usage.gpus.get(model, Fraction(0)), limits.gpus.get(model, 0)
        yield QuotaBar(f"GPUs {model}", float(used), limit, f"{format_decimal(used)} of {limit}")
    for label, count, limit in (
        ("Instances", usage.instances, limits.instances),
        ("Storages", usage.storages, limits.storages),
        ("Snapshots", usage.snapshots, limits.snapshots),
    ):
        yield QuotaBar(label, count, limit, f"{count} of {limit}")
    sizes = f"{format_size(usage.storage)} of {format_size(limits.storage)}"
    yield QuotaBar("Storage size", usage.storage, limits.storage, sizes)
