"""Lists nodes and their pods, makes nodes unschedulable or schedulable, and deletes pods, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.cluster.pod_log import select_pods
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.manifests import names
from allotment.observed.objects import Pod

SECONDS = 30.0
_MERGE_PATCH = "application/merge-patch+json"
# An object that vanished or changed since it was listed. The next turn lists the objects again.
_OUTDATED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Spec(msgspec.Struct):
    unschedulable: bool = False


class _RawNode(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _NodeList(msgspec.Struct):
    items: list[_RawNode]


class Node(NamedTuple):
    """A Node. `cordons` are the names of the Cordons in its annotation.

    `is_cordoned_before` says whether the Node was unschedulable before its Cordons began.
    """

    name: str
    resource_version: str
    labels: Mapping[str, str]
    is_unschedulable: bool
    cordons: tuple[str, ...]
    is_cordoned_before: bool


class Nodes:
    """The nodes of a cluster. All methods raise ApiError or ApiUnavailable."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._api.host

    def list_nodes(self) -> list[Node]:
        """Return all nodes."""
        data = self._api.read("/api/v1/nodes", {}, "application/json", SECONDS)
        try:
            return [_summarize(raw) for raw in msgspec.json.decode(data, type=_NodeList).items]
        except (msgspec.DecodeError, RecursionError):
            raise ApiUnavailable("the response is no list of nodes") from None

    def list_pods(self, query: Mapping[str, str], namespace: str = "") -> list[Pod]:
        """Return the pods of a namespace, or of all namespaces, with the selectors of `query`."""
        return select_pods(self._api, query, namespace)

    def set_cordons(
        self, node: Node, cordons: tuple[str, ...], *, is_unschedulable: bool, is_cordoned_before: bool
    ) -> Node | None:
        """Change a node as it was listed, and return it as the API server has it; None if the node has changed meanwhile."""
        annotations = {
            names.CORDON: ",".join(cordons) or None,
            names.CORDONED_BEFORE: "true" if is_cordoned_before else None,
        }
        patch = {
            "metadata": {"resourceVersion": node.resource_version, "annotations": annotations},
            "spec": {"unschedulable": is_unschedulable or None},
        }
        try:
            data = self._api.send("PATCH", f"/api/v1/nodes/{node.name}", patch, _MERGE_PATCH, SECONDS)
            return _summarize(msgspec.json.decode(data, type=_RawNode))
        except ApiError as error:
            if error.status in _OUTDATED:
                return None
            raise
        except (msgspec.DecodeError, RecursionError):
            raise ApiUnavailable("the response is no node") from None

    def delete_pod(self, namespace: str, name: str, uid: str) -> bool:
        """Delete a pod with this UID, and return whether it existed."""
        try:
            self._api.send(
                "DELETE",
                f"/api/v1/namespaces/{namespace}/pods/{name}",
                {"preconditions": {"uid": uid}},
                "application/json",
                SECONDS,
            )
        except ApiError as error:
            if error.status in _OUTDATED:
                return False
            raise
        return True


def _summarize(raw: _RawNode) -> Node:
    annotations = raw.metadata.annotations
    return Node(
        raw.metadata.name,
        raw.metadata.resource_version,
        raw.metadata.labels,
        raw.spec.unschedulable,
        tuple(filter(None, annotations.get(names.CORDON, "").split(","))),
        names.CORDONED_BEFORE in annotations,
    )
