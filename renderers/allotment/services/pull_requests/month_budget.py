"""Adds the costs of the current month to a plan, and refuses a change that makes a tenant exceed its budget this month."""

from __future__ import annotations

import datetime
from dataclasses import replace
from zoneinfo import ZoneInfo

from allotment.adapters.declaration_source import path_problem
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.capacity.pricing import format_money
from allotment.declared.layout import Scope, path_of
from allotment.diff.change_plan import ChangePlan
from allotment.diff.month_forecast import MonthForecast
from allotment.rules import budget
from allotment.services.billing.month_forecasts import forecast_months
from allotment.services.platform_settings import read_platform

_UNKNOWN_MONTH_NOTE = (
    "the cost of this month so far, which counts against the budget: this clone has no recorded usage; run `git fetch` or"
    " `allot status`"
)


def with_month_forecasts(here: Repository, base: CommitSource, plan: ChangePlan, now: datetime.datetime) -> ChangePlan:
    """Return a plan with the costs of the month, as far as the clone has recorded usage.

    A change that raises the forecast of a tenant above a budget with `enforcement: Deny` gets a problem. A plan for
    another day stays the same.
    """
    platform = read_platform(base)
    zone = ZoneInfo(platform.spec.billing.time_zone) if platform else datetime.UTC
    if now.astimezone(zone).date() != plan.day:
        return plan
    forecasts = forecast_months(here, base, plan.cost_changes, now)
    if forecasts is None:
        if any(cost.budget and cost.denies_excess and cost.after > cost.before for cost in plan.cost_changes):
            return replace(plan, skipped_checks=(*plan.skipped_checks, _UNKNOWN_MONTH_NOTE))
        return plan
    refused = [
        path_problem(
            path_of("Tenant", Scope("tenant", forecast.tenant), ""),
            _describe_refusal(forecast, plan.currency),
            budget.RULE,
        )
        for forecast in forecasts
        if forecast.is_refused
    ]
    problems = sorted((*plan.problems, *refused), key=lambda problem: (problem.warning, problem))
    return replace(plan, problems=tuple(problems), month_forecasts=forecasts)


def _describe_refusal(forecast: MonthForecast, currency: str) -> str:
    assert forecast.budget is not None
    return (
        f"with this change, {forecast.month} costs {format_money(forecast.after)} {currency}, but the budget is"
        f" {format_money(forecast.budget)}; {format_money(forecast.so_far)} are spent so far, and the declared resources cost"
        f" {format_money(forecast.after - forecast.so_far)} until the end of the month: reduce the cost by"
        f" {format_money(forecast.after - forecast.budget)}, wait for the next month, or ask the platform team for another plan"
    )
