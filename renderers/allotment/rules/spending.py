"""What each tenant costs a month, and what is left of its plan's budget: nothing here finds fault with a file."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from allotment.accounts.pricing import is_priced, monthly_costs
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.plan import Budget
from allotment.rules.limits import plan_of


class Spending(NamedTuple):
    """What a tenant declares costs a month; its plan is empty where that can't be read. `is_whole` is false where it isn't
    known what some of its things cost, which are left out. `without_price` counts its things without a price on that day, which
    are left out, too; `cost` is None where nothing of it has a price."""

    tenant: str
    plan: str
    cost: Decimal | None
    budget: Budget | None
    is_whole: bool
    without_price: int = 0

    @property
    def left(self) -> Decimal | None:
        """What is left of the budget, less than nothing where it is overspent; None without a budget or a price."""
        return None if self.budget is None or self.cost is None else self.budget.per_month - self.cost


def total_cost(tenants: Iterable[Spending]) -> Decimal | None:
    """Return the cost of several tenants; None where they declare things, and none of these has a price."""
    several = list(tenants)
    amounts = [one.cost for one in several if one.cost is not None]
    if not any(amounts) and any(one.without_price for one in several):
        return None
    return sum(amounts, Decimal(0))


def spending(offers: Offers, tenant: Folder) -> Spending:
    """Return what a tenant costs a month, at the prices of `offers.as_of`."""
    plan = plan_of(offers, tenant)
    name, budget = ("", None) if plan is None else (plan.model.name, plan.model.spec.budget)
    costs = monthly_costs(offers, tenant)
    priced = [cost.per_month for cost in costs if cost.has_price]
    cost, unpriced = sum(priced, Decimal(0)), len(costs) - len(priced)
    return Spending(
        tenant.name, name, cost if priced or not unpriced else None, budget, is_priced(offers, tenant), unpriced
    )
