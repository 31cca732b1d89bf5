"""Cordons across a change: the cordon that leaves too little room has the finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, edit
from tests.support.folder_commit import commit

LATER = "2026-12-01"
HOLD = "instances hold 17 units of l4-quarter, and eu-1 has room for"
WAIT = "the instances that move would wait: stop instances first, choose another day, or write drain: WhenStopped"
STAY = "warning: the instances stay on their nodes until they stop, and then wait"


def cordon(root: Path, name: str, *fields: str, start: str = DAY, pool: str = "l4-ts4") -> str:
    """Declare a cordon in eu-1; return the path and the position of its first day."""
    path = f"clusters/eu-1/cordons/{name}.yaml"
    lines = [
        "apiVersion: allotment.dev/v1alpha1",
        "kind: Cordon",
        "metadata:",
        f"  name: {name}",
        "spec:",
        f"  nodePool: {pool}",
        f'  from: "{start}"',
        "  reason: New driver",
        *(f"  {field}" for field in fields),
    ]
    (root / path).write_text("\n".join(lines) + "\n")
    return f"{path}:7:9: spec.from: "


def lines(allot: Allot, root: Path, *rules: str) -> list[str]:
    """Return the findings of `rules` about the change since HEAD."""
    result = allot("validate", "--repo", root, "--base", "HEAD", "--as-of", DAY)
    return [line for line in result.lines if line.endswith(tuple(f"[{rule}]" for rule in rules))]


@pytest.mark.parametrize("day", [DAY, LATER])
@pytest.mark.parametrize("drain", ["Now", "WhenStopped"])
def test_a_cordon_without_room_for_what_it_moves_is_an_error(drain: str, day: str, sample: Path, allot: Allot) -> None:
    commit(sample)
    cordon(sample, "first", "node: gpu-7", start=day)
    assert lines(allot, sample, "cordon", "stock") == [], "17 of 30 units"
    place = cordon(sample, "second", "node: gpu-8", f"drain: {drain}", start=day)
    text = f"{HOLD} 15 from {day} on together with first: "
    stays = text + STAY.removeprefix("warning: ")
    expected = f"{place}{text}{WAIT} [cordon]" if drain == "Now" else f"{place}warning: {stays} [cordon]"
    assert lines(allot, sample, "cordon", "stock") == [expected]


def test_a_second_cordon_is_at_fault_even_if_it_begins_first(sample: Path, allot: Allot) -> None:
    cordon(sample, "first", "node: gpu-7", start=LATER)
    commit(sample)
    place = cordon(sample, "second", "node: gpu-8", "drain: Now")
    expected = f"{place}{HOLD} 15 from {LATER} on together with first: {WAIT} [cordon]"
    assert lines(allot, sample, "cordon") == [expected]


def test_cordons_on_different_days_leave_enough_room(sample: Path, allot: Allot) -> None:
    commit(sample)
    cordon(sample, "first", "node: gpu-7", f'until: "{LATER}"', "drain: Now")
    cordon(sample, "second", "node: gpu-8", "drain: Now", start=LATER)
    assert lines(allot, sample, "cordon") == []


def test_a_drain_is_at_fault_before_other_cordons_of_the_change(sample: Path, allot: Allot) -> None:
    commit(sample)
    place = cordon(sample, "aaa", "node: gpu-7", "drain: Now")
    cordon(sample, "zzz", "node: gpu-8")
    assert lines(allot, sample, "cordon") == [f"{place}{HOLD} 15 from {DAY} on together with zzz: {WAIT} [cordon]"]


def test_a_shorter_cordon_is_no_error(sample: Path, allot: Allot) -> None:
    cordon(sample, "pool", "drain: Now")
    commit(sample)
    place = cordon(sample, "pool", "drain: Now", f'until: "{LATER}"')
    assert lines(allot, sample, "cordon") == [f"{place}warning: {HOLD} 0 from {DAY} on: {WAIT} [cordon]"]


def test_a_merged_cordon_only_warns(sample: Path, allot: Allot) -> None:
    place = cordon(sample, "pool", "drain: Now")
    commit(sample)
    edit(sample, "platform/plans/starter.yaml", "spec:\n", "spec:\n  displayName: Start\n")
    assert lines(allot, sample, "cordon", "stock") == [f"{place}warning: {HOLD} 0 from {DAY} on: {WAIT} [cordon]"]


def test_a_new_instance_that_has_no_room_beside_a_cordon_is_an_error_of_the_instance(
    sample: Path, allot: Allot
) -> None:
    cordon(sample, "first", "node: gpu-7")
    commit(sample)
    path = "tenants/uni-lab/instances/group-a.yaml"
    edit(sample, path, "replicas: 5", "replicas: 19")
    (line,) = lines(allot, sample, "stock")
    assert line.startswith(
        f"{path}:13:13: spec.replicas: 31 units of l4-quarter would run in eu-1, 1 more than its stock"
    )


def test_more_nodes_than_the_cluster_allows_need_a_larger_number_in_the_cluster(sample: Path, allot: Allot) -> None:
    edit(sample, "clusters/eu-1/cluster.yaml", "spec:\n", "spec:\n  maxCordonedNodes: 1\n")
    commit(sample)
    cordon(sample, "first", "node: gpu-7")
    assert lines(allot, sample, "cordon") == []
    place = cordon(sample, "second", pool="l4-whole")
    remedy = "choose different days, or write maxCordonedNodes: 3 in the Cluster"
    limit = f"{place}3 nodes of cluster eu-1 are cordoned on {DAY}, and the cluster allows 1: {remedy} [cordon]"
    assert limit in lines(allot, sample, "cordon")
    edit(sample, "clusters/eu-1/cluster.yaml", "maxCordonedNodes: 1", "maxCordonedNodes: 3")
    assert limit not in lines(allot, sample, "cordon")


def test_a_cordon_of_an_undeclared_pool_is_an_error(sample: Path, allot: Allot) -> None:
    commit(sample)
    cordon(sample, "first", pool="l4-ts5")
    (line,) = lines(allot, sample, "reference")
    assert "spec.nodePool: no NodePool is named 'l4-ts5'" in line
