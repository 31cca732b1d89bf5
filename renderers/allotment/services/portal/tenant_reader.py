"""Reads the facts that the pages of tenants show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.declared_costs import TenantMonth
from allotment.billing.monthly_bill import MonthlyBill
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.platform import Billing
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.resource_rows import Offers, build_instance_rows, build_storage_rows
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import Instance, Snapshot
from allotment.portal.inert_text import hide_tenants, is_file_name
from allotment.portal.tenant_area import InstanceDetail, SnapshotDetail, StorageDetail, TenantArea, measure_quota
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.plots import draw_plots
from allotment.reports.reason_pages import REASONS
from allotment.rules.quota import compute_quota_usage, limits_of
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.cost_reader import compute_costs
from allotment.services.billing.month_forecasts import CurrentMonth
from allotment.services.billing.usage_reader import FetchedUsage
from allotment.services.check.workers import read_scope


class TenantInputs(NamedTuple):
    """The inputs of the pages of all tenants. `statuses` has the resources of each tenant.

    `month` is the current month, and `usage` reads its recorded use. `tenants` has the names of all tenants, which no page
    of another tenant shows.
    """

    source: CommitSource
    catalog: Catalog
    billing: Billing
    offers: Offers
    consoles: Consoles
    facts: Mapping[str, TenantFacts]
    statuses: Mapping[str, Sequence[ResourceStatus]]
    retained: Mapping[str, RetainedTenant]
    stale_clusters: frozenset[str]
    month: CurrentMonth
    usage: FetchedUsage
    tenants: Collection[str]


def read_tenant_areas(inputs: TenantInputs, names: Iterable[str]) -> Iterator[TenantArea]:
    """Yield the facts of some tenants, in the order of `names`."""
    chosen = sorted(names)
    record = inputs.usage.read(chosen, inputs.month.period.start)
    arguments = inputs.source, inputs.billing
    costs = compute_costs(*arguments, record, inputs.month, chosen, catalog=inputs.catalog)
    months = {month.spending.tenant: month for month in costs.tenants}
    bill = compute_bill(
        *arguments, inputs.month.zone, inputs.month.name, record, None, adjusted_tenants=chosen, catalog=inputs.catalog
    )
    for name in names:
        yield _read_area(inputs, name, months.get(name), bill)


def _read_area(inputs: TenantInputs, name: str, month: TenantMonth | None, bill: MonthlyBill) -> TenantArea:
    scope = Scope("tenant", name)
    folder = read_folder(scope, read_scope(inputs.source, scope).files)[0]
    declared = folder.get_singleton(Tenant)
    facts = inputs.facts[name]
    statuses = [status for status in inputs.statuses.get(name, ()) if is_file_name(status.resource.name)]
    snapshots = tuple(_list_snapshots(inputs, name, statuses))
    retained = inputs.retained.get(name)
    return TenantArea(
        name=name,
        title=(declared.model.spec.display_name if declared is not None else None) or name,
        description=(declared.model.spec.description if declared is not None else None) or "",
        plan=facts.plan,
        lifecycle=facts.lifecycle,
        instances=tuple(_list_instances(inputs, facts, statuses)),
        storages=tuple(_list_storages(inputs, facts, statuses, snapshots)),
        snapshots=snapshots,
        members=facts.members,
        quota=measure_quota(limits_of(inputs.catalog, folder), compute_quota_usage(inputs.catalog, folder)),
        month=month,
        plots=tuple(draw_plots(bill, bill.of_tenant(name).invoices)),
        retention=_describe_retention(inputs, name, retained) if retained is not None else "",
        stale_clusters=tuple(sorted({status.resource.cluster for status in statuses} & inputs.stale_clusters)),
    )


def _list_instances(
    inputs: TenantInputs, facts: TenantFacts, statuses: Sequence[ResourceStatus]
) -> Iterator[InstanceDetail]:
    chosen = [status for status in statuses if status.resource.kind == "instance"]
    rows = build_instance_rows(chosen, {facts.tenant: facts}, inputs.offers)
    for row, status, page in zip(rows, chosen, _name_pages(chosen), strict=True):
        observed = status.observed if isinstance(status.observed, Instance) else None
        links = instance_links(inputs.consoles, facts.tenant, row.cluster, observed) if observed is not None else None
        yield InstanceDetail(
            row=row._replace(message=hide_tenants(row.message, facts.tenant, inputs.tenants)),
            page=page,
            meaning=_find_meaning(row.reason),
            remedy=_find_remedy(status),
            ssh_command=observed.ssh_command if observed is not None else "",
            other_urls=observed.links if observed is not None else (),
            links=links or InstanceLinks(),
            nodes=observed.nodes if observed is not None else (),
            restarts=observed.restarts if observed is not None else 0,
        )


def _list_storages(
    inputs: TenantInputs,
    facts: TenantFacts,
    statuses: Sequence[ResourceStatus],
    snapshots: Sequence[SnapshotDetail],
) -> Iterator[StorageDetail]:
    chosen = [status for status in statuses if status.resource.kind == "storage"]
    rows = build_storage_rows(chosen, {facts.tenant: facts}, inputs.offers)
    for row, status, page in zip(rows, chosen, _name_pages(chosen), strict=True):
        yield StorageDetail(
            row=row._replace(message=hide_tenants(row.message, facts.tenant, inputs.tenants)),
            page=page,
            meaning=_find_meaning(row.reason),
            remedy=_find_remedy(status),
            snapshots=tuple(snapshot for snapshot in snapshots if snapshot.storage == row.name),
        )


def _list_snapshots(inputs: TenantInputs, tenant: str, statuses: Sequence[ResourceStatus]) -> Iterator[SnapshotDetail]:
    storages = {snapshot.name: snapshot.storage for snapshot in inputs.facts[tenant].snapshots}
    for status in statuses:
        if status.resource.kind == "snapshot":
            observed = status.observed if isinstance(status.observed, Snapshot) else None
            yield SnapshotDetail(
                name=status.resource.name,
                storage=storages.get(status.resource.name, observed.storage if observed is not None else ""),
                state=status.displayed_state,
                reason=status.reason,
                message=hide_tenants(status.explanation, tenant, inputs.tenants),
                created_at=observed.creation_time if observed is not None else "",
            )


def _name_pages(statuses: Iterable[ResourceStatus]) -> Iterator[str]:
    """Yield the name of the page of each resource: its name, and for another cluster with the same name also the cluster."""
    counts: dict[str, int] = defaultdict(int)
    for status in statuses:
        name = status.resource.name
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name}--{counts[name]}"


def _find_meaning(reason: str) -> str:
    return REASONS[reason].meaning if reason in REASONS else ""


def _find_remedy(status: ResourceStatus) -> str:
    """Return what to do about the state of a resource; empty if it is as declared."""
    if status.is_as_declared:
        return ""
    return status.stage.remedy or (REASONS[status.reason].remedy if status.reason in REASONS else "")


def _describe_retention(inputs: TenantInputs, name: str, retained: RetainedTenant) -> str:
    words = hide_tenants(retained.words, name, inputs.tenants)
    return f"{words}: {WAYS_OUT[retained.reason]}"
