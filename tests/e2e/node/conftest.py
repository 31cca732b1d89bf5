"""What tests on a real node share: a cloud of one cluster whose only node runs containers, and people's declarations for it."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from allotment.adapters.folder_source import FolderSource
from allotment.declared.kinds.app import App
from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from allotment.services.check.repository_check import check_repository
from tests.controlplane import bed, debian, images, internet, node, processes, simulated
from tests.controlplane.client import Object
from tests.controlplane.cluster import PROJECT
from tests.controlplane.cluster import place as cluster_place
from tests.controlplane.fixtures import Node, a_real_node
from tests.controlplane.gitea import Gitea
from tests.e2e.cloud import Cloud
from tests.e2e.conftest import a_cloud
from tests.e2e.node import pods
from tests.e2e.node.traces import traces

TENANT = "atelier"
SPACE = f"t-{TENANT}"
POOL = "l4-ts4"  # whose node the real one stands for
OTHERS = (
    "clusters/us-1",
    *(
        f"tenants/{name}"
        for name in ("acme-robotics", "film-house", "ml-orbit", "northlight", "studio-kite", "uni-lab")
    ),
    *(
        f"clusters/eu-1/stocks/{name}.yaml"
        for name in ("a100-1g", "a100-3g", "l4-half-film", "l4-whole", "l4-whole-kite")
    ),
    *(f"tenants/solo-ada/{name}" for name in ("instances", "storages")),
)
SLIVER = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUSpec
metadata:
  name: l4-sliver
spec:
  displayName: A quarter of an L4, beside little of a machine
  gpu: {model: nvidia-l4, count: 1, memory: 24Gi, cudaCores: 7424}
  cpu: 1
  memory: 256Mi
  disk: 1Gi
  ephemeralStorage: 128Mi
  sharing: {timeSlicing: {replicas: 4}}
  tenancy: Multi
  prices: [{from: "2026-01-01", perHour: "0.10"}]
"""
STOCK = """\
apiVersion: allotment.dev/v1alpha1
kind: Stock
metadata:
  name: l4-sliver
spec: {gpuSpec: l4-sliver, nodePool: l4-ts4, count: 16, warm: 0}
"""
EDITS = (
    (
        "clusters/eu-1/stocks/l4-quarter.yaml",
        "nodePool: l4-ts4\n  count: 40\n  warm: 6",
        "nodePool: l4-ts4\n  count: 16\n  warm: 2",
    ),
    ("platform/apps/lora-trainer.yaml", "shmSize: 16Gi", "shmSize: 8Gi"),
)
OURS = """\
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata: {name: atelier}
spec: {displayName: Atelier, plan: enterprise}
"""
MEMBERS = """\
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata: {name: atelier}
spec: {groups: [{name: atelier-makers, role: Admin}]}
"""
MORE = {
    "platform/specs/l4-sliver.yaml": SLIVER,
    "clusters/eu-1/stocks/l4-sliver.yaml": STOCK,
    f"tenants/{TENANT}/tenant.yaml": OURS,
    f"tenants/{TENANT}/members.yaml": MEMBERS,
}
# What an app's image does here: it answers HTTP on its port with its own name, also at what its probe asks for, shows its volumes,
# and ends when it is asked to.
ANSWERS = (
    "trap exit TERM; mkdir -p /tmp/www; cd /tmp/www; ln -sf /workspace .; echo {name} > index.html; test -e ./{probe} || echo well > ./{probe};"
    " httpd -f -p {port} -h /tmp/www & wait"
)


def app_images() -> dict[str, images.Image]:
    """Return for each version of each App of the sample an image under its declared name that answers on its first port."""
    images_by_name = {}
    for name, app in (
        check_repository(FolderSource(PROJECT), datetime.date.today()).catalog.platform.of_kind(App).items()
    ):
        for version in app.model.spec.versions:
            container = version.container
            probe_path = container.probe.http_get.path if container.probe and container.probe.http_get else "/"
            port = container.ports[0].container_port
            script = ANSWERS.format(name=f"{name} {version.version}", port=port, probe=probe_path.lstrip("/"))
            images_by_name[container.image] = images.busybox("/bin/sh", "-c", script, "app")
    return images_by_name


@pytest.fixture(scope="package")
def real_node() -> Iterator[Node]:
    """Return a cluster with a node that runs containers; it ends with the last of these tests, and leaves nothing behind."""
    current_node, link, folder = None, None, node.folder(cluster_place("eu-1", real=True))
    before = None if node.why_not() or debian.missing() else traces(folder)
    for current_node in a_real_node():
        yield current_node
        link = current_node.world.link  # of its last boot
    if current_node is not None and not processes.running(folder):
        assert traces(folder, link) == before


@pytest.fixture(scope="package")
def real_cloud(
    real_node: Node, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """Return a cloud of one cluster, published, reported as it changes, and synced; its GPU node runs containers."""
    gitea: Gitea = request.getfixturevalue("gitea")  # not before it is known whether there can be a node
    cluster = real_node.cluster
    pools = simulated.declared(PROJECT, "eu-1").of_kind(NodePool)
    node.pose(cluster, pools[POOL].model)
    preparing = images.python(internet.authority(real_node.world))
    pause = images.busybox("/bin/sleep", "infinity")
    node.take_in(real_node.world, {**app_images(), names.PREPARE_IMAGE: preparing, names.PAUSE_IMAGE: pause})
    folder = tmp_path_factory.mktemp("cloud")
    argocd = bed.argocd_of(cluster)
    with a_cloud({"eu-1": cluster}, argocd, gitea, folder, edits=EDITS, left_out=OTHERS, declared=MORE) as shared_cloud:
        yield shared_cloud


def declare_all(cloud: Cloud, declared: Mapping[str, str]) -> None:
    """Write declarations of the tenant of these tests, by path, and wait until they are published."""
    for path, text in declared.items():
        cloud.declare(path, text)
    command = [sys.executable, "-m", "allotment", "validate", "--repo", str(cloud.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cloud.merged()


def only_pod(cloud: Cloud, name: str) -> Object:
    """Return the one pod that an instance has."""
    (pod,) = cloud.clusters["eu-1"].client.list("v1", "Pod", SPACE, f"{names.INSTANCE}={name}")
    return pod


def in_pod(cloud: Cloud, pod: Object, *command: str) -> str:
    """Return what a command says in a pod's container."""
    return pods.run_command(cloud.clusters["eu-1"], pod, *command)
