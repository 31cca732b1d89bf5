"""The test bed itself: what it simulates, what goes wrong on request, and that nothing of it is left or seen from outside."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import bed, processes, simulated
from tests.controlplane import cluster as clusters
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import LOOPBACK
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
SIMULATE = "bill.allotment.dev/simulate"


def pod(namespace: str, name: str, simulate: str = "") -> Object:
    labels = {SIMULATE: simulate} if simulate else {}
    container = {"name": "main", "image": "registry.example/app:1", "startupProbe": {"tcpSocket": {"port": 80}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container]},
    }


def job(namespace: str, name: str, *args: str) -> Object:
    spec = pod(namespace, name)["spec"]
    spec["restartPolicy"] = "Never"
    spec["containers"][0]["args"] = list(args)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": {"spec": spec}},
    }


def main_container(client: Client, namespace: str, name: str) -> dict[str, Any]:
    container_status: dict[str, Any] = client.get("v1", "Pod", name, namespace)["status"]["containerStatuses"][0]
    return container_status


def is_ready(client: Client, namespace: str, name: str) -> bool:
    return bool(main_container(client, namespace, name)["ready"])


def test_everything_listens_on_the_loopback(cluster: Cluster) -> None:
    addresses = processes.listening(cluster.folder)
    assert {ip for _, ip in addresses} == {LOOPBACK}, addresses
    names = {name for name, _ in addresses}
    assert names >= {"etcd", "kube-apiserver", "kube-scheduler", "kwok-controller", "argocd", "redis-server"}


def test_services_have_room(cluster: Cluster) -> None:
    ranges = cluster.client.get("networking.k8s.io/v1", "ServiceCIDR", "kubernetes")["spec"]["cidrs"]
    assert ranges == [clusters.SERVICE_RANGE]


def test_no_controller_ends_because_its_lease_runs_out(cluster: Cluster) -> None:
    leases = {
        lease["metadata"]["name"] for lease in cluster.client.list("coordination.k8s.io/v1", "Lease", "kube-system")
    }
    assert not leases & {"kube-controller-manager", "kube-scheduler"}


def test_metadata_is_that_of_the_objects(cluster: Cluster) -> None:
    kind = ("storage.k8s.io/v1", "StorageClass")
    whole = {storage_class["metadata"]["name"]: storage_class for storage_class in cluster.client.list(*kind)}
    metadata_by_name = {
        storage_class["metadata"]["name"]: storage_class for storage_class in cluster.client.metadata(*kind)
    }
    assert "rook-ceph-block" in metadata_by_name
    assert metadata_by_name == {
        name: {key: storage_class[key] for key in ("apiVersion", "kind", "metadata")}
        for name, storage_class in whole.items()
    }


def test_nodes_are_those_of_the_declared_pools(cluster: Cluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in cluster.client.list("v1", "Node")}
    assert sorted(nodes) == sorted(
        [f"l4-ts4-{n}" for n in (1, 2, 3)]
        + [f"{pool}-{n}" for pool in ("a100-mig", "l4-ts2-film", "l4-whole") for n in (1, 2)]
        + ["cpu-1", "cpu-2"]
    )
    amounts = nodes["a100-mig-1"]["status"]["allocatable"]
    assert {key: amounts[key] for key in amounts if key.startswith("nvidia.com/")} == {
        "nvidia.com/mig-1g.10gb": "8",
        "nvidia.com/mig-2g.20gb": "4",
        "nvidia.com/mig-3g.40gb": "4",
    }
    assert nodes["l4-ts4-1"]["status"]["allocatable"]["nvidia.com/gpu.shared"] == "16"
    assert nodes["l4-ts4-1"]["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    assert "taints" not in nodes["cpu-1"]["spec"]


def test_a_pod_starts_and_then_becomes_ready(cluster: Cluster, namespace: str) -> None:
    cluster.client.apply(pod(namespace, "web"))
    seen: list[tuple[object, ...]] = []

    def step() -> bool:
        status = main_container(cluster.client, namespace, "web")
        now = (*status["state"], status["started"], status["ready"])
        if now not in seen:
            seen.append(now)
        return bool(status["ready"])

    eventually(step, "the pod to be ready", pause=0.05)
    assert [state for state in seen if state[0] == "running"] == [("running", False, False), ("running", True, True)]


def conditions(client: Client, namespace: str, name: str) -> dict[str, tuple[str, str | None]]:
    """Return status and reason of a pod's conditions, by their types."""
    pod_conditions = client.get("v1", "Pod", name, namespace)["status"]["conditions"]
    return {condition["type"]: (condition["status"], condition.get("reason")) for condition in pod_conditions}


