"""Defines the facts that the pages for the platform team show."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.cordons import PlannedCordon
from allotment.capacity.pricing import scale_to_month
from allotment.observed.tenant_rows import TenantRowOutput
from allotment.portal.pages.change_history import Merge
from allotment.portal.pages.site_facts import ClusterEntry
from allotment.reports.stock_table import StockRowOutput


class PublishSummary(NamedTuple):
    """The state of publishing, and the number of problems of the declarations.

    `headline` names the published commit, the unpublished commits and the retained tenants. `stopped` is the reason why
    publishing has stopped until a person acts, such as the brake; it is empty if publishing continues.
    """

    headline: str
    stopped: str
    errors: int
    warnings: int


class Finding(NamedTuple):
    """A fault that `allot doctor` finds. `severity` is `error` or `warning`, and `advice` is the remedy."""

    severity: str
    subject: str
    message: str
    advice: str


class RetainedEntry(NamedTuple):
    """A retained tenant. `page` is the path of its overview; empty if the tenant has no pages. `since` is RFC 3339."""

    tenant: str
    page: str
    reason: str
    problem: str
    since: str


class InstanceRef(NamedTuple):
    """An instance of a tenant. `page` is the path of its page; empty if it has none."""

    tenant: str
    name: str
    page: str

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


class InstanceTrouble(NamedTuple):
    """An instance that waits or has failed, with the reason and the time of this state."""

    instance: InstanceRef
    cluster: str
    state: str
    reason: str
    message: str
    since: str


class AddOnVersion(NamedTuple):
    """An add-on that is declared for a cluster. `version` is that of its chart, or the commit of its manifests."""

    name: str
    version: str


class PlatformCluster(NamedTuple):
    """A cluster with its add-ons."""

    cluster: ClusterEntry
    add_ons: tuple[AddOnVersion, ...]


class NodeEntry(NamedTuple):
    """A node with the instances that run on it. `node_pool` is empty if the report of the cluster doesn't have the node."""

    cluster: str
    node_pool: str
    name: str
    instances: tuple[InstanceRef, ...]


class BudgetUse(NamedTuple):
    """The budget per month of a tenant, and the percentage of it that the forecast of the month uses; None if there is none."""

    budget: Decimal | None
    percent: int | None


class PlatformTenant(NamedTuple):
    """A tenant with its budget."""

    row: TenantRowOutput
    budget: BudgetUse

    @property
    def cost_per_month(self) -> Decimal | None:
        """The cost of the declared resources in a month of 730 hours; None if a price is unknown."""
        return scale_to_month(self.row.cost_per_hour)


class PlatformArea(NamedTuple):
    """The facts of the platform pages. `findings` are sorted by severity.

    `omitted_retained` counts the retained tenants that the retention record leaves out, and `retained_clusters` are the clusters
    that stay at their last published manifests. `merges` are sorted, the newest first. `cordons` have not ended.
    """

    publish: PublishSummary
    findings: tuple[Finding, ...]
    retained: tuple[RetainedEntry, ...]
    omitted_retained: int
    retained_clusters: tuple[str, ...]
    troubles: tuple[InstanceTrouble, ...]
    clusters: tuple[PlatformCluster, ...]
    stocks: tuple[StockRowOutput, ...]
    nodes: tuple[NodeEntry, ...]
    cordons: tuple[PlannedCordon, ...]
    tenants: tuple[PlatformTenant, ...]
    merges: tuple[Merge, ...]
