"""What a change means to what is paid: today, and from each later day on that a price changes it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from tests.conftest import copy, edit

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.diff.cost_diff import CostChange, CostDay, OverBudgetOutput, compare_cost, total_costs
from allotment.diff.tenant_side import TenantSide
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope

TODAY = datetime.date(2026, 11, 21)
QUARTER, STARTER = "platform/specs/l4-quarter.yaml", "platform/plans/starter.yaml"
DECEMBER, JANUARY = datetime.date(2026, 12, 1), datetime.date(2027, 1, 1)


def end(root: Path) -> TenantSide:
    from allotment.declared.reading import read_folder

    source, scope = FolderSource(root), Scope("tenant", "solo-ada")
    catalog = check_repository(source, TODAY, CheckOptions(processes=1)).catalog
    return TenantSide(catalog, read_folder(scope, read_scope(source, scope).files)[0])


def costs(root: Path, change: Callable[[Path], object]) -> CostChange:
    before = end(root)
    change(root)
    return compare_cost(before, end(root))


def price(day: str, amount: str) -> Callable[[Path], object]:
    return lambda root: edit(
        root, QUARTER, "  prices:\n", f'  prices:\n    - from: "{day}"\n      perHour: "{amount}"\n'
    )


def day(date: datetime.date, before: str, after: str) -> CostDay:
    return CostDay(date, Decimal(before), Decimal(after))


def test_a_future_price_changes_what_is_paid_from_its_day_on(sample: Path) -> None:
    cost = costs(sample, price("2026-12-01", "0.60"))
    assert cost.days == (day(TODAY, "160.30", "160.30"), day(DECEMBER, "160.30", "445.00"))
    assert cost.over_budget == OverBudgetOutput(DECEMBER, Decimal("145.00"), is_denied=False)
    assert cost.has_effect


def test_a_price_that_was_announced_before_counts_for_what_is_added(sample: Path) -> None:
    price("2026-12-01", "0.42")(sample)
    path = "tenants/solo-ada/instances"
    cost = costs(sample, lambda root: copy(root, f"{path}/webui.yaml", f"{path}/other.yaml"))
    assert cost.days == (day(TODAY, "160.30", "313.60"), day(DECEMBER, "313.60", "620.20"))
    assert cost.over_budget == OverBudgetOutput(TODAY, Decimal("13.60"), is_denied=False)


def test_nothing_is_said_of_a_day_on_which_nothing_changes(sample: Path) -> None:
    cost = costs(sample, price("2027-01-01", "0.21"))
    assert cost.days == (day(TODAY, "160.30", "160.30"),)
    assert not cost.has_effect


@pytest.mark.parametrize(
    ("budget", "excess"),
    [
        ("100", OverBudgetOutput(TODAY, Decimal("60.30"), is_denied=False)),
        ("3000", None),
        ("160.30", None),
    ],
)
def test_another_budget_is_exceeded_or_not(sample: Path, budget: str, excess: OverBudgetOutput | None) -> None:
    cost = costs(sample, lambda root: edit(root, STARTER, '"300"', f'"{budget}"'))
    assert (cost.budget_before, cost.budget, cost.over_budget) == (Decimal(300), Decimal(budget), excess)
    assert cost.has_effect


def test_compare_cost_reports_an_exceeded_budget_only_where_the_cost_rises(sample: Path) -> None:
    edit(sample, STARTER, '"300"', '"100"')
    less = costs(
        sample, lambda root: edit(root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    )
    assert less.over_budget is None
    more = costs(sample, lambda root: edit(root, "tenants/solo-ada/instances/webui.yaml", "Stopped", "Running"))
    assert more.over_budget == OverBudgetOutput(TODAY, Decimal("60.30"), is_denied=False)


def test_a_total_is_what_all_pay_on_each_day() -> None:
    cost = CostChange(tenant="one", days=(day(TODAY, "1", "2"), day(DECEMBER, "10", "20")), parts=(), budget=None)
    other = CostChange(
        tenant="other", days=(day(TODAY, "100", "200"), day(JANUARY, "1000", "2000")), parts=(), budget=None
    )
    assert list(total_costs([cost, other])) == [
        day(TODAY, "101", "202"),
        day(DECEMBER, "110", "220"),
        day(JANUARY, "1010", "2020"),
    ]
    assert list(total_costs([])) == []
