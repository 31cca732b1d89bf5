"""What stocks hold: a tenant's own first, then the shared ones in the order of names."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import live
from tests.support.placeholders import SPEC, placeholder

from allotment.observed.objects import Deployment, Pod
from allotment.observed.stocks import derive_stocks


def pods(name: str, ready: int, pending: int) -> list[dict[str, Any]]:
    stock_pods = [
        live.pod(
            name,
            number,
            **({"node": "n", "container": live.started(1, ready=True), "ready": 2} if number < ready else {}),
        )
        for number in range(ready + pending)
    ]
    for pod in stock_pods:
        pod["metadata"]["namespace"] = "allotment-stock"
        pod["metadata"]["labels"] = {"allotment.dev/stock": name}
    return stock_pods


def test_the_pool_whose_nodes_come_is_that_of_its_placeholders() -> None:
    deployment = placeholder("h100", 4, **{"allotment.dev/node-pool": "h100"})
    deployments = [each for each in live.seen(deployment, placeholder("static", 1)) if isinstance(each, Deployment)]
    assert [each.node_pool for each in derive_stocks(deployments, [], {})] == ["h100", ""]


def test_held_free_and_ready() -> None:
    seen = live.seen(
        placeholder("a-shared", 4),
        placeholder("b-shared", 4),
        placeholder("kite", 3, "kite"),
        *pods("a-shared", 1, 1),
        *pods("kite", 1, 0),
    )
    deployments = [live_object for live_object in seen if isinstance(live_object, Deployment)]
    observed_stocks = derive_stocks(
        deployments,
        [live_object for live_object in seen if isinstance(live_object, Pod)],
        {(SPEC, "kite"): 5, (SPEC, "ada"): 3},
    )
    assert [
        (stock.name, stock.count, stock.held_units, stock.free, stock.ready, stock.tenant) for stock in observed_stocks
    ] == [
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
    deployments = [live_object for live_object in seen if isinstance(live_object, Deployment)]
    (stock,) = derive_stocks(deployments, [live_object for live_object in seen if isinstance(live_object, Pod)], {})
    assert stock.ready == ready
