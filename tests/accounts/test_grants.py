"""Who gets units when all together ask for too many: nobody who had some loses one, and no newcomer gets what isn't there."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT

from allotment.accounts.capacity import Claim, holdings
from allotment.accounts.grants import grants
from allotment.adapters.folder import FolderSource
from allotment.declared.inventory import Offers
from allotment.pipeline.check.survey import survey

TENANTS = ("studio-kite", "uni-lab", "film-house")  # studio-kite has a stock of l4-whole of its own
PAIR = ("eu-1", "l4-whole")


@pytest.fixture(scope="module")
def offers() -> Offers:
    return survey(FolderSource(PROJECT), datetime.date(2026, 11, 21)).offers


claims = st.lists(
    st.tuples(st.sampled_from(TENANTS), st.integers(0, 9), st.integers(1, 12)),
    max_size=12,
    unique_by=lambda row: row[:2],
)


def of(rows: list[tuple[str, int, int]]) -> list[Claim]:
    return [Claim("eu-1", "l4-whole", tenant, f"job-{number}", units, units) for tenant, number, units in rows]


@given(claims, claims)
def test_who_had_units_keeps_them_and_the_rest_fits(
    offers: Offers, before: list[tuple[str, int, int]], now: list[tuple[str, int, int]]
) -> None:
    old = {(claim.tenant, claim.instance): claim for claim in of(before)}
    fewer = grants(offers, PAIR, of(now), lambda claim: old.get((claim.tenant, claim.instance)))
    got = [claim._replace(units=fewer.get((claim.tenant, claim.instance), claim.units)) for claim in of(now)]
    for claim, wanted in zip(got, of(now), strict=True):
        had = old.get((claim.tenant, claim.instance))
        assert claim.units >= min(wanted.units, had.units if had else 0)
        assert 0 <= claim.units <= wanted.units
    kept = [
        claim._replace(units=min(claim.units, had.units))
        for claim in of(now)
        if (had := old.get((claim.tenant, claim.instance)))
    ]
    (after,) = [
        unit_usage
        for unit_usage in holdings(offers, got)
        if (unit_usage.cluster, unit_usage.gpu_spec) == ("eu-1", "l4-whole")
    ]
    (held,) = [
        unit_usage
        for unit_usage in holdings(offers, kept)
        if (unit_usage.cluster, unit_usage.gpu_spec) == ("eu-1", "l4-whole")
    ]
    assert after.shared_held <= max(after.stocks.shared_units, held.shared_held)
    if fewer:  # nothing is left lying that one who waits could have
        waiting = {tenant for tenant, _ in fewer}
        assert after.shared_held >= after.stocks.shared_units
        assert all(after.held[tenant] >= after.stocks.units(tenant) for tenant in waiting)


def test_another_spec_makes_one_a_newcomer(offers: Offers) -> None:
    moved = Claim("eu-1", "l4-whole", "uni-lab", "job", 500, 500)
    assert grants(offers, PAIR, [moved], lambda claim: claim._replace(gpu_spec="l4-quarter")) != {}
    assert grants(offers, PAIR, [moved], lambda claim: claim) == {}
