"""Who gets which units where more is declared than there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import edit
from tests.services.publish.written import Written, checked

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.units import UnitClaim
from allotment.declared.inventory import Catalog
from allotment.services.publish.observed_state import EMPTY_STATE, ObservedState, ObservedTenant
from allotment.services.publish.published_units import PodUnits
from allotment.services.publish.unit_allocation import RetainedInstance, build_allocation

ADA = UnitClaim("eu-1", "l4-quarter", "solo-ada", "webui", 1, 1)
KITE = UnitClaim("eu-1", "l4-quarter", "studio-kite", "webui", 1, 1)


def pods(*held: UnitClaim) -> PodUnits:
    """Return the units of pods that were published, as their statuses say."""
    known = {
        claim.tenant: ObservedTenant(pod_units={(claim.cluster, claim.instance): (claim.gpu_spec, claim.units)})
        for claim in held
    }
    return PodUnits(
        ObservedState(known),
        {"eu-1": Written("eu-1", {})},
        lambda requested_claim: next(held_claim for held_claim in held if held_claim[:4] == requested_claim[:4]),
    )


@pytest.fixture
def catalog(sample: Path) -> Catalog:
    """Return offers with one unit of l4-quarter in eu-1."""
    text = (sample / "clusters/eu-1/stocks/l4-quarter.yaml").read_text()
    (count,) = [line.strip() for line in text.splitlines() if line.strip().startswith("count:")]
    edit(sample, "clusters/eu-1/stocks/l4-quarter.yaml", count, "count: 1")
    return checked(FolderSource(sample)).catalog


def test_all_get_what_they_declare_where_there_is_enough(catalog: Catalog) -> None:
    allocation = build_allocation(catalog, {"solo-ada": (ADA,)}, pods(), EMPTY_STATE, lambda _: None)
    assert (
        allocation.reduced_units,
        allocation.waiting_instances,
        allocation.leaked_units,
        allocation.list_claims({}),
    ) == (
        {},
        [],
        [],
        [ADA],
    )


@pytest.mark.parametrize("first", [ADA, KITE])
def test_the_earlier_published_instance_keeps_its_unit(catalog: Catalog, first: UnitClaim) -> None:
    late = KITE if first is ADA else ADA
    claims = {"studio-kite": (KITE,), "solo-ada": (ADA,)}
    allocation = build_allocation(catalog, claims, pods(), EMPTY_STATE, lambda claim: claim if claim == first else None)
    assert allocation.reduced_units == {(late.tenant, "webui"): 0}
    assert allocation.waiting_instances == [
        f"{late.tenant}/webui: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest"
    ]
    fewer = late._replace(rendered=0)
    assert allocation.list_claims({late.tenant: (fewer,)}) == sorted(
        [first, fewer], key=lambda unit_claim: unit_claim.tenant
    )


def test_pods_that_run_on_keep_the_unit_of_whom_nobody_declares(catalog: Catalog) -> None:
    old = UnitClaim("eu-1", "l4-quarter", "uni-lab", "old", 1, 1)
    allocation = build_allocation(
        catalog,
        {"solo-ada": (ADA,)},
        pods(old),
        ObservedState(observed_at={"eu-1": "2026-11-21T10:00:00Z"}),
        lambda _: None,
    )
    assert allocation.reduced_units == {("solo-ada", "webui"): 0}
    assert allocation.leaked_claims == [UnitClaim("eu-1", "l4-quarter", "uni-lab", "old", 1, 1)]
    assert allocation.leaked_units == [
        "eu-1: instance uni-lab/old: its pods still run and hold 1 unit of l4-quarter, according to the status of 2026-11-21T10:00:00Z"
    ]


def test_an_instance_whose_pods_hold_more_than_was_published_keeps_that(catalog: Catalog) -> None:
    claims = {"studio-kite": (KITE,), "solo-ada": (ADA,)}
    allocation = build_allocation(catalog, claims, pods(ADA), EMPTY_STATE, lambda claim: None)
    assert allocation.reduced_units == {("studio-kite", "webui"): 0}


def test_an_instance_that_moves_to_another_spec_counts_its_published_unit(catalog: Catalog) -> None:
    running, moved = ADA._replace(gpu_spec="l4-whole"), ADA
    allocation = build_allocation(
        catalog,
        {"solo-ada": (moved,), "studio-kite": (KITE,)},
        pods(),
        EMPTY_STATE,
        lambda claim: running if claim.tenant == "solo-ada" else KITE,
    )
    words = "keeps 1 unit of l4-whole on eu-1, as published, until 1 unit of l4-quarter is free"
    assert allocation.retained_instances == {("solo-ada", "webui"): RetainedInstance(running, words)}
    assert (allocation.reduced_units, allocation.waiting_instances) == ({}, [f"solo-ada/webui: {words}"])
    assert allocation.list_claims({}) == [running, KITE]


def test_a_tenant_whose_instance_keeps_its_unit_is_told_why_another_waits(catalog: Catalog) -> None:
    running = ADA._replace(gpu_spec="l4-whole")
    other = ADA._replace(gpu_spec="l4-whole", instance="other")
    claims = {"solo-ada": (ADA, other), "studio-kite": (KITE,)}
    old = {"solo-ada/webui": running, "studio-kite/webui": KITE}
    allocation = build_allocation(
        catalog, claims, pods(), EMPTY_STATE, lambda claim: old.get(f"{claim.tenant}/{claim.instance}")
    )
    assert allocation.waiting_instances[1:] == [
        "solo-ada/other: gets 0 of 1 units of l4-whole on eu-1, the tenant must first release published units"
    ]
