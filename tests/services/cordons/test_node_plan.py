"""`plan_nodes` cordons the declared nodes, returns only nodes that it cordoned itself, and names what it can't do."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.conftest import edit

from allotment.adapters.cluster.nodes import Node
from allotment.adapters.folder_source import FolderSource
from allotment.services.check.catalog_check import check_catalog
from allotment.services.cordons.node_plan import NodePlan, plan_nodes

DAY = datetime.date(2026, 11, 21)
CORDON = """\
apiVersion: allotment.dev/v1alpha1
kind: Cordon
metadata:
  name: {name}
spec:
  nodePool: l4-ts4
  reason: New driver
  from: "{start}"
"""


def node(name: str, *cordons: str, is_unschedulable: bool = False, before: bool = False, pool: str = "l4-ts4") -> Node:
    return Node(name, "7", {"pool": pool, "zone": "a"}, is_unschedulable, cordons, before)


def declare(root: Path, name: str, *fields: str, start: datetime.date = DAY) -> None:
    text = CORDON.format(name=name, start=start) + "".join(f"  {field}\n" for field in fields)
    (root / f"clusters/eu-1/cordons/{name}.yaml").write_text(text)


def plan(root: Path, *nodes: Node, day: datetime.date = DAY) -> NodePlan:
    return plan_nodes(check_catalog(FolderSource(root), day).catalog.clusters["eu-1"], nodes, day)


def changes(node_plan: NodePlan) -> list[tuple[str, tuple[str, ...], bool, bool]]:
    return [(change.node.name, *change[1:]) for change in node_plan.changes]


def test_a_cordon_makes_its_node_unschedulable_on_its_days(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7", f'until: "{DAY + datetime.timedelta(1)}"')
    nodes = node("gpu-7"), node("gpu-8")
    assert changes(plan(sample, *nodes)) == [("gpu-7", ("driver",), True, False)]
    assert changes(plan(sample, *nodes, day=DAY - datetime.timedelta(1))) == []
    assert changes(plan(sample, *nodes, day=DAY + datetime.timedelta(1))) == []


def test_a_cordoned_node_needs_no_change(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7", "drain: Now")
    result = plan(sample, node("gpu-7", "driver", is_unschedulable=True))
    assert (result.changes, result.cordoned_nodes, result.drained_nodes) == ([], {"gpu-7"}, {"gpu-7"})
    again = plan(sample, node("gpu-7", "driver"))
    assert changes(again) == [("gpu-7", ("driver",), True, False)], "somebody made it schedulable"


def test_two_cordons_of_a_node_end_with_the_second(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7")
    declare(sample, "fans", "node: gpu-7", "drain: Now")
    both = plan(sample, node("gpu-7", "driver", is_unschedulable=True))
    assert changes(both) == [("gpu-7", ("driver", "fans"), True, False)]
    assert both.drained_nodes == {"gpu-7"}


@pytest.mark.parametrize("before", [False, True])
def test_a_node_returns_as_it_was_before(before: bool, sample: Path) -> None:
    ended = node("gpu-7", "driver", is_unschedulable=True, before=before)
    assert changes(plan(sample, ended)) == [("gpu-7", (), before, False)]


def test_a_node_that_a_person_cordoned_is_left_alone(sample: Path) -> None:
    assert changes(plan(sample, node("gpu-7", is_unschedulable=True))) == []
    declare(sample, "driver", "node: gpu-7")
    assert changes(plan(sample, node("gpu-7", is_unschedulable=True))) == [("gpu-7", ("driver",), True, True)]


def test_a_cordon_of_a_pool_takes_each_node_of_the_pool(sample: Path) -> None:
    declare(sample, "driver")
    result = plan(sample, node("gpu-7"), node("gpu-8"), node("gpu-9", pool="l4-whole"))
    assert result.cordoned_nodes == {"gpu-7", "gpu-8"}


def test_more_nodes_than_the_limit_wait(sample: Path) -> None:
    declare(sample, "driver")
    edit(sample, "clusters/eu-1/cluster.yaml", "spec:\n", "spec:\n  maxCordonedNodes: 1\n")
    result = plan(sample, node("gpu-7"), node("gpu-8", "driver", is_unschedulable=True))
    assert (result.changes, result.cordoned_nodes) == ([], {"gpu-8"}), "a cordoned node stays first"
    assert result.troubles == ["gpu-7: not cordoned, because the cluster allows 1 cordoned nodes at a time"]


def test_a_node_that_stays_cordoned_counts(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7", "drain: Never")
    declare(sample, "fans", "node: gpu-8")
    edit(sample, "clusters/eu-1/cluster.yaml", "spec:\n", "spec:\n  maxCordonedNodes: 1\n")
    result = plan(sample, node("gpu-7", "driver", is_unschedulable=True), node("gpu-8"))
    assert (result.changes, result.cordoned_nodes) == ([], frozenset())
    assert result.troubles[0] == "gpu-8: not cordoned, because the cluster allows 1 cordoned nodes at a time"


def test_a_lower_limit_returns_no_node(sample: Path) -> None:
    declare(sample, "driver")
    edit(sample, "clusters/eu-1/cluster.yaml", "spec:\n", "spec:\n  maxCordonedNodes: 1\n")
    nodes = [node(name, "driver", is_unschedulable=True) for name in ("gpu-7", "gpu-8")]
    assert plan(sample, *nodes)[:1] == ([],)
    assert plan(sample, *nodes).troubles == []


def test_an_absent_node_is_a_trouble(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7")
    for nodes in ([], [node("gpu-7", pool="l4-whole")]):
        assert plan(sample, *nodes).troubles == ["Cordon driver: node pool l4-ts4 has no node gpu-7"]


def test_no_node_returns_while_a_declaration_is_invalid(sample: Path) -> None:
    declare(sample, "driver", "node: gpu-7", "drain: Never")
    result = plan(sample, node("gpu-7", "driver", is_unschedulable=True), node("gpu-8"))
    assert (result.changes, result.troubles) == ([], ["gpu-7 stays cordoned, because Cordon driver is invalid"])
