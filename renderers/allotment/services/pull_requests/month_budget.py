"""Adds the costs of the current month to a plan, and refuses a change that makes a tenant exceed its budget this month."""

from __future__ import annotations

import datetime
from collections import defaultdict
from dataclasses import replace
from zoneinfo import ZoneInfo

from allotment.adapters.declaration_source import path_problem
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.branches.platform_settings import read_platform
from allotment.capacity.pricing import format_money
from allotment.declared.layout import Scope, path_of
from allotment.diff.change_plan import ChangePlan
from allotment.diff.month_forecast import MonthForecast
from allotment.rules import budget
from allotment.services.billing.month_forecasts import forecast_changes


def with_month_forecasts(
    repository: Repository, base: CommitSource, plan: ChangePlan, now: datetime.datetime
) -> ChangePlan:
    """Return a plan with the costs of the month, as far as the clone has recorded usage.

    A change of a tenant's resources that exceeds a budget with `enforcement: Deny` this month gets a problem. If no cluster has
    usage of this month, the check can't run, and a note says so. A plan for another day stays the same.
    """
    platform = read_platform(base)
    if platform is None or not plan.cost_changes:
        return plan
    billing = platform.spec.billing
    if now.astimezone(ZoneInfo(billing.time_zone)).date() != plan.day:
        return plan
    forecasts, unobserved = forecast_changes(repository, base, billing, plan.cost_changes, now)
    clusters: dict[str, set[str]] = defaultdict(set)  # those with changed resources, by tenant
    for change in plan.resource_changes:
        clusters[change.tenant].add(change.cluster)
    unchecked: set[str] = set()
    for cost in plan.cost_changes:
        if cost.budget is not None and cost.denies_excess and any(day.after > day.before for day in cost.days):
            unchecked |= clusters[cost.tenant] & unobserved
    refused = [
        path_problem(
            path_of("Tenant", Scope("tenant", each.tenant), ""), _describe_refusal(each, plan.currency), budget.RULE
        )
        for each in forecasts
        if each.is_refused and clusters[each.tenant]
    ]
    problems = sorted((*plan.problems, *refused), key=lambda problem: (problem.warning, problem))
    notes = [_describe_unchecked(sorted(unchecked))] if unchecked and not forecasts else []
    return replace(
        plan, problems=tuple(problems), month_forecasts=forecasts, skipped_checks=(*plan.skipped_checks, *notes)
    )


def _describe_unchecked(clusters: list[str]) -> str:
    return (
        "the cost of this month so far, which counts against the budget: this clone has no usage of"
        f" {', '.join(clusters)} in this month; run `git fetch` or `allot status`"
    )


def _describe_unobserved(forecast: MonthForecast) -> str:
    if not forecast.unobserved:
        return ""
    return f" ({format_money(forecast.unobserved)} of them declared, in a time without observations)"


def _describe_refusal(forecast: MonthForecast, currency: str) -> str:
    assert forecast.budget is not None
    return (
        f"with this change, {forecast.month} costs {format_money(forecast.after)} {currency}, but the budget is"
        f" {format_money(forecast.budget)}; {format_money(forecast.so_far)} are spent so far{_describe_unobserved(forecast)}, and the declared resources cost"
        f" {format_money(forecast.after - forecast.so_far)} until the end of the month: reduce the cost by"
        f" {format_money(forecast.after - forecast.budget)}, wait for the next month, or ask the platform team for another plan"
    )
