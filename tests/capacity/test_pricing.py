"""Prices by day, costs by month."""

from __future__ import annotations

import datetime
from decimal import Decimal

from tests.conftest import PROJECT
from tests.support.sample_catalog import OFFERS, SPECS

from allotment.capacity.pricing import format_money, monthly_costs, price_on
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder


def test_the_price_of_a_day() -> None:
    prices = SPECS["l4-quarter"].prices
    for day, hourly in (
        ("2025-01-01", "0.24"),
        ("2026-01-01", "0.24"),
        ("2026-09-30", "0.24"),
        ("2026-10-01", "0.21"),
        ("2030-01-01", "0.21"),
    ):
        assert price_on(prices, datetime.date.fromisoformat(day)).per_hour == Decimal(hourly)


def costs_of(tenant: str) -> dict[str, Decimal]:
    paths = sorted((PROJECT / "tenants" / tenant).rglob("*.yaml"))
    folder, problems = read_folder(
        Scope("tenant", tenant), [(path.relative_to(PROJECT).as_posix(), path.read_bytes()) for path in paths]
    )
    assert problems == []
    return {cost.label: cost.per_month for cost in monthly_costs(OFFERS, folder)}


def test_a_snapshot_costs_its_price_for_its_storages_size() -> None:
    costs = costs_of("studio-kite")
    assert (costs["storage outputs"], costs["snapshot before-upgrade"]) == (Decimal("80.00"), Decimal("40.00"))


def test_a_tenants_month() -> None:
    costs = costs_of("solo-ada")
    assert costs == {
        "instance webui": Decimal("0.21") * 730,
        "storage models": Decimal(6),
        "storage styles": Decimal(1),
    }


def test_money_is_rounded_half_up() -> None:
    assert format_money(Decimal("2.345")) == "2.35"
    assert format_money(Decimal("153.3")) == "153.30"
