"""Tenants on a real cluster: quota, Pod Security, priorities and service accounts keep them apart. Network policies exist
there, and nothing enforces them: KWOK has no network."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from allotment.manifests import names
from tests.controlplane.client import Object, refusal
from tests.controlplane.cluster import Cluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
A, B = names.namespace("studio-kite"), names.namespace("film-house")


def pod(**more: Any) -> Object:
    """Return a pod that a tenant's namespace takes; `more` goes into its spec."""
    container: Object = {
        "name": "main",
        "image": "registry.example/app:1@sha256:" + "0" * 64,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "automountServiceAccountToken": False,
        "hostUsers": False,
        "priorityClassName": names.INSTANCE_PRIORITY,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": A},
        "spec": {**spec, **more},
    }


def with_container(**more: Any) -> Object:
    """Return that pod with `more` in its container."""
    pod_manifest = pod()
    pod_manifest["spec"]["containers"][0].update(more)
    return pod_manifest


def words(cluster: Cluster, pod_manifest: Object) -> str | None:
    """Return why a pod is refused; None when it is accepted. Nothing is created."""
    return refusal(cluster.client.apply, deepcopy(pod_manifest), dry_run=True)


def test_an_ordinary_pod_is_accepted(sample_cluster: Cluster) -> None:
    assert words(sample_cluster, pod()) is None


@pytest.mark.parametrize(
    ("insecure_pod", "why"),
    [
        (pod(hostNetwork=True, hostUsers=True), "host namespaces"),
        (pod(hostPID=True, hostUsers=True), "host namespaces"),
        (pod(volumes=[{"name": "host", "hostPath": {"path": "/"}}]), "restricted volume types"),
        (pod(securityContext={}), "seccompProfile"),
        (with_container(securityContext={"privileged": True}), "privileged"),
        (with_container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), "unrestricted capabilities"),
        (with_container(ports=[{"containerPort": 80, "hostPort": 80}]), "hostPort"),
        (pod(hostUsers=True), "runAsNonRoot"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pod_security_is_enforced(insecure_pod: Object, why: str, sample_cluster: Cluster) -> None:
    message = words(sample_cluster, insecure_pod)
    assert message is not None
    assert 'violates PodSecurity "restricted' in message
    assert why in message


@pytest.mark.parametrize("priority", ["system-cluster-critical", "system-node-critical", "allotment-stock-1"])
def test_a_pod_takes_no_other_priority(priority: str, sample_cluster: Cluster) -> None:
    message = words(sample_cluster, pod(priorityClassName=priority))
    assert message is not None
    assert (
        "A tenant's pod has one of Allotment's priority classes." in message
        or "exceeded quota: other-priorities" in message
    )


def test_a_pod_does_not_choose_its_node(sample_cluster: Cluster) -> None:
    message = words(sample_cluster, pod(nodeName="l4-ts4-1"))
    assert message is not None
    assert "A tenant's pod doesn't choose its node." in message


def test_a_pod_over_quota_is_refused(sample_cluster: Cluster) -> None:
    hard = sample_cluster.client.get("v1", "ResourceQuota", "backstop", A)["spec"]["hard"]
    most = int(hard["requests.nvidia.com/gpu"])
    requests = {"nvidia.com/gpu": str(most + 1)}
    message = words(sample_cluster, with_container(resources={"requests": requests, "limits": requests}))
    assert message is not None
    assert "exceeded quota: backstop, requested: requests.nvidia.com/gpu=" in message
    assert f"limited: requests.nvidia.com/gpu={most}" in message


def test_a_class_that_the_plan_does_not_have_is_refused(sample_cluster: Cluster) -> None:
    requests = {"nvidia.com/mig-3g.40gb": "1"}
    pod_manifest = with_container(resources={"requests": requests, "limits": requests})
    pod_manifest["metadata"]["namespace"] = names.namespace("solo-ada")
    message = words(sample_cluster, pod_manifest)
    assert message is not None
    assert "exceeded quota: backstop" in message


def test_a_service_account_reads_nothing_of_another_tenant_nor_of_its_own(sample_cluster: Cluster) -> None:
    intruder = sample_cluster.client.as_service_account("default", A)
    kinds = ("Pod", "Secret", "ConfigMap", "PersistentVolumeClaim", "Service", "ServiceAccount", "ResourceQuota")
    for kind in kinds:
        for place in (B, A, None):
            message = refusal(intruder.list, "v1", kind, place)
            assert message is not None, f"{kind} of {place}"
            assert f'User "system:serviceaccount:{A}:default" cannot list resource' in message
    for kind in ("Namespace", "Node", "PersistentVolume"):
        assert "cannot list resource" in (refusal(intruder.list, "v1", kind) or "")
    assert "cannot patch resource" in (refusal(intruder.apply, pod(), dry_run=True) or "")


def test_a_protected_object_is_not_deleted_even_by_an_administrator(sample_cluster: Cluster) -> None:
    client = sample_cluster.client
    for version, kind, name, namespace in (
        ("v1", "Namespace", A, None),
        ("v1", "PersistentVolumeClaim", "model-cache", A),
        ("scheduling.k8s.io/v1", "PriorityClass", names.INSTANCE_PRIORITY, None),
    ):
        message = refusal(client.delete, version, kind, name, namespace, dry_run=True)
        assert message is not None
        assert "Allotment protects this: it is deleted by two merges, see deletionPolicy." in message


def test_every_pod_that_runs_is_one_of_ours_and_may(sample_cluster: Cluster) -> None:
    """The admission that refuses the pods above lets all of the sample's own through."""
    client = sample_cluster.client

    def failed() -> list[str]:
        return [
            f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}: {condition['message']}"
            for deployment in client.list("apps/v1", "Deployment", labels=f"{names.MANAGED_BY}={names.PROGRAM_NAME}")
            for condition in deployment["status"].get("conditions", ())
            if condition["type"] == "ReplicaFailure"
        ]

    eventually(lambda: client.list("v1", "Pod", A), "pods of the tenant")
    assert failed() == []
