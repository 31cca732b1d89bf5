"""Defines the forecast of a tenant's cost in a month: before and after a change."""

from __future__ import annotations

from decimal import Decimal

from allotment.output_part import Part

WARNING_PERCENT = 80  # of the budget


class MonthForecast(Part, frozen=True, kw_only=True):
    """The cost of a tenant in the current month.

    - `so_far` is the cost of the recorded usage. A use that continued at the last observation counts until now. In a time without
      observations, the declared resources count at their present cost, if that is more. `unobserved` is this excess.
    - `before` and `after` are the forecasts for the whole month, without and with the change: the cost so far, and the cost of
      the declared resources until the end of the month.
    - `observed_until` is the time until which all clusters with a record were observed, in UTC.
    - `budget_before` and `budget` are the budgets per month without and with the change; None if there is none. `is_denied`
      says whether the tariff plan refuses a change that exceeds the budget.
    """

    tenant: str
    month: str
    so_far: Decimal
    unobserved: Decimal
    before: Decimal
    after: Decimal
    observed_until: str
    budget_before: Decimal | None
    budget: Decimal | None
    is_denied: bool

    @property
    def percent(self) -> int | None:
        """The percentage of the budget that the month uses with the change, rounded down; None without a budget."""
        return int(self.after * 100 / self.budget) if self.budget else None

    @property
    def is_over_budget(self) -> bool:
        """Whether the forecast with the change exceeds the budget."""
        return self.budget is not None and self.after > self.budget

    @property
    def is_near_budget(self) -> bool:
        """Whether the forecast with the change uses WARNING_PERCENT of the budget or more."""
        return self.budget is not None and self.after * 100 >= self.budget * WARNING_PERCENT

    @property
    def is_refused(self) -> bool:
        """Whether the change causes or increases an excess over a budget that refuses it."""
        excesses = [
            max(cost - budget, Decimal(0)) if budget is not None else Decimal(0)
            for cost, budget in ((self.before, self.budget_before), (self.after, self.budget))
        ]
        return self.is_denied and excesses[1] > excesses[0]
