"""A pool of its own on the real scheduler: two nodes of four GPUs, and what it renders to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from tests.conftest import PROJECT, ROOTS
from tests.controlplane import rendered, simulated
from tests.controlplane.client import Client, Object
from tests.e2e.conftest import Render
from tests.support.waiting import eventually

POOL = "trial"
STOCK = names.STOCK_NAMESPACE
FILES = {
    "clusters/eu-1/node-pools/trial.yaml": """\
kind: NodePool
metadata: {name: trial}
spec:
  node: {gpu: {model: nvidia-l4, count: 4}, cpu: 46, memory: 190Gi}
  static: {nodes: 2, nodeSelector: {pool: trial}}
""",
    "platform/specs/trial-one.yaml": """\
kind: GPUSpec
metadata: {name: trial-one}
spec:
  gpu: {model: nvidia-l4, count: 1, memory: 24Gi}
  cpu: 8
  memory: 32Gi
  disk: 10Gi
  prices: [{from: "2026-01-01", perHour: "0.01"}]
""",
    "platform/specs/trial-four.yaml": """\
kind: GPUSpec
metadata: {name: trial-four}
spec:
  gpu: {model: nvidia-l4, count: 4, memory: 24Gi}
  cpu: 32
  memory: 128Gi
  disk: 10Gi
  prices: [{from: "2026-01-01", perHour: "0.04"}]
""",
    "clusters/eu-1/stocks/trial-one.yaml": """\
kind: Stock
metadata: {name: trial-one}
spec: {gpuSpec: trial-one, nodePool: trial, count: 4}
""",
    "clusters/eu-1/stocks/trial-four.yaml": """\
kind: Stock
metadata: {name: trial-four}
spec: {gpuSpec: trial-four, nodePool: trial, count: 1}
""",
}
INSTANCE = """\
kind: GPUInstance
metadata: {{name: {name}}}
spec:
  state: {state}
  cluster: eu-1
  gpuSpec: {spec}
  app: {{name: comfyui, version: "0.6.0"}}
"""


class Trial:
    """A repository and what it renders to on the cluster, with a pool for this test alone."""

    def __init__(self, root: Path, render: Render, client: Client) -> None:
        self.root = root
        self.render = render
        self.client = client
        self.tree = Path()

    def write(self, path: str, text: str) -> None:
        """Declare something, in any style: validation takes it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("apiVersion: allotment.dev/v1alpha1\n" + text, encoding="utf-8")

    def declare(self, tenant: str, name: str, spec: str, state: str) -> None:
        """Declare an instance and render everything."""
        self.write(f"tenants/{tenant}/instances/{name}.yaml", INSTANCE.format(name=name, spec=spec, state=state))
        self.tree = self.render(self.root, "eu-1")

    def apply_instance(self, tenant: str, name: str) -> None:
        """Apply what one instance renders to, as its Application's sync does."""
        self.client.apply(*rendered.objects(self.tree, f"tenants/{tenant}/compute/{name}.rendered.yaml"))

    def apply_stock(self) -> None:
        """Apply the placeholders, as the stock's Application does."""
        self.client.apply(
            *rendered.objects(self.tree, *(f"platform/stock/trial-{size}.rendered.yaml" for size in ("one", "four")))
        )

    def scale(self, stock: str, count: int) -> None:
        """Set the number of a stock's placeholders by hand, until the next `apply_stock`."""
        self.client.patch("apps/v1", "Deployment", stock, {"spec": {"replicas": count}}, STOCK)

    def pods(self, stock: str) -> dict[str, Object]:
        """Return a stock's placeholders by UID."""
        pods = self.client.list("v1", "Pod", STOCK, f"{names.STOCK}={stock}")
        return {pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}

    def running(self, stock: str) -> set[str]:
        """Return the UIDs of placeholders that hold a node."""
        return {uid for uid, pod in self.pods(stock).items() if pod["status"].get("phase") == "Running"}

    def wait_until_settled(self, ones: int, fours: int) -> None:
        """Wait until exactly so many placeholders hold capacity, and none waits."""

        def is_so() -> bool:
            pods_by_size = {
                size: (self.running(f"trial-{size}"), self.pods(f"trial-{size}")) for size in ("one", "four")
            }
            counts = {size: (len(running), len(pods)) for size, (running, pods) in pods_by_size.items()}
            if counts != {"one": (ones, ones), "four": (fours, fours)}:
                raise AssertionError(counts)
            return True

        eventually(is_so, "placeholders to settle")

    def instance_pods(self, tenant: str, name: str) -> list[Object]:
        """Return an instance's pods."""
        return self.client.list("v1", "Pod", names.namespace(tenant), f"{names.INSTANCE}={name}")

    def runs(self, tenant: str, name: str) -> str | None:
        """Return the UID of an instance's pod that runs."""
        running_pods = [pod for pod in self.instance_pods(tenant, name) if pod["status"].get("phase") == "Running"]
        return running_pods[0]["metadata"]["uid"] if running_pods else None

    def starts(self, tenant: str, name: str, spec: str) -> float:
        """Start an instance and return the seconds until its pod runs, before the stock's own sync."""
        self.declare(tenant, name, spec, "Running")
        started = time.monotonic()
        self.apply_instance(tenant, name)

        def is_running() -> bool:
            if not self.runs(tenant, name):
                raise AssertionError([pod["status"] for pod in self.instance_pods(tenant, name)])
            return True

        eventually(is_running, f"{tenant}/{name} to run", pause=0.1)
        return time.monotonic() - started

    def stops(self, tenant: str, name: str, spec: str) -> None:
        """Stop an instance and wait until its pod is gone."""
        self.declare(tenant, name, spec, "Stopped")
        self.apply_instance(tenant, name)
        eventually(lambda: not self.instance_pods(tenant, name), f"{tenant}/{name} to stop")
        self.apply_stock()


@contextmanager
def trial_pool(root: Path, render: Render, client: Client) -> Iterator[Trial]:
    """Return the pool with its nodes, full of placeholders: four small ones on one node, a large one on the other."""
    for folder in ROOTS:
        shutil.copytree(PROJECT / folder, root / folder)
    stock_trial = Trial(root, render, client)
    for path, text in FILES.items():
        stock_trial.write(path, text)
    stock_trial.declare("ml-orbit", "one", "trial-one", "Stopped")
    pool = simulated.declared(root, "eu-1").of_kind(NodePool)[POOL].model
    nodes = [simulated.gpu_node(f"{POOL}-{number}", pool) for number in (1, 2)]
    for node in nodes:
        client.create(node)
    client.apply(*rendered.objects(stock_trial.tree, "platform/cluster", "control/namespaces"))
    stock_trial.apply_stock()
    stock_trial.wait_until_settled(4, 1)
    yield stock_trial
    rendered.clear(client)  # before the nodes go: pods of a lost node wait long for their end
    for node in nodes:
        client.delete("v1", "Node", node["metadata"]["name"])
