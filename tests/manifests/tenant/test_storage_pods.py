"""Where preparation Jobs and file accessors run: on nodes without GPUs, or on those of pools that declare storagePods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import Allot, edit
from tests.support.rendered_tree import rendered, sample_tree

from allotment.manifests.yaml_text import load

__all__ = ["sample_tree"]
POOL = "clusters/eu-1/node-pools/l4-whole.yaml"
NO_GPUS = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
TOLERATION = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
ON_POOL = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["l4-whole"]}]}]
WITHOUT_GPUS = [{"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]}]


def declare_storage_pods(root: Path) -> None:
    edit(root, POOL, "  static:\n", "  storagePods:\n    cpu: 4\n    memory: 16Gi\n  static:\n")


def storage_pods(tree: dict[str, bytes], cluster: str, kind: str) -> list[dict[str, Any]]:
    """Return the pods of a cluster's storages, of Jobs or of Deployments."""
    objects = [
        manifest for path, data in tree.items() if path.startswith(f"{cluster}/tenants/") for manifest in load(data)
    ]
    workloads = [
        manifest
        for manifest in objects
        if manifest["kind"] == kind and "allotment.dev/storage" in manifest["metadata"]["labels"]
    ]
    return [workload["spec"]["template"]["spec"] for workload in workloads]


def terms(pod: dict[str, Any]) -> Any:
    node = pod.get("affinity", {}).get("nodeAffinity", {})
    return node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


def test_jobs_run_on_nodes_without_gpus(sample_tree: dict[str, bytes]) -> None:
    for pod in (pods := storage_pods(sample_tree, "eu-1", "Job")):
        assert (terms(pod), pod.get("tolerations")) == (WITHOUT_GPUS, None)
        assert all(NO_GPUS not in container.get("env", ()) for container in pod.get("initContainers", ()))
    assert len(pods) > 3


def test_jobs_run_on_the_pools_that_declare_storage_pods(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare_storage_pods(sample)
    tree = rendered(allot, sample, tmp_path / "out")
    for pod in (pods := storage_pods(tree, "eu-1", "Job")):
        assert (terms(pod), pod["tolerations"]) == (ON_POOL, TOLERATION)
    assert len(pods) > 3
    declared = [
        container for pod in pods for container in pod.get("initContainers", ()) if container["name"] == "prepare"
    ]
    assert declared
    assert all(container["env"] == [NO_GPUS] for container in declared), "the image may ask for all GPUs of the node"
    assert all(terms(pod) == WITHOUT_GPUS for pod in storage_pods(tree, "us-1", "Job")), "another cluster"


def test_accessors_run_there_or_beside_the_instance_that_has_the_volume(
    sample: Path, allot: Allot, tmp_path: Path
) -> None:
    declare_storage_pods(sample)
    pods = storage_pods(rendered(allot, sample, tmp_path / "out"), "eu-1", "Deployment")
    assert pods
    for pod in pods:
        beside = "instance" in str(pod["affinity"].get("podAffinity"))
        assert terms(pod) == (None if beside else ON_POOL)
        assert pod["tolerations"] == TOLERATION
    assert any(terms(pod) == ON_POOL for pod in pods)


def test_karpenter_buys_no_gpu_node_for_a_job(sample: Path, allot: Allot) -> None:
    edit(
        sample,
        "clusters/us-1/node-pools/h100.yaml",
        "  karpenter:\n",
        "  storagePods:\n    cpu: 4\n    memory: 16Gi\n  karpenter:\n",
    )
    assert allot("validate", "--repo", sample).out.splitlines()[0] == (
        "clusters/us-1/node-pools/h100.yaml:6:1: spec: storagePods is given, and Karpenter would buy GPU nodes for preparation"
        " Jobs: remove it, and give Karpenter a NodePool of nodes without GPUs [pool-shape]"
    )


def test_the_room_of_a_job_is_the_least(sample: Path, allot: Allot) -> None:
    edit(sample, POOL, "  static:\n", "  storagePods:\n    cpu: 100m\n    memory: 16Mi\n  static:\n")
    output = allot("validate", "--repo", sample).out
    assert "l4-whole.yaml:14:10: spec.storagePods.cpu: " in output
    assert "l4-whole.yaml:15:13: spec.storagePods.memory: " in output
