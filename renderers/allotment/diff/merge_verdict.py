"""Determine whether a change merges by itself, or why it waits for a person."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from allotment.capacity.pricing import format_money
from allotment.diff.change_plan import ChangePlan
from allotment.problems import escape_unprintable, pluralize

AUTHOR_UNKNOWN = (
    "whether the author may make this change: name the author with --author LOGIN"  # a check that did not run
)
MAX_NAMED = 3  # paths, losses and checks that a reason names


def waiting_reasons(plan: ChangePlan) -> tuple[str, ...]:
    """Return the reasons why a person must merge a change; empty if it merges by itself, or if the platform has no self service.

    A change that loses only the own disks of instances merges by itself, and so does the mark for a later deletion.
    """
    return tuple(_list_reasons(plan))


def _list_reasons(plan: ChangePlan) -> Iterator[str]:
    facts = plan.self_service
    if facts is None:
        return
    if plan.errors:
        yield "it can't be merged"
    if facts.other_paths:
        yield f"it changes {_name_some(facts.other_paths)}, which no tenant changes alone"
    if len(facts.tenants) > 1:
        yield f"it changes the tenants {_name_some(facts.tenants)}: open a pull request for each"
    elif facts.tenants and facts.policy is None:
        yield f"tariff plan {facts.plan} has no selfService" if facts.plan else "the tenant has no tariff plan yet"
    if facts.lifecycle not in ("", "Active"):
        yield f"the tenant is {facts.lifecycle}"
    if not facts.changes and not facts.other_paths:
        yield "it changes no declaration"
    if facts.policy is not None:
        if unlisted := [change for change in facts.changes if change not in facts.policy.changes]:
            yield f"tariff plan {facts.plan} does not list {', '.join(unlisted)} in selfService.changes"
        limit = facts.policy.max_monthly_cost
        added = max((day.after - day.before for cost in plan.cost_changes for day in cost.days), default=Decimal(0))
        if limit is not None and added > limit:
            yield (
                f"it adds {format_money(added)} {plan.currency}/month, and tariff plan {facts.plan} allows"
                f" {format_money(limit)} (selfService.maxMonthlyCost)"
            )
    if facts.excluded:
        yield f"the Ownership excludes {_name_some(facts.excluded)} from self service"
    if facts.approvals:
        yield f"another person must approve it: {facts.approvals[0]}"
    yield from _list_effects(plan, facts.tenants)


def _list_effects(plan: ChangePlan, tenants: tuple[str, ...]) -> Iterator[str]:
    """Yield the effects that a person must see before the merge."""
    lost = [loss.subject for loss in plan.destructions if loss.loss == "Data"]
    lost += [loss.subject for loss in plan.possible_destructions]
    if lost:
        yield f"it destroys data: {_name_some(lost)}"
    for cost in plan.cost_changes:
        if excess := cost.over_budget:
            yield f"it exceeds the budget of tenant {cost.tenant} by {format_money(excess.amount)} {plan.currency}"
    if plan.unpriced_tenants:
        yield f"the cost of {_name_some(plan.unpriced_tenants)} is unknown"
    for forecast in plan.month_forecasts:
        if forecast.budget is not None and forecast.after > max(forecast.budget, forecast.before):
            yield f"tenant {forecast.tenant} exceeds its budget in {forecast.month}"
    others = {change.tenant for change in plan.resource_changes} - set(tenants)
    own_folders = tuple(f"tenants/{tenant}/" for tenant in tenants)
    others |= {
        problem.path for problem in plan.problems if problem.warning and not problem.path.startswith(own_folders)
    }
    if others:
        yield f"it affects {_name_some(sorted(others))}"
    if skipped := [check for check in plan.skipped_checks if check != AUTHOR_UNKNOWN]:
        yield f"{pluralize(len(skipped), 'check')} did not run: {_name_some(skipped)}"


def _name_some(names: list[str] | tuple[str, ...]) -> str:
    named = ", ".join(escape_unprintable(name, 200) for name in names[:MAX_NAMED])
    return f"{named} and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else named
