"""Who gets units when all together ask for too many: nobody who had some loses one, and no newcomer gets what isn't there."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.oversold_allocation import reduced_allocations
from allotment.capacity.units import UnitClaim, compute_unit_usage
from allotment.declared.inventory import Catalog
from allotment.services.check.repository_check import check_repository

TENANTS = ("studio-kite", "uni-lab", "film-house")  # studio-kite has a stock of l4-whole of its own
PAIR = ("eu-1", "l4-whole")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return check_repository(FolderSource(PROJECT), datetime.date(2026, 11, 21)).catalog


claims = st.lists(
    st.tuples(st.sampled_from(TENANTS), st.integers(0, 9), st.integers(1, 12)),
    max_size=12,
    unique_by=lambda row: row[:2],
)


def of(rows: list[tuple[str, int, int]]) -> list[UnitClaim]:
    return [UnitClaim("eu-1", "l4-whole", tenant, f"job-{number}", units, units) for tenant, number, units in rows]


@given(claims, claims)
def test_reduced_allocations_keep_earlier_units_and_fit_the_stocks(
    catalog: Catalog, before: list[tuple[str, int, int]], now: list[tuple[str, int, int]]
) -> None:
    old = {(claim.tenant, claim.instance): claim for claim in of(before)}
    fewer = reduced_allocations(catalog, PAIR, of(now), lambda claim: old.get((claim.tenant, claim.instance)))
    got = [claim._replace(units=fewer.get((claim.tenant, claim.instance), claim.units)) for claim in of(now)]
    for claim, wanted in zip(got, of(now), strict=True):
        had = old.get((claim.tenant, claim.instance))
        assert claim.units >= min(wanted.units, had.units if had else 0)
        assert 0 <= claim.units <= wanted.units
    retained = [
        claim._replace(units=min(claim.units, had.units))
        for claim in of(now)
        if (had := old.get((claim.tenant, claim.instance)))
    ]
    (after,) = [
        unit_usage
        for unit_usage in compute_unit_usage(catalog, got)
        if (unit_usage.cluster, unit_usage.gpu_spec) == ("eu-1", "l4-whole")
    ]
    (held,) = [
        unit_usage
        for unit_usage in compute_unit_usage(catalog, retained)
        if (unit_usage.cluster, unit_usage.gpu_spec) == ("eu-1", "l4-whole")
    ]
    assert after.total_shared_use <= max(after.stocks.shared_units, held.total_shared_use)
    if fewer:  # nothing is left lying that one who waits could have
        waiting = {tenant for tenant, _ in fewer}
        assert after.total_shared_use >= after.stocks.shared_units
        assert all(after.held_by_tenant[tenant] >= after.stocks.reserved_units(tenant) for tenant in waiting)


def test_another_spec_makes_one_a_newcomer(catalog: Catalog) -> None:
    moved = UnitClaim("eu-1", "l4-whole", "uni-lab", "job", 500, 500)
    assert reduced_allocations(catalog, PAIR, [moved], lambda claim: claim._replace(gpu_spec="l4-quarter")) != {}
    assert reduced_allocations(catalog, PAIR, [moved], lambda claim: claim) == {}