UNREADY = {
    "PodScheduled": ("True", None),
    "PodReadyToStartContainers": ("True", None),
    "Initialized": ("True", None),
    "Ready": ("False", "ContainersNotReady"),
    "ContainersReady": ("False", "ContainersNotReady"),
}


def test_pods_crash_on_request_as_a_kubelet_tells_it(cluster: Cluster, namespace: str) -> None:
    cluster.client.apply(pod(namespace, "web", "crash"))
    seen: list[tuple[str, object, int]] = []

    def restarted() -> bool:
        status = main_container(cluster.client, namespace, "web")
        ((kind, state),) = status["state"].items()
        now = (kind, state.get("reason"), status["restartCount"])
        if now not in seen:
            seen.append(now)
        return bool(status["restartCount"] > 1 and kind == "terminated")

    eventually(restarted, "two restarts", pause=0.05)
    ended = [("terminated", "Error", restarts) for restarts in range(3)]
    assert [state for state in seen if state[0] == "terminated"] == ended
    assert seen.index(("waiting", "CrashLoopBackOff", 0)) in range(seen.index(ended[0]), seen.index(ended[1]))
    status = main_container(cluster.client, namespace, "web")
    now, before = status["state"]["terminated"], status["lastState"]["terminated"]
    assert (now["exitCode"], before["exitCode"], status["ready"], status["started"]) == (1, 1, False, False)
    assert before["finishedAt"] <= now["startedAt"] <= now["finishedAt"]
    assert status["containerID"] == now["containerID"] != before["containerID"]
    assert conditions(cluster.client, namespace, "web") == UNREADY


def test_images_are_missing_on_request(cluster: Cluster, namespace: str) -> None:
    cluster.client.apply(pod(namespace, "web", "image-missing"))
    seen: dict[str, str] = {}

    def backs_off() -> bool:
        waiting = main_container(cluster.client, namespace, "web")["state"].get("waiting", {})
        seen[waiting["reason"]] = waiting.get("message", "")
        return bool(waiting["reason"] == "ImagePullBackOff")

    eventually(backs_off, "the image to be missing", pause=0.05)
    assert list(seen) == ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"]
    assert seen["ErrImagePull"].endswith(": not found")
    expected = f'Back-off pulling image "registry.example/app:1": ErrImagePull: {seen["ErrImagePull"]}'
    assert seen["ImagePullBackOff"] == expected
    assert cluster.client.get("v1", "Pod", "web", namespace)["status"]["phase"] == "Pending"


def test_probes_never_pass_on_request(cluster: Cluster, namespace: str) -> None:
    cluster.client.apply(pod(namespace, "web", "probe-fails"), pod(namespace, "other"))
    eventually(partial(is_ready, cluster.client, namespace, "other"), "the other pod to be ready")
    status = main_container(cluster.client, namespace, "web")
    assert (list(status["state"]), status["started"], status["ready"]) == (["running"], False, False)


def test_pods_stop_slowly_on_request(cluster: Cluster, namespace: str) -> None:
    client = cluster.client
    client.apply(pod(namespace, "web", "slow-stop"), pod(namespace, "other"))
    for name in ("web", "other"):
        eventually(partial(is_ready, client, namespace, name), f"{name} to be ready")
        client.delete("v1", "Pod", name, namespace)
    eventually(lambda: len(client.list("v1", "Pod", namespace)) == 1, "the other pod to be gone")
    assert "deletionTimestamp" in client.get("v1", "Pod", "web", namespace)["metadata"]
    eventually(lambda: not client.list("v1", "Pod", namespace), "the slow one to be gone")


