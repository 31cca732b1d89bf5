"""Compute the effect of a change on tenants' costs: today, and on each later day on which a new price alters the costs."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from allotment.capacity.pricing import monthly_costs, price_days, sum_by_cluster
from allotment.diff.tenant_side import TenantSide
from allotment.output_part import Part
from allotment.rules.limits import plan_of

MAX_DAYS = 24  # a plan shows a tenant's cost on at most this many later days


class CostPart(Part, frozen=True):
    """The monthly cost of a resource of a tenant at today's prices, before and after a change."""

    label: str = msgspec.field(name="what")
    before: Decimal
    after: Decimal


class CostDay(Part, frozen=True):
    """The monthly cost from a day on, before and after a change."""

    day: datetime.date
    before: Decimal
    after: Decimal


class OverBudgetOutput(Part, frozen=True):
    """The first day on which the change causes or increases an excess of the tenant's cost over the budget.

    `amount` is the excess. `denied` is true if the budget refuses the excess, and false if the budget only warns.
    """

    day: datetime.date
    amount: Decimal
    is_denied: bool = msgspec.field(name="denied")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """A tenant's budget, and its monthly cost today and on each later day on which a price changes the cost.

    `parts` are the resources with a different cost today, the largest difference first. `more_days` is the number of
    later days beyond MAX_DAYS, for which no cost is computed. `is_valid` says whether the tenant is valid after the
    change: an invalid tenant stays at its last published manifests. `before_by_cluster` is the cost today in each cluster,
    without the change.
    """

    tenant: str
    days: tuple[CostDay, ...]
    parts: tuple[CostPart, ...]
    budget: Decimal | None
    budget_before: Decimal | None = None
    denies_excess: bool = True
    more_days: int = 0
    is_valid: bool = True
    before_by_cluster: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def before(self) -> Decimal:
        """Return the cost today without the change."""
        return self.days[0].before

    @property
    def after(self) -> Decimal:
        """Return the cost today with the change."""
        return self.days[0].after

    @property
    def remaining_budget(self) -> Decimal | None:
        """Return the part of the budget that remains after the change; None without a budget."""
        return None if self.budget is None else self.budget - self.after

    @property
    def has_effect(self) -> bool:
        """Return whether the change affects the tenant's cost or budget."""
        return (
            bool(self.parts)
            or self.budget != self.budget_before
            or any(cost_day.before != cost_day.after for cost_day in self.days)
        )

    @property
    def over_budget(self) -> OverBudgetOutput | None:
        """Return the first excess over the budget that the change causes or increases; None if there is none."""
        for cost_day in self.days:
            over = _amount_above(cost_day.after, self.budget)
            if over > _amount_above(cost_day.before, self.budget_before):
                return OverBudgetOutput(cost_day.day, over, self.denies_excess)
        return None


def _amount_above(cost: Decimal, budget: Decimal | None) -> Decimal:
    return Decimal(0) if budget is None else max(cost - budget, Decimal(0))


def compare_cost(before: TenantSide, after: TenantSide) -> CostChange:
    """Return the change of a tenant's cost."""
    name = (after.folder if after.folder.paths() else before.folder).name
    old, new = (
        {cost.label: cost.per_month for cost in monthly_costs(end.catalog, end.folder)} for end in (before, after)
    )
    nothing = Decimal(0)
    parts = [
        CostPart(cost_name, old.get(cost_name, nothing), new.get(cost_name, nothing))
        for cost_name in old.keys() | new.keys()
        if old.get(cost_name, nothing) != new.get(cost_name, nothing)
    ]
    parts.sort(key=lambda part: (-abs(part.after - part.before), part.label))
    budgets = [
        plan.model.spec.budget if (plan := plan_of(end.catalog, end.folder)) else None for end in (before, after)
    ]
    limits = [budget.per_month if budget else None for budget in budgets]
    denies = budgets[1] is None or budgets[1].enforcement == "Deny"
    today = after.catalog.as_of
    later = sorted({day for end in (before, after) for day in price_days(end.catalog, end.folder) if day > today})
    days = tuple(_cost_days(before, after, [today, *later[:MAX_DAYS]]))
    more = max(len(later) - MAX_DAYS, 0)
    return CostChange(
        tenant=name,
        days=days,
        parts=tuple(parts),
        budget=limits[1],
        budget_before=limits[0],
        denies_excess=denies,
        more_days=more,
        before_by_cluster=sum_by_cluster(monthly_costs(before.catalog, before.folder)),
    )


def _cost_days(before: TenantSide, after: TenantSide, days: Iterable[datetime.date]) -> Iterator[CostDay]:
    """Yield a tenant's cost on the first of `days`, and on each later day on which the cost changes."""
    last: tuple[Decimal, Decimal] | None = None
    for day in days:
        costs = [
            sum((cost.per_month for cost in monthly_costs(end.catalog._replace(as_of=day), end.folder)), Decimal(0))
            for end in (before, after)
        ]
        if last != (costs[0], costs[1]):
            last = costs[0], costs[1]
            yield CostDay(day, *last)


def total_costs(costs: Iterable[CostChange]) -> Iterator[CostDay]:
    """Yield the total cost of some tenants today, and on each later day on which a price changes this cost."""
    steps: dict[datetime.date, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for cost in costs:
        old = Decimal(0), Decimal(0)
        for cost_day in cost.days:
            steps[cost_day.day][0] += cost_day.before - old[0]
            steps[cost_day.day][1] += cost_day.after - old[1]
            old = cost_day.before, cost_day.after
    before, after = Decimal(0), Decimal(0)
    for day, (more_before, more_after) in sorted(steps.items()):
        before, after = before + more_before, after + more_after
        yield CostDay(day, before, after)
