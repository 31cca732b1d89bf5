"""us-1 with pools of shared GPUs: a copy of the sample with what tests declare besides, rendered and applied, and what
of it one asks about: claims, nodes, placeholders, an instance's pods."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from allotment.manifests import names
from tests.conftest import PROJECT, ROOTS
from tests.controlplane import rendered, simulated
from tests.controlplane.client import Client, Object
from tests.support.waiting import eventually

SLICED, MIXED, MPS = "l4-sliced", "a100-mixed", "l4-mps"
TENANT = "ml-orbit"
SPACE = names.namespace(TENANT)
STOCK = names.STOCK_NAMESPACE
KARPENTER = "karpenter.sh/v1"
NODE_CLASS = "karpenter.k8s.aws/v1"
KEPT = "kept-by-hand"  # the node class that the pool of MPS refers to
SPEC = """\
kind: GPUSpec
metadata: {{name: {name}}}
spec:
  gpu: {{model: {model}, count: 1, memory: 24Gi}}
  cpu: {cpu}
  memory: {memory}
  disk: 10Gi
  {more}
  prices: [{{from: "2026-01-01", perHour: "0.01"}}]
"""
SLICE = {"model": "nvidia-l4", "more": "sharing: {timeSlicing: {replicas: 4}}\n  tenancy: Multi"}
SPECS = (
    {"name": "slice", "cpu": 2, "memory": "10Gi", **SLICE},
    {"name": "large-slice", "cpu": 40, "memory": "150Gi", **SLICE},  # one takes a node
    {
        "name": "mps",
        "model": "nvidia-l4",
        "cpu": 2,
        "memory": "10Gi",
        "more": "sharing: {mps: {replicas: 4}}\n  tenancy: Multi",
    },
    *(
        {
            "name": f"mig-{size}",
            "model": "nvidia-a100-80gb",
            "cpu": 3,
            "memory": "30Gi",
            "more": f"sharing: {{mig: {{profile: {of}}}}}",
        }
        for size, of in (("small", "1g.10gb"), ("half", "3g.40gb"))
    ),
)
# Stocks by name: pool and units. None is kept warm unless a test declares it.
STOCKS = {
    "slice": (SLICED, 16),
    "large-slice": (SLICED, 3),
    "mig-small": (MIXED, 16),
    "mig-half": (MIXED, 8),
    "mps": (MPS, 16),
}
INSTANCE = """\
kind: GPUInstance
metadata: {{name: {name}, labels: {{{labels}}}}}
spec:
  cluster: us-1
  gpuSpec: {spec}
  replicas: {copies}
  app: {{name: comfyui, version: "0.6.0"}}
