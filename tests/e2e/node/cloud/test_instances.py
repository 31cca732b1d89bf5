"""Instances of the sample's apps on a real node: each answers as what was declared, with its mounts, memory, disk and nothing more."""

from __future__ import annotations

import urllib.request

import pytest

from tests.controlplane import node
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.cloud import Cloud
from tests.e2e.node.conftest import SPACE, TENANT, declare_all, in_pod, only_pod
from tests.e2e.node.pods import processes_of, uid_map
from tests.support.cloud_status import until
from tests.support.published import EMPTY_STORAGE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
# App, version, port, path of its probe.
SHAPES = {
    "comfyui": ("0.6.0", 8188),
    "jupyter": ("4.5.0", 8888),
    "lora-trainer": ("25.9.1", 6006),
    "stable-diffusion-webui": ("1.11.0", 7860),
    "triton": ("26.09", 8001),
    "vllm": ("0.14.0", 8000),
}
INSTANCE = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata: {{name: {app}}}
spec:
  cluster: eu-1
  gpuSpec: l4-quarter
  app: {{name: {app}, version: "{version}"}}
  storages:
    - {{name: shared, mountPath: /workspace/read, readOnly: true}}
    - {{name: shared, mountPath: /workspace/own, subPath: of/{app}}}
"""
SHARED = EMPTY_STORAGE.format(name="shared").replace("block-ssd", "shared-files").replace("20Gi", "50Gi")


@pytest.fixture(scope="module")
def pods(real_cloud: Cloud) -> dict[str, Object]:
    """Return the pod of each app's instance once its status says Running."""
    declared = {
        f"tenants/{TENANT}/instances/{app}.yaml": INSTANCE.format(app=app, version=version)
        for app, (version, _) in SHAPES.items()
    }
    declare_all(real_cloud, {f"tenants/{TENANT}/storages/shared.yaml": SHARED, **declared})
    return {app: running(real_cloud, app) for app in SHAPES}


def running(cloud: Cloud, name: str) -> Object:
    until(cloud, name, "Running", TENANT)
    return only_pod(cloud, name)


@pytest.mark.parametrize("app", SHAPES)
def test_an_app_answers_http_where_it_is_declared(app: str, pods: dict[str, Object]) -> None:
    version, port = SHAPES[app]
    with urllib.request.urlopen(f"http://{pods[app]['status']['podIP']}:{port}", timeout=5) as answer:
        assert answer.read().decode() == f"{app} {version}\n"
    assert pods[app]["spec"]["nodeName"] == node.NAME


def test_an_instance_has_its_unit_and_the_declared_environment(real_cloud: Cloud, pods: dict[str, Object]) -> None:
    environments = {
        app: dict(line.split("=", 1) for line in in_pod(real_cloud, pod, "env").splitlines())
        for app, pod in pods.items()
    }
    units = [environment["NVIDIA_VISIBLE_DEVICES"] for environment in environments.values()]
    assert len({*units}) == len(SHAPES)
    assert {*map(int, units)} <= {*range(node.UNITS["nvidia.com/gpu.shared"])}
    assert environments["stable-diffusion-webui"]["HF_HOME"] == "/scratch/hf"
    assert environments["lora-trainer"]["TENSORBOARD_PORT"] == "6006"
    leaked = {
        key
        for environment in environments.values()
        for key in environment
        if key.endswith(("_SERVICE_HOST", "_PORT_HTTP"))
    }
    assert leaked == {"KUBERNETES_SERVICE_HOST"}, "no Service but the API server's is named to it"


def test_its_mounts_are_those_declared_and_what_is_read_only_stays_so(
    real_cloud: Cloud, real_node: Node, pods: dict[str, Object]
) -> None:
    for app, pod in pods.items():
        in_pod(real_cloud, pod, "sh", "-c", f"echo {app} > /workspace/own/who")
        assert in_pod(real_cloud, pod, "cat", f"/workspace/read/of/{app}/who") == f"{app}\n"
        refused = in_pod(real_cloud, pod, "sh", "-c", "touch /workspace/read/x 2>&1 || true")
        assert "Read-only file system" in refused
    claim = real_cloud.clusters["eu-1"].client.get("v1", "PersistentVolumeClaim", "shared", SPACE)
    written = node.volumes(real_node.cluster) / claim["metadata"]["uid"] / "of"
    assert {folder.name: (folder / "who").read_text(encoding="ascii") for folder in written.iterdir()} == {
        app: f"{app}\n" for app in SHAPES
    }


def test_an_instance_has_its_shared_memory_and_disk_and_no_token(real_cloud: Cloud, pods: dict[str, Object]) -> None:
    for app, mebibytes in (("jupyter", 2048), ("lora-trainer", 8192)):
        shm = in_pod(real_cloud, pods[app], "df", "-m", "/dev/shm").splitlines()[-1].split()
        assert int(shm[1]) == mebibytes
    for pod in pods.values():
        assert in_pod(real_cloud, pod, "sh", "-c", "ls /var/run/secrets 2>&1 || echo none").endswith("none\n")
        assert in_pod(real_cloud, pod, "sh", "-c", "echo mine > /scratch/x && cat /scratch/x") == "mine\n"


def test_its_root_is_nobody_of_the_machine(pods: dict[str, Object]) -> None:
    maps = [uid_map(process) for pod in pods.values() for process in processes_of(pod) if process.name() == "httpd"]
    assert len(maps) == len(SHAPES)
    assert all(inside == 0 and outside >= 65536 and count == 65536 for inside, outside, count in maps)
    assert len({outside for _, outside, _ in maps}) == len(maps), "each pod has a range of its own"


def test_its_own_disk_is_erased_at_a_stop_and_its_storage_stays(
    real_cloud: Cloud, real_node: Node, pods: dict[str, Object]
) -> None:
    cloud, path = real_cloud, f"tenants/{TENANT}/instances/comfyui.yaml"
    in_pod(cloud, pods["comfyui"], "sh", "-c", "echo mine > /scratch/x; echo kept > /workspace/own/x")
    claims = cloud.clusters["eu-1"].client.list("v1", "PersistentVolumeClaim", SPACE)
    (scratch,) = [
        claim for claim in claims if claim["metadata"]["name"].startswith(pods["comfyui"]["metadata"]["name"])
    ]
    disk = node.volumes(real_node.cluster) / scratch["metadata"]["uid"]
    assert (disk / "x").read_text(encoding="ascii") == "mine\n"
    cloud.edit(path, "  gpuSpec", "  state: Stopped\n  gpuSpec")
    cloud.merged()
    until(cloud, "comfyui", "Stopped", TENANT)
    eventually(lambda: not disk.exists(), "its own disk to be erased")
    cloud.edit(path, "  state: Stopped\n", "")
    cloud.merged()
    restarted_pod = running(cloud, "comfyui")
    assert restarted_pod["metadata"]["uid"] != pods["comfyui"]["metadata"]["uid"]
    assert in_pod(cloud, restarted_pod, "sh", "-c", "ls /scratch; cat /workspace/own/x") == "kept\n"
