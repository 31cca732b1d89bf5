"""The sample on a real cluster: every object is accepted, stays as it was written, and all of it comes up. Case 30."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from allotment.manifests.names import ARGO_NAMESPACE, STOCK_NAMESPACE
from tests import largest
from tests.conftest import PROJECT, ROOTS
from tests.controlplane import rendered
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import eventually
from tests.e2e.conftest import Render

pytestmark = pytest.mark.e2e


def refused(hub: Client, client: Client, tree: Path) -> list[str]:
    """Apply a tree, each object dry and then for real; return what was refused, and what a second time would change.

    What is Argo CD's goes to its own cluster, the `hub`.
    """
    wrong: list[str] = []
    accepted: list[tuple[Client, Object]] = []
    for one in rendered.objects(tree):
        place = hub if one["metadata"].get("namespace") == ARGO_NAMESPACE else client
        if said := refusal(place.apply, one, dry_run=True) or refusal(place.apply, one):
            wrong.append(f"{identity(one)}: {said}")
        else:
            accepted.append((place, one))
    for place, one in accepted:
        api_version, kind, namespace, name = identity(one)
        live = place.get(api_version, kind, name, namespace)
        if meant(place.apply(one, dry_run=True)[0]) != meant(live):
            wrong.append(f"{identity(one)}: the same again would change it")
    return wrong


def meant(one: Object) -> Object:
    """Return an object without what clusters write into it."""
    return {key: value for key, value in one.items() if key not in ("metadata", "status")}


def identity(one: Object) -> tuple[str, str, str | None, str]:
    return one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]


def test_every_object_is_accepted(empty_cluster: Cluster, sample_tree: Path) -> None:
    assert refused(empty_cluster.client, empty_cluster.client, sample_tree) == []


def test_every_object_of_a_karpenter_cluster_is_accepted(
    empty_cluster: Cluster, growing_cluster: Cluster, render: Render
) -> None:
    try:
        assert refused(empty_cluster.client, growing_cluster.client, render(PROJECT, "us-1")) == []
    finally:
        rendered.clear(growing_cluster.client)


def test_the_largest_that_validation_allows_is_accepted(
    empty_cluster: Cluster, growing_cluster: Cluster, render: Render, tmp_path: Path
) -> None:
    """What a tenant may declare never fails its sync: the API servers take all of it, asked without writing it."""
    for name in ROOTS:
        shutil.copytree(PROJECT / name, tmp_path / name)
    largest.grow(tmp_path)
    tree = render(tmp_path, "eu-1")
    client = empty_cluster.client
    own = [one for one in rendered.objects(tree) if largest.TENANT in str(one["metadata"])]
    spaces = {one["metadata"]["namespace"] for one in own if "namespace" in one["metadata"]} - {ARGO_NAMESPACE} | {
        STOCK_NAMESPACE
    }
    labels = {"app.kubernetes.io/managed-by": "allotment"}
    for space in spaces:
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}})
    pool = [one for one in rendered.objects(tree, "platform/stock") if largest.POOL in one["metadata"]["name"]]
    bought = [
        one
        for one in rendered.objects(tree.parent / "us-1", "platform/node-pools")
        if "kkk" in str(one["metadata"]) or "lll" in str(one["metadata"])
    ]
    assert len({one["kind"] for one in own}) > 14
    assert len(pool) == 1
    assert [one["kind"] for one in bought] == ["NodePool", "NodeOverlay", "EC2NodeClass", "NodePool", "NodeOverlay"]
    said = [(identity(one), refusal(client.apply, one, dry_run=True)) for one in [*own, *pool]]
    said += [(identity(one), refusal(growing_cluster.client.apply, one, dry_run=True)) for one in bought]
    assert [one for one in said if one[1]] == []


def test_everything_comes_up(sample_cluster: Cluster) -> None:
    client = sample_cluster.client

    def not_up() -> list[str]:
        deployments = [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in client.list("apps/v1", "Deployment", labels=rendered.OURS)
            if one["status"].get("readyReplicas", 0) != one["spec"]["replicas"]
        ]
        claims = [
            one["metadata"]["name"]
            for one in client.list("v1", "PersistentVolumeClaim", labels=rendered.OURS)
            if one["status"].get("phase") != "Bound"
        ]
        jobs = [
            one["metadata"]["name"]
            for one in client.list("batch/v1", "Job", labels=rendered.OURS)
            if not one["status"].get("succeeded")
        ]
        routes = [
            one["metadata"]["name"]
            for one in client.list("gateway.networking.k8s.io/v1", "HTTPRoute", labels=rendered.OURS)
            if not one.get("status", {}).get("parents")
        ]
        return deployments + claims + jobs + routes

    def all_up() -> bool:
        left = not_up()
        if left:
            raise AssertionError(left)
        return True

    assert eventually(all_up, "everything to come up", seconds=120)


def test_copies_are_spread_over_nodes_that_placeholders_fill(sample_cluster: Cluster) -> None:
    """Each takes the place of a placeholder, on a node of its own; no preference would make the scheduler do that."""
    client = sample_cluster.client

    def nodes() -> list[str]:
        found = client.list("v1", "Pod", "t-film-house", "allotment.dev/instance=preview")
        return sorted(one["spec"]["nodeName"] for one in found if one["spec"].get("nodeName"))

    eventually(lambda: len(nodes()) == 2, "both copies to have a node")
    assert nodes() == ["l4-ts2-film-1", "l4-ts2-film-2"]
