"""Nodes of an API server: a change is of the node as it was listed, and faults of the server are errors."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.faults import Answer, Request, api_of, serving

from allotment.adapters.cluster.nodes import Node, Nodes
from allotment.adapters.http_responses import ApiError, ApiUnavailable

NODE = Node("gpu-7", "42", {"pool": "l4-ts4"}, False, (), False)
RAW = {
    "metadata": {"name": "gpu-7", "resourceVersion": "42", "labels": {"pool": "l4-ts4"}, "uid": "1"},
    "spec": {"podCIDR": "10.0.0.0/24"},
}
CORDONED = {
    "metadata": {**RAW["metadata"], "annotations": {"allotment.dev/cordon": "driver,fans", "a": "b"}},
    "spec": {"unschedulable": True},
}
Call = Callable[[Nodes], object]


def body(value: object, status: int = 200) -> Answer:
    return lambda request: request.whole(json.dumps(value).encode(), status)


def refused(status: int) -> Answer:
    return body({"kind": "Status", "message": "no"}, status)


def cordon(nodes: Nodes) -> Node | None:
    return nodes.set_cordons(NODE, ("driver", "fans"), is_unschedulable=True, is_cordoned_before=False)


def delete(nodes: Nodes) -> bool:
    return nodes.delete_pod("t-solo-ada", "webui-1", "uid-1")


CALLS: dict[str, Call] = {
    "list": lambda nodes: nodes.list_nodes(),
    "pods": lambda nodes: nodes.list_pods({"fieldSelector": "spec.nodeName=gpu-7"}),
    "cordon": cordon,
    "delete": delete,
}


def test_nodes_are_listed_with_their_cordons() -> None:
    with serving(otherwise=body({"items": [RAW, CORDONED]})) as server:
        assert Nodes(api_of(server)).list_nodes() == [
            NODE,
            NODE._replace(is_unschedulable=True, cordons=("driver", "fans")),
        ]


def test_a_change_holds_for_the_node_as_it_was_listed() -> None:
    with serving(body(CORDONED), otherwise=body(RAW)) as server:
        nodes = Nodes(api_of(server))
        cordoned = cordon(nodes)
        assert cordoned == NODE._replace(is_unschedulable=True, cordons=("driver", "fans"))
        assert nodes.set_cordons(cordoned, (), is_unschedulable=False, is_cordoned_before=False) == NODE
    sent = [(request.command, request.request_path, json.loads(request.body)) for request in server.requests]
    assert sent == [
        (
            "PATCH",
            "/api/v1/nodes/gpu-7",
            {
                "metadata": {
                    "resourceVersion": "42",
                    "annotations": {"allotment.dev/cordon": value, "allotment.dev/cordoned-before": None},
                },
                "spec": {"unschedulable": unschedulable},
            },
        )
        for value, unschedulable in (("driver,fans", True), (None, None))
    ]
    assert {request.headers["Content-Type"] for request in server.requests} == {"application/merge-patch+json"}


def test_a_pod_is_deleted_by_its_uid() -> None:
    with serving(otherwise=body({})) as server:
        assert delete(Nodes(api_of(server)))
    (request,) = server.requests
    assert (request.command, request.request_path) == ("DELETE", "/api/v1/namespaces/t-solo-ada/pods/webui-1")
    assert json.loads(request.body) == {"preconditions": {"uid": "uid-1"}}


@pytest.mark.parametrize("status", [404, 409])
def test_an_object_that_changed_meanwhile_is_no_error(status: int) -> None:
    with serving(otherwise=refused(status)) as server:
        assert (cordon(Nodes(api_of(server))), delete(Nodes(api_of(server)))) == (None, False)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("status", [302, 403, 422, 500])
def test_a_refusal_is_an_error_and_no_redirect_is_followed(status: int, call: Call) -> None:
    def answer(request: Request) -> None:
        request.whole(b'{"kind": "Status", "message": "no"}', status, Location="/elsewhere")

    with serving(otherwise=answer) as server, pytest.raises(ApiError, match=f"answered {status}"):
        call(Nodes(api_of(server, lambda: "secret-token")))
    assert len(server.requests) == 1


@pytest.mark.parametrize("call", [CALLS["list"], CALLS["pods"], CALLS["cordon"]], ids=["list", "pods", "cordon"])
@pytest.mark.parametrize("content", [b"{", b"[]", b'{"items": 1, "metadata": 2}', b"\xff", b"[" * 100_000])
def test_an_unreadable_response_is_an_error(content: bytes, call: Call) -> None:
    with serving(otherwise=lambda request: request.whole(content)) as server, pytest.raises(ApiUnavailable):
        call(Nodes(api_of(server)))
