"""Reads the facts that the pages of tenants show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.billing.declared_costs import TenantMonth
from allotment.billing.invoices import Invoice
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import parse_moment
from allotment.billing.recorded_use import UsageRecord
from allotment.branches.status_reader import walk_history
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import TenantStatus, parse_time
from allotment.portal.pages.change_history import MAX_STATE_CHANGES, Merge, StateChange, StateHistory
from allotment.portal.pages.inert_text import hide_tenants, is_file_name
from allotment.portal.pages.site_facts import GpuSpecEntry
from allotment.portal.pages.tenant_area import InvoiceView, PullRequestEntry, TenantArea
from allotment.portal.site.invoice_reader import InvoiceReader
from allotment.portal.site.resource_reader import ResourceInputs, read_resources
from allotment.rules.availability import TenantAllowance
from allotment.services.billing.cost_reader import compute_costs
from allotment.services.billing.month_forecasts import is_observed_in
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.check.workers import read_scope

MAX_PULL_REQUESTS = 50
_MAX_VERSIONS = 100  # of a status that are read for them


class TenantInputs(NamedTuple):
    """The inputs of the pages of all tenants.

    `usage` reads the recorded use. `status_commits` maps each cluster to the commit with its status. `merges` are the newest
    merges of each tenant, `reserved` the units that are reserved for it, and `pull_requests` its open pull requests.
    """

    resources: ResourceInputs
    invoices: InvoiceReader
    usage: UsageReader
    repository: Repository
    status_commits: Mapping[str, str]
    merges: Mapping[str, Sequence[Merge]]
    reserved: Mapping[str, Sequence[GpuSpecEntry]]
    pull_requests: Mapping[str, Sequence[PullRequestEntry]]
    retained: Mapping[str, RetainedTenant]
    stale_clusters: frozenset[str]


class _MonthFacts(NamedTuple):
    """The costs and invoices of a tenant. `invoice` is that of the current month; None without a record.

    `recorded_clusters` are the clusters with a usage record of the month.
    """

    costs: TenantMonth | None
    invoice: Invoice | None
    invoices: tuple[InvoiceView, ...]
    recorded_clusters: frozenset[str]


class TenantBatch(NamedTuple):
    """Some tenants with their recorded use and the bills of the open months, the newest first."""

    names: Sequence[str]
    record: UsageRecord
    open_bills: list[MonthlyBill]


def read_tenant_batches(inputs: TenantInputs, names: Sequence[str]) -> Iterator[TenantBatch]:
    """Yield some tenants with their recorded use and their bills.

    A problem in the record of a tenant must not change the pages of others, so such a tenant has a batch of its own.
    """
    record = inputs.usage.read(names, inputs.invoices.record_start)
    troubled = record.troubled_tenants
    others = [name for name in names if name not in troubled]
    for group in (others, *([name] for name in names if name in troubled)):
        if group:
            selected = record.select_tenants(group) if troubled else record
            yield TenantBatch(group, selected, inputs.invoices.compute_open_bills(selected, group))


def list_tenant_areas(inputs: TenantInputs, batch: TenantBatch) -> Iterator[TenantArea]:
    """Yield the facts of the tenants of a batch."""
    names, record, bills = batch
    reader = inputs.invoices
    billing = reader.platform.spec.billing
    costs = compute_costs(
        reader.source, billing, record, reader.month, names, catalog=reader.catalog, declared=reader.declared
    )
    months = {month.spending.tenant: month for month in costs.tenants}
    invoices = {invoice.tenant: invoice for invoice in bills[0].invoices} if record.clusters else {}
    views = reader.read(bills, names)
    recorded = frozenset(each.cluster for each in record.clusters if is_observed_in(each, reader.month))
    for name in names:
        facts = _MonthFacts(months.get(name), invoices.get(name), tuple(views.get(name, ())), recorded)
        yield _read_area(inputs, name, facts)


def _read_area(inputs: TenantInputs, name: str, month: _MonthFacts) -> TenantArea:
    scope, reader = Scope("tenant", name), inputs.invoices
    folder = read_folder(scope, read_scope(reader.source, scope).files)[0]
    declared, facts = folder.get_singleton(Tenant), inputs.resources.facts[name]
    history = _read_state_history(inputs, name)
    resources = read_resources(inputs.resources, folder, month.invoice, history)
    retained = inputs.retained.get(name)
    return TenantArea(
        name=name,
        title=(declared.model.spec.display_name if declared is not None else None) or name,
        description=(declared.model.spec.description if declared is not None else None) or "",
        plan=facts.plan,
        lifecycle=facts.lifecycle,
        instances=resources.instances,
        storages=resources.storages,
        snapshots=resources.snapshots,
        members=facts.members,
        allowance=TenantAllowance(reader.catalog, folder),
        reserved=tuple(inputs.reserved.get(name, ())),
        members_text=_read_members_text(folder),
        month=month.costs,
        invoices=month.invoices,
        pull_requests=tuple(inputs.pull_requests.get(name, ()))[:MAX_PULL_REQUESTS],
        merges=tuple(inputs.merges.get(name, ())),
        state_changes=tuple(reversed(history.changes)),
        omitted=resources.omitted,
        instance_names=resources.instance_names,
        storage_names=resources.storage_names,
        secret_names=tuple(sorted(folder.of_kind(SecretReference))),
        running_mounts=resources.running_mounts,
        cordons=inputs.resources.offers.cordons,
        edited_storages=resources.edited_storages,
        seconds_left=reader.month.period.end - reader.month.now,
        recorded_clusters=month.recorded_clusters,
        retention=_describe_retention(inputs, name, retained) if retained is not None else "",
        stale_clusters=tuple(sorted(resources.clusters & inputs.stale_clusters)),
    )


def _read_members_text(folder: ScopeDeclarations) -> str | None:
    """Return the file of a tenant's members; empty if it is absent, and None if it is invalid."""
    members = folder.get_singleton(Members)
    if members is not None:
        return members.data.decode()
    return "" if folder.is_absent(Members, folder.name) else None


