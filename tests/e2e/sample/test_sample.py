"""The sample on a real cluster: every object is accepted, stays as it was written, and all of it comes up. Case 30."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from allotment.manifests.names import ARGO_NAMESPACE, STOCK_NAMESPACE
from tests.conftest import PROJECT, ROOTS
from tests.controlplane import rendered
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.support import largest
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


def refused(hub: Client, client: Client, tree: Path) -> list[str]:
    """Apply a tree, each object dry and then for real; return what was refused, and what a second time would change.

    What is Argo CD's goes to its own cluster, the `hub`.
    """
    wrong: list[str] = []
    accepted: list[tuple[Client, Object]] = []
    for manifest in rendered.objects(tree):
        place = hub if manifest["metadata"].get("namespace") == ARGO_NAMESPACE else client
        if message := refusal(place.apply, manifest, dry_run=True) or refusal(place.apply, manifest):
            wrong.append(f"{identity(manifest)}: {message}")
        else:
            accepted.append((place, manifest))
    for place, manifest in accepted:
        api_version, kind, namespace, name = identity(manifest)
        live = place.get(api_version, kind, name, namespace)
        if meant(place.apply(manifest, dry_run=True)[0]) != meant(live):
            wrong.append(f"{identity(manifest)}: the same again would change it")
    return wrong


def meant(manifest: Object) -> Object:
    """Return an object without what clusters write into it."""
    return {key: value for key, value in manifest.items() if key not in ("metadata", "status")}


def identity(manifest: Object) -> tuple[str, str, str | None, str]:
    return manifest["apiVersion"], manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]


def test_every_object_is_accepted(sample_cluster: Cluster, sample_tree: Path) -> None:
    assert refused(sample_cluster.client, sample_cluster.client, sample_tree) == []


def test_every_object_of_a_karpenter_cluster_is_accepted(
    sample_cluster: Cluster, growing_cluster: Cluster, render: Render
) -> None:
    try:
        assert refused(sample_cluster.client, growing_cluster.client, render(PROJECT, "us-1")) == []
    finally:
        rendered.clear(growing_cluster.client)


def test_the_largest_that_validation_allows_is_accepted(
    sample_cluster: Cluster, growing_cluster: Cluster, render: Render, tmp_path: Path
) -> None:
    """What a tenant may declare never fails its sync: the API servers take all of it, asked without writing it."""
    for name in ROOTS:
        shutil.copytree(PROJECT / name, tmp_path / name)
    largest.grow(tmp_path)
    tree = render(tmp_path, "eu-1")
    client = sample_cluster.client
    own = [manifest for manifest in rendered.objects(tree) if largest.TENANT in str(manifest["metadata"])]
    spaces = {manifest["metadata"]["namespace"] for manifest in own if "namespace" in manifest["metadata"]} - {
        ARGO_NAMESPACE,
        STOCK_NAMESPACE,
    }
    labels = {"app.kubernetes.io/managed-by": "allotment"}
    for space in spaces:
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}})
    pool = [
        manifest
        for manifest in rendered.objects(tree, "platform/stock")
        if largest.POOL in manifest["metadata"]["name"]
    ]
    bought = [
        manifest
        for manifest in rendered.objects(tree.parent / "us-1", "platform/node-pools")
        if "kkk" in str(manifest["metadata"]) or "lll" in str(manifest["metadata"])
    ]
    assert len({manifest["kind"] for manifest in own}) > 14
    assert len(pool) == 1
    assert [manifest["kind"] for manifest in bought] == [
        "NodePool",
        "NodeOverlay",
        "EC2NodeClass",
        "NodePool",
        "NodeOverlay",
    ]
    refusals = [(identity(manifest), refusal(client.apply, manifest, dry_run=True)) for manifest in [*own, *pool]]
    refusals += [
        (identity(manifest), refusal(growing_cluster.client.apply, manifest, dry_run=True)) for manifest in bought
    ]
    assert [verdict for verdict in refusals if verdict[1]] == []


def test_everything_comes_up(sample_cluster: Cluster) -> None:
    client = sample_cluster.client

    def not_up() -> list[str]:
        deployments = [
            f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"
            for deployment in client.list("apps/v1", "Deployment", labels=rendered.OURS)
            if deployment["status"].get("readyReplicas", 0) != deployment["spec"]["replicas"]
        ]
        claims = [
            claim["metadata"]["name"]
            for claim in client.list("v1", "PersistentVolumeClaim", labels=rendered.OURS)
            if claim["status"].get("phase") != "Bound"
        ]
        jobs = [
            job["metadata"]["name"]
            for job in client.list("batch/v1", "Job", labels=rendered.OURS)
            if not job["status"].get("succeeded")
        ]
        routes = [
            route["metadata"]["name"]
            for route in client.list("gateway.networking.k8s.io/v1", "HTTPRoute", labels=rendered.OURS)
            if not route.get("status", {}).get("parents")
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
        pods = client.list("v1", "Pod", "t-film-house", "allotment.dev/instance=preview")
        return sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))

    eventually(lambda: len(nodes()) == 2, "both copies to have a node")
    assert nodes() == ["l4-ts2-film-1", "l4-ts2-film-2"]
