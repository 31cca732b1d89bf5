"""The watch against a real API server: restarted, its credentials revoked, a CRD that comes later, thousands of pods."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from allotment.adapters.backoff import Backoff
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.cluster.observed_objects import ObservedObjects
from allotment.adapters.cluster.watching import Watch, WatchTiming
from allotment.manifests import names
from allotment.observed.api_objects.route import RawRoute, summarize_route
from allotment.observed.decoding import CLUSTER_KINDS, DEPLOYMENTS, PODS, WatchedKind
from allotment.observed.objects import ObservedObject, Pod
from tests.controlplane import processes
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

CROWD = 5_000
PACE = WatchTiming(Backoff(0.2, 2))


@pytest.fixture
def tenant(cluster: Cluster) -> Iterator[str]:
    """Return a tenant with a namespace of its own."""
    name = f"watched-{secrets.token_hex(3)}x"
    client = cluster.client
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"t-{name}"}})
    eventually(lambda: client.get("v1", "ServiceAccount", "default", f"t-{name}"), "its service account")
    yield name
    client.delete("v1", "Namespace", f"t-{name}")


@pytest.fixture
def watching(cluster: Cluster) -> Iterator[Callable[..., tuple[Watch, ObservedObjects]]]:
    """Return what watches a kind, as an administrator or by another kubeconfig, all that is ours or what is selected."""
    begun = []

    def watch(
        kind: WatchedKind, kubeconfig: Path | None = None, selector: str = names.MANAGED_BY_SELECTOR
    ) -> tuple[Watch, ObservedObjects]:
        store = ObservedObjects("eu-1")
        started_watch = Watch(
            ApiServer.from_kubeconfig(kubeconfig or cluster.kubeconfig, None), kind, store, PACE, selector
        )
        started_watch.start()
        begun.append(started_watch)
        return started_watch, store

    yield watch
    for started_watch in begun:
        started_watch.stop()


def labels(tenant: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "allotment",
        "allotment.dev/tenant": tenant,
        "allotment.dev/instance": "lab",
    }


def pod(tenant: str, name: str) -> Object:
    """Return a pod that nobody schedules."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": f"t-{tenant}", "labels": labels(tenant)},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "registry.example/x:1"}]},
    }


def seen(store: ObservedObjects, tenant: str) -> dict[str, str]:
    return {live_pod.name: live_pod.uid for live_pod in store.objects(tenant) if isinstance(live_pod, Pod)}


def list_live_pods(client: Client, tenant: str) -> dict[str, str]:
    pods = client.list("v1", "Pod", f"t-{tenant}")
    return {live_pod["metadata"]["name"]: live_pod["metadata"]["uid"] for live_pod in pods}


def same(store: ObservedObjects, client: Client, tenant: str, seconds: float = 60) -> None:
    eventually(lambda: seen(store, tenant) == list_live_pods(client, tenant), "all that is there to be seen", seconds)


def test_one_made_anew_is_another_one(cluster: Cluster, tenant: str, watching: Any) -> None:
    _, store = watching(PODS)
    cluster.client.create(pod(tenant, "one"))
    same(store, cluster.client, tenant)
    before = seen(store, tenant)
    cluster.client.delete("v1", "Pod", "one", f"t-{tenant}")
    eventually(lambda: not seen(store, tenant), "it to be gone")
    cluster.client.create(pod(tenant, "one"))
    same(store, cluster.client, tenant)
    assert seen(store, tenant).keys() == before.keys()
    assert seen(store, tenant) != before


def test_a_cluster_that_has_none_yet_is_seen_as_well(watching: Any) -> None:
    """As before the first publish: how an API server writes an empty list depends on the kind, and on what is asked of it."""
    empty = [watching(kind, selector=f"allotment.dev/tenant={secrets.token_hex(8)}")[0] for kind in CLUSTER_KINDS]
    eventually(lambda: all(watch.synced for watch in empty), "each kind to be listed")
    assert [watch.trouble for watch in empty] == [""] * len(CLUSTER_KINDS)


