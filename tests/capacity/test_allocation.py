"""Who moves to another GPUSpec keeps its units until the new ones are free, and gains nothing by waiting."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.allocation import AllocationResult, allocate_units, instance_key
from allotment.capacity.oversold_allocation import usage_beyond_claims
from allotment.capacity.units import UnitClaim, compute_unit_usage, physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.services.check.repository_check import check_repository

TENANTS = ("studio-kite", "uni-lab", "film-house")
# Of l4-whole there are 5 shared units in eu-1, and 2 of studio-kite; of a100-3g 5 in all.
WHOLE, SLICE = "l4-whole", "a100-3g"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return check_repository(FolderSource(PROJECT), datetime.date(2026, 11, 21)).catalog


def claim(tenant: str, name: str, spec: str, units: int = 1, rendered: int | None = None) -> UnitClaim:
    return UnitClaim("eu-1", spec, tenant, name, units, units if rendered is None else rendered)


def allocated(
    catalog: Catalog, before: Iterable[UnitClaim], now: Iterable[UnitClaim], pods: Iterable[UnitClaim] = ()
) -> AllocationResult:
    old, running = {instance_key(unit_claim): unit_claim for unit_claim in before}, list(pods)

    def published(claim: UnitClaim) -> UnitClaim | None:
        return old.get(instance_key(claim))

    return allocate_units(catalog, now, published, published, lambda claims: usage_beyond_claims(claims, running))


def effective(now: Iterable[UnitClaim], allocation: AllocationResult) -> list[UnitClaim]:
    """Return what each instance holds now."""
    return [
        allocation.retained_claims.get(instance_key(unit_claim))
        or unit_claim._replace(units=allocation.reduced.get(instance_key(unit_claim), unit_claim.units))
        for unit_claim in now
    ]


FULL = [claim("uni-lab", "all", WHOLE, 5)]
OLD = claim("film-house", "train", SLICE)


def test_an_instance_moves_to_another_spec_where_a_unit_is_free(catalog: Catalog) -> None:
    assert allocated(catalog, [OLD], [claim("film-house", "train", WHOLE)]) == AllocationResult({}, {}, [], frozenset())


def test_an_instance_keeps_its_unit_while_the_new_spec_has_no_free_unit(catalog: Catalog) -> None:
    allocation = allocated(catalog, [OLD, *FULL], [claim("film-house", "train", WHOLE), *FULL])
    assert (allocation.retained_claims, allocation.reduced) == ({("film-house", "train"): OLD}, {})


def test_an_instance_moves_to_fewer_units_where_the_move_costs_no_copy(catalog: Catalog) -> None:
    most = [claim("uni-lab", "all", WHOLE, 4)]
    allocation = allocated(catalog, [OLD, *most], [claim("film-house", "train", WHOLE, 3), *most])
    assert (allocation.retained_claims, allocation.reduced) == ({}, {("film-house", "train"): 1})


def test_a_unit_that_is_too_few_for_a_move_goes_to_the_next_instance(catalog: Catalog) -> None:
    most, wide = [claim("uni-lab", "all", WHOLE, 4)], claim("film-house", "train", SLICE, 2)
    now = [claim("film-house", "train", WHOLE, 2), claim("uni-lab", "next", WHOLE), *most]
    allocation = allocated(catalog, [wide, *most], now)
    assert (allocation.retained_claims, allocation.reduced) == ({("film-house", "train"): wide}, {})


def test_an_instance_that_waits_keeps_no_unit_of_its_old_spec(catalog: Catalog) -> None:
    waits = [claim("film-house", "train", SLICE, 1, 0), *FULL]
    allocation = allocated(catalog, waits, [claim("film-house", "train", WHOLE), *FULL])
    assert (allocation.retained_claims, allocation.reduced) == ({}, {("film-house", "train"): 0})


def test_an_instance_with_an_unrendered_claim_keeps_no_old_unit(catalog: Catalog) -> None:
    allocation = allocated(catalog, [OLD, *FULL], [claim("film-house", "train", WHOLE, 1, 0), *FULL])
    assert (allocation.retained_claims, allocation.reduced) == ({}, {("film-house", "train"): 0})


def test_the_units_that_it_keeps_count_once(catalog: Catalog) -> None:
    allocation = allocated(catalog, [OLD, *FULL], [claim("film-house", "train", WHOLE), *FULL], pods=[OLD])
    assert (allocation.retained_claims, allocation.excess_usage) == ({("film-house", "train"): OLD}, [])


def test_its_tenant_gets_no_unit_in_the_place_of_the_kept(catalog: Catalog) -> None:
    """The tenant gave a slice up for a whole L4, and declares another slice within its quota."""
    now = [claim("film-house", "train", WHOLE), claim("film-house", "again", SLICE), *FULL]
    allocation = allocated(catalog, [OLD, *FULL], now)
    assert allocation.retained_claims == {("film-house", "train"): OLD}
    assert allocation.reduced == {("film-house", "again"): 0}
    assert allocation.limited_instances == {("film-house", "again")}
    other = allocated(catalog, [OLD, *FULL], [now[0], claim("uni-lab", "again", SLICE), *FULL])
    assert other.reduced == {}, "another tenant gets it"


rows = st.lists(
    st.tuples(st.sampled_from(TENANTS), st.integers(0, 4), st.sampled_from((WHOLE, SLICE)), st.integers(1, 4)),
    max_size=9,
    unique_by=lambda row: row[:2],
)


def gpus(catalog: Catalog, claims: Iterable[UnitClaim]) -> dict[tuple[str, str], Fraction]:
    total: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for unit_claim in claims:
        spec = catalog.platform.of_kind(GPUSpec)[unit_claim.gpu_spec].model.spec
        total[unit_claim.tenant, spec.gpu.model] += unit_claim.units * physical_gpus(spec)
    return total


@given(rows, rows)
def test_nobody_loses_a_copy_and_nobody_gains_beyond_stock_or_declaration(
    catalog: Catalog, before: list[tuple[str, int, str, int]], after: list[tuple[str, int, str, int]]
) -> None:
    old = [claim(tenant, f"job-{number}", spec, units) for tenant, number, spec, units in before]
    now = [claim(tenant, f"job-{number}", spec, units) for tenant, number, spec, units in after]
    had = {instance_key(unit_claim): unit_claim for unit_claim in old}
    allocation = allocated(catalog, old, now)
    got = effective(now, allocation)
    for unit_claim, wanted in zip(got, now, strict=True):
        was = had.get(instance_key(unit_claim))
        if was is not None:
            assert unit_claim.units >= min(was.units, wanted.units)
        assert unit_claim.gpu_spec == wanted.gpu_spec or (
            unit_claim == was and instance_key(unit_claim) in allocation.retained_claims
        )
    held = {
        (unit_usage.cluster, unit_usage.gpu_spec): unit_usage.total_shared_use
        for unit_usage in compute_unit_usage(catalog, old)
    }
    for here in compute_unit_usage(catalog, got):
        before_here = held.get((here.cluster, here.gpu_spec), 0)
        assert here.total_shared_use <= max(here.stocks.shared_units, before_here)
    most, declared, used = gpus(catalog, old), gpus(catalog, now), gpus(catalog, got)
    waiting = {tenant for tenant, _ in allocation.retained_claims}
    for (tenant, model), total in used.items():
        assert tenant not in waiting or total <= max(most[tenant, model], declared[tenant, model])
