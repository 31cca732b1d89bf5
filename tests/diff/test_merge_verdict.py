"""The reasons why a change waits for a person."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from allotment.declared.kinds.plan import SelfService
from allotment.diff.change_plan import ChangePlan, LossOutput, ResourceChange
from allotment.diff.cost_diff import CostChange, CostDay
from allotment.diff.merge_verdict import AUTHOR_UNKNOWN, waiting_reasons
from allotment.diff.self_service import SelfServiceFacts
from allotment.problems import Problem

DAY = datetime.date(2026, 11, 21)
POLICY = SelfService.model_validate({"changes": ["Start", "Stop"], "maxMonthlyCost": "100"})
FACTS = SelfServiceFacts(
    tenants=("acme",),
    lifecycle="Active",
    plan="team",
    policy=POLICY,
    changes=("Start",),
    other_paths=(),
    excluded=(),
    approvals=(),
    is_reviewed=True,
)
PLAN = ChangePlan(base="b" * 40, head="c" * 40, day=DAY, currency="EUR", self_service=FACTS)


def cost(before: int, after: int, budget: int | None = None) -> CostChange:
    days = (CostDay(DAY, Decimal(before), Decimal(after)),)
    return CostChange(tenant="acme", days=days, parts=(), budget=None if budget is None else Decimal(budget))


def warning(path: str) -> Problem:
    return Problem(path, 1, 1, "spec", "is no longer shared", "sharing", warning=True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"destructions": (LossOutput("instance acme/x in eu-1", "stops", "OwnDisk"),)},
        {"destructions": (LossOutput("storage acme/x in eu-1", "is marked", "Mark"),)},
        {"cost_changes": (cost(0, 100),)},
        {"cost_changes": (cost(900, 0, 10),)},
        {"problems": (warning("tenants/acme/instances/x.yaml"),)},
        {"skipped_checks": (AUTHOR_UNKNOWN,)},
    ],
    ids=lambda changes: next(iter(changes), "nothing"),
)
def test_a_green_change_has_no_reason(changes: dict[str, Any]) -> None:
    assert waiting_reasons(replace(PLAN, **changes)) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"destructions": (LossOutput("storage acme/x", "is deleted"),)}, "it destroys data: storage acme/x"),
        ({"possible_destructions": (LossOutput("tenant acme", "was invalid"),)}, "it destroys data: tenant acme"),
        (
            {"cost_changes": (cost(0, 101),)},
            "it adds 101.00 EUR/month, and tariff plan team allows 100.00 (selfService.maxMonthlyCost)",
        ),
        ({"cost_changes": (cost(0, 20, 10),)}, "it exceeds the budget of tenant acme by 10.00 EUR"),
        ({"unpriced_tenants": ("acme",)}, "the cost of acme is unknown"),
        ({"problems": (warning("tenants/kite/storages/x.yaml"),)}, "it affects tenants/kite/storages/x.yaml"),
        (
            {
                "resource_changes": (
                    ResourceChange(
                        tenant="kite", cluster="eu-1", kind="instance", name="x", action="changed", causes=()
                    ),
                )
            },
            "it affects kite",
        ),
        ({"skipped_checks": ("the cost", "the brake")}, "2 checks did not run: the cost, the brake"),
        ({"self_service": FACTS._replace(lifecycle="Suspended")}, "the tenant is Suspended"),
        ({"self_service": FACTS._replace(policy=None)}, "tariff plan team has no selfService"),
        ({"self_service": FACTS._replace(policy=None, plan="")}, "the tenant has no tariff plan yet"),
        ({"self_service": FACTS._replace(changes=())}, "it changes no declaration"),
        (
            {"self_service": FACTS._replace(changes=("Grow", "Start"))},
            "tariff plan team does not list Grow in selfService.changes",
        ),
        (
            {"self_service": FACTS._replace(other_paths=tuple("abcde"))},
            "it changes a, b, c and 2 more, which no tenant changes alone",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_change_waits_for_a_reason(changes: dict[str, Any], reason: str) -> None:
    assert waiting_reasons(replace(PLAN, **changes)) == (reason,)


def test_without_self_service_there_is_no_reason() -> None:
    assert waiting_reasons(replace(PLAN, self_service=None, unpriced_tenants=("acme",))) == ()
