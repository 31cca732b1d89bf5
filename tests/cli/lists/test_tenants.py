"""`allot tenant list` and `allot member list`: plans, costs and people."""

from __future__ import annotations

import pytest
from tests.conftest import Allot, Result, checked
from tests.support.published import Place


@pytest.fixture
def run_in_place(place: Place, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot(*words, "--repo", place.root)

    return run


def rows(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [" ".join(line.split()) for line in result.out.splitlines()]


def test_tenants_have_their_units_and_cost(run_in_place: Allot) -> None:
    assert rows(run_in_place("tenant", "list", "--sort-by", "-cost", "--cluster", "us-1")) == [
        "TENANT PLAN LIFECYCLE INSTANCES RUNNING UNITS STORAGES EUR/HOUR",
        "ml-orbit enterprise Active 4 3 7 4 18.0416",
        "acme-robotics enterprise Active 1 1 6 2 7.5135",
    ]


def test_the_cost_of_a_tenant_is_its_month_by_hours(run_in_place: Allot) -> None:
    """The catalog computes the month with other code, from all declarations of the tenant."""
    hourly = checked("tenant list", run_in_place("tenant", "list", "-o", "json").out)["tenants"]
    monthly = checked("catalog", run_in_place("catalog", "--tenants", "-o", "json").out)["spending"]["tenants"]
    assert {tenant["name"]: tenant["costPerHour"] * 730 for tenant in hourly} == {
        tenant["tenant"]: pytest.approx(tenant["costPerMonth"]) for tenant in monthly
    }


def test_a_plan_selects_tenants(run_in_place: Allot) -> None:
    assert run_in_place("tenant", "list", "--plan", "starter", "-o", "name").out == "solo-ada\n"
    result = run_in_place("tenant", "list", "--plan", "stater")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[1:] == ["allot: no plan of a tenant is named 'stater'; did you mean 'starter'?"]


def test_members_are_users_and_groups(run_in_place: Allot) -> None:
    assert rows(run_in_place("member", "list", "--tenant", "studio-kite")) == [
        "MEMBER TENANT KIND ROLE LOGIN SSH KEYS",
        "mio studio-kite User Admin mio-kite 1",
        "kite-clients studio-kite Group Viewer - 0",
        "kite-designers studio-kite Group Member - 0",
        "kite-leads studio-kite Group Admin - 0",
    ]
    output = checked("member list", run_in_place("member", "list", "--role", "admin", "-o", "json").out)
    assert {member["role"] for member in output["members"]} == {"Admin"}
    assert (
        run_in_place("member", "list", "studio-kite", "--role", "Viewer", "-o", "name").out
        == "studio-kite/kite-clients\n"
    )