def _read_state_history(inputs: TenantInputs, name: str) -> StateHistory:
    """Return the newest changes of state of a tenant's resources. It reads the current month, and a bit before."""
    changes: list[StateChange] = []
    starts, month_start = dict[str, int](), inputs.resources.month.period.start
    for cluster, commit in inputs.status_commits.items():
        newest: list[StateChange] = []
        is_complete = True
        for version, status in enumerate(walk_history(inputs.repository, commit, name)):
            newest += reversed(list(_list_changes(cluster, status)))
            is_complete = not status.previous or bool(newest and parse_moment(newest[-1].time) < month_start)
            if is_complete or len(newest) >= MAX_STATE_CHANGES or version + 1 >= _MAX_VERSIONS:
                break
        if newest and not is_complete:
            starts[cluster] = parse_moment(newest[-1].time)
        changes += reversed(newest)
    changes.sort(key=lambda change: parse_moment(change.time))
    latest = changes[-MAX_STATE_CHANGES:]
    if len(latest) < len(changes):
        earliest = parse_moment(latest[0].time)
        starts |= {each.cluster: max(earliest, starts.get(each.cluster, 0)) for each in changes[:-MAX_STATE_CHANGES]}
    return StateHistory(tuple(latest), starts)


def _list_changes(cluster: str, status: TenantStatus) -> Iterable[StateChange]:
    for step in status.transitions:
        if is_file_name(step.name) and parse_time(step.time) is not None:
            yield StateChange(
                cluster, step.kind, step.name, step.source, step.target, reason=step.reason, time=step.time
            )


def _describe_retention(inputs: TenantInputs, name: str, retained: RetainedTenant) -> str:
    message = hide_tenants(retained.words, name, inputs.resources.tenants)
    return f"{message}: {WAYS_OUT[retained.reason]}"
