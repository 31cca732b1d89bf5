"""Computes the cost of the current month for the tenant of a status view."""

from __future__ import annotations

import datetime

from allotment.billing.declared_costs import DeclaredCosts
from allotment.branches.platform_settings import read_platform
from allotment.services.billing.cost_reader import compute_costs
from allotment.services.billing.month_forecasts import find_current_month, read_month_record
from allotment.services.status_view.status_view import StatusView


def compute_tenant_month(view: StatusView, now: datetime.datetime) -> DeclaredCosts | None:
    """Return the costs of the tenant of a view; None without a declared tenant, or if the Platform can't be read."""
    source = view.declared_commit.source
    platform = read_platform(view.clone.find_settings_commit(view.declared_commit))
    if platform is None or view.tenant is None or view.tenant not in view.tenants:
        return None
    month = find_current_month(platform.spec.billing, now)
    record = read_month_record(view.clone.repository, source, {view.tenant}, month)
    return compute_costs(source, platform.spec.billing, record, month, {view.tenant})
