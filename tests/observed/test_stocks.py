"""What stocks hold: a tenant's own first, then the shared ones in the order of names."""

from __future__ import annotations

from typing import Any

import pytest
from tests import live

from allotment.observed.objects import Deployment, Pod
from allotment.observed.stocks import stocks

SPEC = "l4-quarter"


def placeholder(name: str, count: int, owner: str = "") -> dict[str, Any]:
    one = live.deployment(name, units=str(count), reserved_for=owner)
    one["metadata"]["namespace"] = "allotment-stock"
    one["metadata"]["labels"] = {"allotment.dev/stock": name, "allotment.dev/gpu-spec": SPEC}
    return one


def pods(name: str, ready: int, pending: int) -> list[dict[str, Any]]:
    made = [
        live.pod(
            name,
            number,
            **({"node": "n", "container": live.started(1, ready=True), "ready": 2} if number < ready else {}),
        )
        for number in range(ready + pending)
    ]
    for one in made:
        one["metadata"]["namespace"] = "allotment-stock"
        one["metadata"]["labels"] = {"allotment.dev/stock": name}
    return made


def test_the_pool_whose_nodes_come_is_that_of_its_placeholders() -> None:
    one = placeholder("h100", 4)
    terms = [{"matchExpressions": [{"key": "allotment.dev/node-pool", "operator": "In", "values": ["h100"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    one["spec"]["template"]["spec"]["affinity"] = affinity
    deployments = [each for each in live.seen(one, placeholder("static", 1)) if isinstance(each, Deployment)]
    assert [each.node_pool for each in stocks(deployments, [], {})] == ["h100", ""]


def test_held_free_and_ready() -> None:
    seen = live.seen(
        placeholder("a-shared", 4),
        placeholder("b-shared", 4),
        placeholder("kite", 3, "kite"),
        *pods("a-shared", 1, 1),
        *pods("kite", 1, 0),
    )
    deployments = [one for one in seen if isinstance(one, Deployment)]
    found = stocks(deployments, [one for one in seen if isinstance(one, Pod)], {(SPEC, "kite"): 5, (SPEC, "ada"): 3})
    assert [(one.name, one.count, one.held, one.free, one.ready, one.tenant) for one in found] == [
        ("a-shared", 4, 4, 0, 1, ""),
        ("b-shared", 4, 1, 3, 0, ""),
        ("kite", 3, 3, 0, 1, "kite"),
    ]


@pytest.mark.parametrize(("health", "ready"), [("Healthy", 2), ("Unknown", 2), ("Unhealthy", 1)])
def test_a_unit_whose_device_is_unhealthy_is_not_ready(health: str, ready: int) -> None:
    """Its placeholder runs on: the kubelet only takes the device out of what the node has, and says so with the pod."""
    first, second = pods("a-shared", 2, 0)
    device = {"resourceID": "GPU-7f3a", "health": health}
    status = first["status"]["containerStatuses"][0]
    status["allocatedResourcesStatus"] = [{"name": "nvidia.com/gpu", "resources": [device]}]
    seen = live.seen(placeholder("a-shared", 2), first, second)
    deployments = [one for one in seen if isinstance(one, Deployment)]
    (found,) = stocks(deployments, [one for one in seen if isinstance(one, Pod)], {})
    assert found.ready == ready