"""


class Growing:
    """A repository, and what it renders to in the cluster us-1."""

    def __init__(self, root: Path, render: Callable[[Path, str], Path], client: Client) -> None:
        self.root = root
        self.client = client
        self._render = render
        self._tree = Path()

    def begin(self) -> None:
        """Copy the sample, declare the pools with what lies on them, and apply the platform and the tenants' namespaces."""
        for folder in ROOTS:
            shutil.copytree(PROJECT / folder, self.root / folder)
        for pool in simulated.POOLS.glob("*.yaml"):
            shutil.copy(pool, self.root / "clusters/us-1/node-pools" / pool.name)
        for spec in SPECS:
            self.declare(f"platform/specs/{spec['name']}.yaml", SPEC.format(**spec))
        for name in STOCKS:
            self.declare_stock(name)
        self.render()
        self.apply("platform", "control/namespaces")
        self.client.apply(self._node_class())
        eventually(lambda: all(map(self._is_ready, (SLICED, MIXED, MPS))), "Karpenter to know the pools")

    def _node_class(self) -> Object:
        """Return the node class that a pool refers to, which isn't rendered: like another pool's, under a name of its own."""
        like = next(
            manifest
            for manifest in rendered.objects(self._tree, "platform/node-pools")
            if manifest["kind"] == "EC2NodeClass"
        )
        labels = {names.MANAGED_BY: "somebody"}
        return {**like, "metadata": {"name": KEPT, "labels": labels}}

    def declare(self, path: str, text: str) -> None:
        """Declare something, in any style: validation takes it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("apiVersion: allotment.dev/v1alpha1\n" + text, encoding="utf-8")

    def declare_stock(self, name: str, warm: int = 0) -> None:
        """Declare a stock, with so many of its units warm."""
        pool, count = STOCKS[name]
        spec = f"{{gpuSpec: {name}, nodePool: {pool}, count: {count}, warm: {warm}}}"
        self.declare(f"clusters/us-1/stocks/{name}.yaml", f"kind: Stock\nmetadata: {{name: {name}}}\nspec: {spec}\n")

    def declare_pool(self, name: str, **more: object) -> None:
        """Declare a pool again, with more in its spec."""
        file = self.root / f"clusters/us-1/node-pools/{name}.yaml"
        declared = yaml.load(file.read_bytes(), yaml.CSafeLoader)
        declared["spec"] |= more
        file.write_text(yaml.safe_dump(declared), encoding="utf-8")

    def render(self) -> None:
        """Render what is declared now."""
        self._tree = self._render(self.root, "us-1")

    def apply(self, *parts: str) -> None:
        """Apply these paths of what was rendered."""
        self.client.apply(*rendered.objects(self._tree, *parts))

    def instance(self, name: str, spec: str, copies: int = 1, labels: str = "") -> None:
        """Declare an instance, and apply what it renders to, as its tenant's Applications do."""
        text = INSTANCE.format(name=name, spec=spec, copies=copies, labels=labels)
        self.declare(f"tenants/{TENANT}/instances/{name}.yaml", text)
        self.render()
        self.apply(
            f"control/namespaces/{TENANT[0]}/{TENANT}.rendered.yaml", f"tenants/{TENANT}/compute/{name}.rendered.yaml"
        )

    def stop(self, name: str) -> None:
        """Stop an instance by hand, as its Deployment is once that is declared, and wait until its pods are gone."""
        self.client.patch("apps/v1", "Deployment", name, {"spec": {"replicas": 0}}, SPACE)
        eventually(lambda: not self.pods_of(name), f"{name} to stop")

    def scale(self, stock: str, count: int) -> None:
        """Set the number of a stock's placeholders."""
        self.client.patch("apps/v1", "Deployment", stock, {"spec": {"replicas": count}}, STOCK)

    def pods_of(self, instance: str) -> list[Object]:
        """Return an instance's pods."""
        return self.client.list("v1", "Pod", SPACE, f"{names.INSTANCE}={instance}")

    def running(self, instance: str) -> Object:
        """Return an instance's only pod once it is Ready."""

        def ready() -> Object | None:
            (pod,) = self.pods_of(instance)
            return pod if condition(pod, "Ready") == "True" else None

        return eventually(ready, f"{instance} to be ready")

    def placeholders(self, stock: str, phase: str = "Running") -> list[Object]:
        """Return a stock's placeholders of a phase."""
        pods = self.client.list("v1", "Pod", STOCK, f"{names.STOCK}={stock}")
        return [
            pod for pod in pods if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
        ]

    def holds(self, **placeholders: int) -> list[Object]:
        """Return placeholders once exactly so many of each stock run; `_` stands for `-`."""

        def is_so() -> list[Object]:
            pods_by_stock = {stock: self.placeholders(stock.replace("_", "-")) for stock in placeholders}
            counts = {stock: len(some) for stock, some in pods_by_stock.items()}
            if counts != placeholders:
                raise AssertionError(counts)
            return [pod for some in pods_by_stock.values() for pod in some]

        return eventually(is_so, f"{placeholders} to run", 90)

    def claims(self, pool: str) -> list[Object]:
        """Return the claims of a pool: what Karpenter bought or is buying for it."""
        return self.client.list(KARPENTER, "NodeClaim", labels=f"karpenter.sh/nodepool={pool}")

    def nodes(self, pool: str) -> dict[str, Object]:
        """Return a pool's nodes by name."""
        return {
            node["metadata"]["name"]: node for node in self.client.list("v1", "Node", labels=f"{names.POOL}={pool}")
        }

    def patch_pool(self, name: str, spec: Object) -> None:
        """Change the spec of Karpenter's pool by hand."""
        self.client.patch(KARPENTER, "NodePool", name, {"spec": spec})

    def give_back(self, *pools: str) -> None:
        """Have no placeholder and no instance in pools, nor a node, and the pools as they are rendered."""
        for stock, (pool, _) in STOCKS.items():
            if pool in pools:
                self.scale(stock, 0)
        for deployment in self.client.list("apps/v1", "Deployment", SPACE):
            self.client.delete("apps/v1", "Deployment", deployment["metadata"]["name"], SPACE)
        eventually(lambda: not self._left_on(pools), f"pods to leave {pools}")
        eventually(lambda: self._no_claims(pools), f"nodes of {pools} to be gone")
        self.apply("platform/node-pools")

    def _no_claims(self, pools: Iterable[str]) -> bool:
        """Delete the claims of pools, also one that Karpenter was just making, and return whether there was none."""
        claims = [claim for pool in pools for claim in self.claims(pool)]
        for claim in claims:
            if "deletionTimestamp" not in claim["metadata"]:
                self.client.delete(KARPENTER, "NodeClaim", claim["metadata"]["name"])
        return not claims

    def _left_on(self, pools: Iterable[str]) -> list[Object]:
        stocks = [stock for stock, (pool, _) in STOCKS.items() if pool in pools]
        pods = [pod for stock in stocks for pod in self.client.list("v1", "Pod", STOCK, f"{names.STOCK}={stock}")]
        return pods + self.client.list("v1", "Pod", SPACE)

    def _is_ready(self, pool: str) -> bool:
        return condition(self.client.get(KARPENTER, "NodePool", pool), "Ready") == "True"


def condition(live_object: Object, name: str) -> str | None:
    """Return the status of an object's condition: "True", "False", "Unknown", or None without it."""
    conditions = live_object.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == name), None)


def amounts(node: Object) -> dict[str, str]:
    """Return what a node has of NVIDIA's."""
    return {name: amount for name, amount in node["status"]["allocatable"].items() if name.startswith("nvidia.com/")}


def events(client: Client, name: str, namespace: str | None = None) -> list[str]:
    """Return what was said about an object: reason and message of each event."""
    live_events = client.list("v1", "Event", namespace)
    return [
        f"{event['reason']}: {event['message']}" for event in live_events if event["involvedObject"].get("name") == name
    ]
