"""Reads the facts of the platform pages from the catalog, the reports and the retention record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.billing.declared_costs import TenantMonth
from allotment.capacity.offers import read_offers
from allotment.conditions import FAILED, WAITING
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.add_on import AddOn
from allotment.declared.tenant_facts import TenantFacts
from allotment.declared.tenant_resources import INSTANCE
from allotment.diagnosis import sort_by_severity
from allotment.diagnosis.repository import BranchState, diagnose_branches
from allotment.observed.offer_rows import claim_declared_units
from allotment.observed.publish_state import PublishState, format_headline
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.retention import RetainedTenant, RetentionRecord
from allotment.observed.status import ClusterStatus, Instance
from allotment.observed.tenant_rows import build_tenant_rows
from allotment.portal.pages.change_history import Merge
from allotment.portal.pages.platform_area import (
    AddOnVersion,
    BudgetUse,
    Finding,
    InstanceRef,
    InstanceTrouble,
    NodeEntry,
    PlatformArea,
    PlatformCluster,
    PlatformTenant,
    PublishSummary,
    RetainedEntry,
)
from allotment.portal.pages.provider_area import CapacityNow
from allotment.portal.pages.site_facts import ClusterEntry
from allotment.portal.pages.tenant_pages import tenant_folder
from allotment.portal.site.resource_reader import assign_pages
from allotment.reports.stock_table import stock_rows

_COMMIT_LENGTH = 12  # digits of the hash of an add-on's manifests
_NO_BUDGET = BudgetUse(None, None)
_TROUBLES = (FAILED, WAITING)


class PlatformInputs(NamedTuple):
    """The inputs of the platform pages.

    `facts` and `statuses` are those of all tenants. `reports` are the reported statuses of clusters, and `capacities` their nodes.
    `record` is the retention record of the last publish; None if there is none. `budgets` may lack tenants. `findings` are those
    of the branches and of the keys that protect them.
    """

    catalog: Catalog
    clusters: Sequence[ClusterEntry]
    facts: Mapping[str, TenantFacts]
    statuses: Mapping[str, Sequence[ResourceStatus]]
    reports: Sequence[ClusterStatus]
    capacities: Mapping[str, CapacityNow]
    record: RetentionRecord | None
    merges: Sequence[Merge]
    budgets: Mapping[str, BudgetUse]
    findings: Sequence[Finding] = ()


class _InstanceStatus(NamedTuple):
    """The status of an instance, with its page."""

    instance: InstanceRef
    status: ResourceStatus


def read_platform_area(inputs: PlatformInputs, publish: PublishSummary) -> PlatformArea:
    """Return the facts of the platform pages."""
    instances, record = list(_list_instances(inputs)), inputs.record
    stocks = stock_rows(inputs.catalog, claim_declared_units(inputs.facts.values()), inputs.reports)
    offers = read_offers(inputs.catalog)
    return PlatformArea(
        publish=publish,
        findings=tuple(inputs.findings),
        retained=tuple(
            _describe_retained(each, inputs.facts)
            for each in sorted(record.tenants if record is not None else (), key=lambda each: each.tenant)
        ),
        omitted_retained=record.omitted_tenants if record is not None else 0,
        retained_clusters=record.clusters if record is not None else (),
        troubles=tuple(_list_troubles(instances)),
        clusters=tuple(
            PlatformCluster(cluster, tuple(_list_add_ons(inputs.catalog, cluster.name))) for cluster in inputs.clusters
        ),
        stocks=tuple(sorted(stocks, key=lambda stock: (stock.cluster, stock.node_pool, stock.name))),
        nodes=tuple(_list_nodes(instances, inputs.capacities)),
        cordons=offers.cordons,
        tenants=tuple(
            PlatformTenant(row, inputs.budgets.get(row.name, _NO_BUDGET))
            for row in build_tenant_rows(inputs.facts, offers)
        ),
        merges=tuple(inputs.merges),
    )


def summarize_publish(state: PublishState, branch: str, *, errors: int, warnings: int) -> PublishSummary:
    """Return the summary of a publish state. `branch` is the branch of the declarations."""
    headline = format_headline(state, branch)
    if not headline:
        headline = f"{branch} is published." if state.commit else state.message or "Nothing is published yet."
    stopped = state.message or state.summary or state.reason
    return PublishSummary(headline, stopped if state.stopped else "", errors, warnings)


def list_findings(branches: BranchState, has_publisher_key: bool) -> list[Finding]:
    """Return the findings of `allot doctor` about the branches and the keys, errors first.

    The retained tenants have a list of their own. The findings have no ages, so that they stay the same while nothing changes.
    """
    clusters = tuple(cluster._replace(age="") for cluster in branches.clusters)
    diagnoses = diagnose_branches(branches._replace(clusters=clusters, retained=()), has_publisher_key)
    return [
        Finding(each.severity, each.subject, each.message, each.advice)
        for each in sort_by_severity(diagnoses)
        if each.severity in ("error", "warning")
    ]


def describe_budget(month: TenantMonth | None) -> BudgetUse:
    """Return the budget of a tenant and its forecast. `month` is None without a readable declaration."""
    if month is None:
        return _NO_BUDGET
    if month.forecast is not None:
        return BudgetUse(month.forecast.budget, month.forecast.percent)
    budget = month.spending.budget
    return BudgetUse(budget.per_month, None) if budget is not None else _NO_BUDGET


def _list_instances(inputs: PlatformInputs) -> Iterator[_InstanceStatus]:
    """Yield the instances of all tenants. The pages have the names that the pages of tenants have."""
    for tenant, statuses in inputs.statuses.items():
        for status, page in assign_pages(statuses, INSTANCE):
            path = f"{tenant_folder(tenant)}/instances/{page}.html" if page and tenant in inputs.facts else ""
            yield _InstanceStatus(InstanceRef(tenant, status.resource.name, path), status)


def _list_troubles(instances: Iterable[_InstanceStatus]) -> list[InstanceTrouble]:
    """Return the instances that have failed, and then those that wait."""
    troubles = [
        InstanceTrouble(
            instance=instance,
            cluster=status.resource.cluster,
            state=status.displayed_state,
            reason=status.reason,
            message=status.explanation,
            since=status.observed.since if status.observed is not None else "",
        )
        for instance, status in instances
        if status.displayed_state in _TROUBLES
    ]
    return sorted(troubles, key=lambda trouble: (_TROUBLES.index(trouble.state), trouble.instance, trouble.cluster))


def _describe_retained(retained: RetainedTenant, facts: Mapping[str, TenantFacts]) -> RetainedEntry:
    problem = retained.words.removeprefix(retained.reason).removeprefix(": ")
    page = f"{tenant_folder(retained.tenant)}/index.html" if retained.tenant in facts else ""
    return RetainedEntry(retained.tenant, page, retained.reason, problem, retained.since)


def _list_add_ons(catalog: Catalog, cluster: str) -> Iterator[AddOnVersion]:
    """Yield the add-ons that are declared for a cluster, or for all clusters."""
    for name, declared in catalog.platform.of_kind(AddOn).items():
        spec = declared.model.spec
        if not spec.clusters or cluster in spec.clusters:
            yield AddOnVersion(name, spec.version if spec.chart is not None else spec.version[:_COMMIT_LENGTH])


def _list_nodes(instances: Iterable[_InstanceStatus], capacities: Mapping[str, CapacityNow]) -> list[NodeEntry]:
    """Return the nodes of all clusters, sorted. The nodes of instances count, too."""
    instances_by_node: dict[tuple[str, str], set[InstanceRef]] = defaultdict(set)
    for instance, status in instances:
        for node in status.observed.nodes if isinstance(status.observed, Instance) else ():
            instances_by_node[status.resource.cluster, node].add(instance)
    pools = {
        (cluster, node.name): pool.name
        for cluster, capacity in capacities.items()
        for pool in capacity.pools
        for node in pool.nodes
    }
    nodes = [
        NodeEntry(
            cluster, pools.get((cluster, name), ""), name, tuple(sorted(instances_by_node.get((cluster, name), ())))
        )
        for cluster, name in {*pools, *instances_by_node}
    ]
    return sorted(nodes, key=lambda node: node[:3])
