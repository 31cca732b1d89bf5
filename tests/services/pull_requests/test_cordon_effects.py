"""The plan of a cordon names the instances on its nodes, as the last fetched status has them."""

from __future__ import annotations

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.observed.status import Instance, TenantStatus

NODE = "eu-1/gpu-7.eu.internal"
WORDS = ("--pool", "l4-ts4", "--reason", "New driver", "--from", "2026-12-01")
PLACE = "clusters/eu-1/cordons/gpu-7.yaml"


@pytest.fixture
def reported(published: Place) -> Place:
    """Return a repository whose cluster eu-1 reports two instances on a node, and another elsewhere."""
    places = {"solo-ada": "gpu-7.eu.internal", "studio-kite": "gpu-7.eu.internal", "uni-lab": "gpu-8.eu.internal"}
    statuses = [
        TenantStatus(tenant, "eu-1", instances=(Instance("webui", "b", "Running", "", nodes=(node,)),))
        for tenant, node in places.items()
    ]
    published.report("eu-1", *statuses)
    git(published.root, "fetch", "-q", "origin", "+refs/allotment/status/*:refs/allotment/status/*")
    git(published.root, "fetch", "-q", "origin")
    return published


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [("cordon", "stays there until it stops"), ("drain", "restarts on another node on 2026-12-01")],
)
def test_the_instances_on_the_node_are_named(verb: str, outcome: str, reported: Place, allot: Allot) -> None:
    result = allot("node", verb, NODE, *WORDS, "--repo", reported.root)
    assert result.code == 0
    names = "2 instances on 1 node of the cordon: solo-ada/webui, studio-kite/webui"
    assert f"{names}; each of them {outcome} [cordon]" in result.out + result.err


def test_an_unchanged_cordon_is_not_described_again(reported: Place, allot: Allot) -> None:
    assert allot("node", "cordon", NODE, *WORDS, "--repo", reported.root, "--commit").code == 0
    change = allot("set", "instance/solo-ada/webui", "displayName=UI", "--repo", reported.root)
    assert change.code == 0
    assert "of the cordon" not in change.out + change.err


def test_a_node_without_instances_has_no_note(reported: Place, allot: Allot) -> None:
    result = allot("node", "cordon", "eu-1/gpu-9", *WORDS, "--repo", reported.root)
    assert result.code == 0
    assert "of the cordon" not in result.out + result.err
