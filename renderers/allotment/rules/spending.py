"""The monthly cost of each tenant, and the part of its budget that remains. This module yields no findings."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.pricing import count_uncosted_files, monthly_costs
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.plan import Budget
from allotment.rules.limits import plan_of


class TenantSpending(NamedTuple):
    """The monthly cost of a tenant's declarations.

    `plan` is empty if the tariff plan can't be read. `invalid_files` is the number of files with an unknown cost.
    `unpriced_resources` is the number of resources that have no price on the day for which the cost is computed. `cost`
    excludes these files and resources. If there are unpriced resources, and no resource has a price, `cost` is None.
    """

    tenant: str
    plan: str
    cost: Decimal | None
    budget: Budget | None
    invalid_files: int = 0
    unpriced_resources: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the cost includes all files and resources."""
        return not self.invalid_files and not self.unpriced_resources

    @property
    def is_over_budget(self) -> bool:
        """Whether the cost exceeds the budget."""
        return self.budget is not None and self.cost is not None and self.cost > self.budget.per_month

    @property
    def remaining_budget(self) -> Decimal | None:
        """The part of the budget that remains, negative if the cost exceeds the budget; None if there is no budget or
        the cost is incomplete."""
        return self.budget.per_month - self.cost if self.is_complete and self.budget and self.cost is not None else None


def total_cost(tenants: Iterable[TenantSpending]) -> Decimal | None:
    """Return the total cost of several tenants; None if it would be 0 only because resources have no price."""
    spendings = list(tenants)
    amounts = [tenant_spending.cost for tenant_spending in spendings if tenant_spending.cost is not None]
    if not any(amounts) and any(tenant_spending.unpriced_resources for tenant_spending in spendings):
        return None
    return sum(amounts, Decimal(0))


def compute_spending(catalog: Catalog, tenant: ScopeDeclarations) -> TenantSpending:
    """Return a tenant's monthly cost at the prices of the day `catalog.as_of`."""
    plan = plan_of(catalog, tenant)
    name, budget = ("", None) if plan is None else (plan.model.name, plan.model.spec.budget)
    costs = monthly_costs(catalog, tenant)
    priced = [cost.per_month for cost in costs if cost.has_price]
    cost, unpriced = sum(priced, Decimal(0)), len(costs) - len(priced)
    return TenantSpending(
        tenant.name,
        name,
        cost if priced or not unpriced else None,
        budget,
        count_uncosted_files(catalog, tenant),
        unpriced,
    )