def test_jobs_complete_and_fail_on_request(cluster: Cluster, namespace: str) -> None:
    cluster.client.apply(job(namespace, "good"), job(namespace, "bad", "--simulate=job-fails"))

    def ended(name: str) -> set[str]:
        conditions = cluster.client.get("batch/v1", "Job", name, namespace)["status"].get("conditions", ())
        return {condition["type"] for condition in conditions if condition["status"] == "True"}

    assert "Complete" in eventually(lambda: ended("good") & {"Complete", "Failed"}, "the good Job to end")
    assert "Failed" in eventually(lambda: ended("bad") & {"Complete", "Failed"}, "the bad Job to end")


@pytest.mark.parametrize(("storage_class", "stays"), [("rook-ceph-block", True), ("rook-ceph-block-scratch", False)])
def test_a_claim_is_bound_and_its_volume_kept_or_deleted(
    storage_class: str, stays: bool, cluster: Cluster, namespace: str
) -> None:
    client = cluster.client
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    client.apply(claim)
    bound = eventually(
        lambda: (
            (live_claim := client.get("v1", "PersistentVolumeClaim", "data", namespace))["status"]["phase"] == "Bound"
            and live_claim
        ),
        "the claim to be bound",
    )
    assert bound["status"]["capacity"] == {"storage": "5Gi"}
    volume = bound["spec"]["volumeName"]
    client.delete("v1", "PersistentVolumeClaim", "data", namespace)

    def phase() -> str:
        persistent_volumes = [
            persistent_volume
            for persistent_volume in client.list("v1", "PersistentVolume")
            if persistent_volume["metadata"]["name"] == volume
        ]
        return str(persistent_volumes[0]["status"]["phase"]) if persistent_volumes else "gone"

    assert eventually(lambda: (now := phase()) in ("Released", "gone") and now, "the volume to be let go") in (
        ("Released",) if stays else ("Released", "gone")
    )
    if stays:
        client.delete("v1", "PersistentVolume", volume)
    eventually(lambda: phase() == "gone", "the volume to be gone")


def test_routes_and_certificates_are_accepted(cluster: Cluster, namespace: str) -> None:
    client = cluster.client
    route: Object = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"parentRefs": [{"name": "edge", "namespace": "edge"}], "hostnames": ["a.eu-1.gpu.northlight.example"]},
    }
    certificate: Object = {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"secretName": "web", "dnsNames": ["a.example"], "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}},
    }
    client.apply(route, certificate)

    def accepted(generation: int) -> bool:
        parent_conditions = client.get(route["apiVersion"], "HTTPRoute", "web", namespace)["status"]["parents"][0][
            "conditions"
        ]
        return {
            (condition["type"], condition["status"], condition["observedGeneration"]) for condition in parent_conditions
        } == {(kind, "True", generation) for kind in ("Accepted", "ResolvedRefs")}

    eventually(lambda: accepted(1), "the route to be accepted")
    route["spec"]["hostnames"] = ["b.eu-1.gpu.northlight.example"]
    client.apply(route)
    eventually(lambda: accepted(2), "the changed route to be accepted")
    conditions = eventually(
        lambda: client.get("cert-manager.io/v1", "Certificate", "web", namespace)["status"]["conditions"],
        "a certificate",
    )
    assert (conditions[0]["type"], conditions[0]["status"]) == ("Ready", "True")


def test_a_running_cluster_is_found_again(cluster: Cluster) -> None:
    same_cluster, fresh = bed.up("eu-1")
    assert (same_cluster, fresh) == (cluster, False)


def test_nothing_is_left_after_a_crash(cluster: Cluster, tmp_path: Path) -> None:
    """A cluster whose starter was killed halfway, and whose API server was killed later."""
    lost = Cluster("us-1", tmp_path / "lost")
    clusters.start(lost, simulated.declared(clusters.PROJECT, lost.name))
    assert clusters.state(lost) == "broken", "it was never noted as started"
    clusters.note_started(lost, clusters.PROJECT, {})
    assert clusters.state(lost) == "running"
    for process in processes.running(lost.folder):
        if process.name() == "kube-apiserver":
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
    assert clusters.state(lost) == "broken"
    assert clusters.stop(lost) == 4
    assert processes.running(lost.folder) == []
    assert not lost.folder.exists()
    assert clusters.state(cluster) == "running", "the other one doesn't notice"