def test_an_api_server_that_restarts_loses_nothing(cluster: Cluster, tenant: str, watching: Any) -> None:
    client = cluster.client
    watch, store = watching(PODS)
    client.create(pod(tenant, "before"))
    same(store, client, tenant)
    gaps = []
    original = store.replace

    def replace(kind: WatchedKind, objects: list[ObservedObject]) -> None:
        gaps.append(len(objects))
        original(kind, objects)

    store.replace = replace
    server = next(process for process in processes.running(cluster.folder) if process.name() == "kube-apiserver")
    command = server.cmdline()
    server.kill()
    psutil.wait_procs([server], 10)
    eventually(lambda: watch.trouble, "it to notice")
    assert seen(store, tenant).keys() == {"before"}
    processes.start(cluster.folder, "kube-apiserver-again", command)
    eventually(client.ready, "the API server to answer", 90)
    client.create(pod(tenant, "after"))
    same(store, client, tenant, 90)
    assert seen(store, tenant).keys() == {"before", "after"}
    assert 0 not in gaps


def test_credentials_that_were_revoked_are_read_again(
    cluster: Cluster, tenant: str, watching: Any, tmp_path: Path
) -> None:
    client, space = cluster.client, f"t-{tenant}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reporter", "namespace": space}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": "reporter", "namespace": space}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": tenant}
    rbac = "rbac.authorization.k8s.io/v1"
    client.apply(
        account,
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": tenant}, "rules": [rule]},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": tenant},
            "roleRef": role,
            "subjects": [subject],
        },
    )
    token, kubeconfig = tmp_path / "token", tmp_path / "kubeconfig"
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"tokenFile": str(token)}
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    token.write_text(str(client.as_service_account("reporter", space).token))
    try:
        watch, store = watching(PODS, kubeconfig)
        client.create(pod(tenant, "before"))
        same(store, client, tenant)
        client.delete("v1", "ServiceAccount", "reporter", space)
        revoked = Client(cluster.kubeconfig, token.read_text())
        eventually(lambda: "Unauthorized" in (refusal(revoked.list, "v1", "Pod") or ""), "the token to be refused", 90)
        end_streams(watch)
        eventually(lambda: watch.trouble == "it answers 401", "it to be told", 60)
        client.apply(account)
        token.write_text(str(client.as_service_account("reporter", space).token))
        client.create(pod(tenant, "after"))
        same(store, client, tenant)
    finally:
        client.delete(rbac, "ClusterRoleBinding", tenant)
        client.delete(rbac, "ClusterRole", tenant)


def end_streams(watch: Watch) -> None:
    """Cut the connection of a watch, as a network does."""
    own = psutil.Process()
    port = int(watch._api.host.rsplit(":", 1)[1])
    for connection in own.net_connections(kind="tcp"):
        if connection.raddr and connection.raddr.port == port and connection.fd >= 0:
            with socket.socket(fileno=socket.dup(connection.fd)) as copy:
                copy.shutdown(socket.SHUT_RDWR)


def test_a_kind_that_is_installed_later_is_seen_then(cluster: Cluster, tenant: str, watching: Any) -> None:
    client, name = cluster.client, f"k{secrets.token_hex(3)}"
    group = "test.allotment.dev"
    watch, store = watching(WatchedKind(name, f"/apis/{group}/v1/{name}", RawRoute, summarize_route))
    eventually(lambda: watch.absent, "it to be found missing", 30)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": name, "kind": name.title()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    try:
        client.install([crd])
        metadata = {"name": "one", "namespace": f"t-{tenant}", "labels": labels(tenant)}
        client.apply({"apiVersion": f"{group}/v1", "kind": name.title(), "metadata": metadata})
        eventually(lambda: len(store) == 1, "it to be seen", 60)
        assert not watch.absent
    finally:
        client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{name}.{group}")


def test_five_thousand_pods(cluster: Cluster, tenant: str, watching: Any) -> None:
    client = cluster.client
    _, store = watching(PODS)
    _, deployments = watching(DEPLOYMENTS)
    template = {"metadata": {"labels": labels(tenant)}, "spec": pod(tenant, "x")["spec"]}
    selector = {"matchLabels": {"allotment.dev/instance": "lab"}}
    metadata = {"name": "lab", "namespace": f"t-{tenant}", "labels": labels(tenant)}
    spec = {"replicas": CROWD, "selector": selector, "template": template}
    client.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    try:
        eventually(lambda: len(seen(store, tenant)) == CROWD, "all of them to be seen", 300, pause=1)
        same(store, client, tenant, 120)
        late, fresh = watching(PODS)
        eventually(lambda: late.synced, "a list in pages", 60)
        assert seen(fresh, tenant) == seen(store, tenant)
        eventually(lambda: len(deployments.objects(tenant)) == 1, "their Deployment", 10)
    finally:
        client.patch("apps/v1", "Deployment", "lab", {"spec": {"replicas": 0}}, f"t-{tenant}")
        eventually(lambda: not seen(store, tenant), "all of them to be gone", 300, pause=1)
