"""What each tenant costs a month, and what is left of its plan's budget: nothing here finds fault with a file."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from allotment.accounts.pricing import is_priced, monthly_cost
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.plan import Budget
from allotment.rules.limits import plan_of


class Spending(NamedTuple):
    """What a tenant declares costs a month; its plan is empty where that can't be read. `is_whole` is false where it isn't
    known what some of its things cost, which are left out."""

    tenant: str
    plan: str
    cost: Decimal
    budget: Budget | None
    is_whole: bool

    @property
    def left(self) -> Decimal | None:
        """What is left of the budget, less than nothing where it is overspent; None without one."""
        return None if self.budget is None else self.budget.per_month - self.cost


def spending(offers: Offers, tenant: Folder) -> Spending:
    """Return what a tenant costs a month, at the prices of `offers.as_of`."""
    plan = plan_of(offers, tenant)
    name, budget = ("", None) if plan is None else (plan.model.name, plan.model.spec.budget)
    return Spending(tenant.name, name, monthly_cost(offers, tenant), budget, is_priced(offers, tenant))
