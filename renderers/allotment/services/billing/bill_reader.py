"""Computes the bill of a month from a clone: prices and budgets of a commit, and the recorded usage."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.invoices import compute_invoice
from allotment.billing.late_changes import MergedTerms
from allotment.billing.monthly_bill import LEDGER_FORMAT, ROUNDED_LINES_FORMAT, MonthlyBill
from allotment.billing.periods import month_period
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import UsageRecord
from allotment.billing.reservations import list_reserved_uses
from allotment.billing.usage_totals import Share, clip_uses
from allotment.capacity.units import physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.platform import Billing, Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import Scope, path_of
from allotment.declared.reading import read_folder
from allotment.services.check.catalog_check import check_catalog


def compute_bill(
    source: CommitSource,
    billing: Billing,
    zone: datetime.tzinfo,
    month: str,
    record: UsageRecord,
    tenant: str | None,
    *,
    adjusted_tenants: Collection[str] = (),
    catalog: Catalog | None = None,
    ledger_format: int = LEDGER_FORMAT,
    terms: Sequence[MergedTerms] = (),
) -> MonthlyBill:
    """Return the bill of a month. It has an invoice for each tenant with usage or in `adjusted_tenants`, or for `tenant` alone.

    `source` has the prices and the budgets. `record` has the usage of the month. `catalog` is that of `source`, if the caller
    has it already. `ledger_format` is that of a closed month. `terms` are
    the merges that decide the price of reserved units without a use.
    """
    period, is_old = month_period(month, zone), ledger_format == ROUNDED_LINES_FORMAT
    day = datetime.datetime.fromtimestamp(period.end - 1, zone).date()
    catalog = check_catalog(source, day).catalog if catalog is None else catalog._replace(as_of=day)
    prices = PriceList(catalog.platform, zone)
    shares_by_tenant: dict[str, list[Share]] = defaultdict(list)
    reserved = () if is_old else list_reserved_uses(record.stocks, record.uses, period, terms)
    for share in clip_uses((*record.uses, *reserved), period):
        shares_by_tenant[share.use.tenant].append(share)
    tenants = sorted({*shares_by_tenant, *adjusted_tenants}) if tenant is None else [tenant]
    budgets = _read_budgets(source, catalog, tenants)
    bills_unknown = billing.unknown == "Billed"
    platform = catalog.platform.get_singleton(Platform)
    return MonthlyBill(
        month=month,
        provider=platform.model.spec.display_name or "" if platform else "",
        period=period,
        zone=zone,
        currency=billing.currency,
        bills_unknown=bills_unknown,
        commit=source.commit,
        clusters=record.clusters,
        invoices=tuple(
            compute_invoice(
                name,
                shares_by_tenant.get(name, ()),
                prices,
                budgets[name],
                bills_unknown=bills_unknown,
                rounds_lines=is_old,
            )
            for name in tenants
        ),
        gpus_by_spec={name: physical_gpus(spec.model.spec) for name, spec in catalog.platform.of_kind(GPUSpec).items()},
        ledger_format=ledger_format,
    )


def _read_budgets(source: CommitSource, catalog: Catalog, tenants: list[str]) -> Mapping[str, Decimal | None]:
    """Return the budget per month of each tenant; None if its tariff plan has none or it is not declared."""
    plans = catalog.platform.of_kind(Plan)
    budgets: dict[str, Decimal | None] = dict.fromkeys(tenants)
    for name in tenants:
        path = path_of("Tenant", Scope("tenant", name), "")
        try:
            declared = read_folder(Scope("tenant", name), [(path, source.read(path))])[0].get_singleton(Tenant)
        except KeyError:
            continue
        plan = plans.get(declared.model.spec.plan) if declared is not None else None
        if plan is not None and plan.model.spec.budget is not None:
            budgets[name] = plan.model.spec.budget.per_month
    return budgets
