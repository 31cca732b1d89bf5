"""What the published branches say, held against what the clusters have: the one place that reads both, and fails on nothing found.

"Synced" is Argo CD's word for it. What a user gets are the objects, so they are compared by who they are, whoever says what.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from allotment.manifests import names
from tests.controlplane import rendered
from tests.controlplane.argocd import ARGO, NAMESPACE
from tests.controlplane.client import Client, Object
from tests.support.published import files_of, git
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.e2e.cloud import Cloud

# What others make after our objects, with our labels on them.
DERIVED = frozenset("Endpoints EndpointSlice Event NodeClaim Pod ReplicaSet ControllerRevision".split())
OF_THE_HUB = ("control/argo/", "control/add-ons/")


class Identity(NamedTuple):
    """Who an object is: in which cluster, of which group and kind, in which namespace, under which name."""

    cluster: str
    group: str
    kind: str
    namespace: str
    name: str


def identity(cluster: str, manifest: Object) -> Identity:
    """Return who an object is."""
    group = manifest["apiVersion"].rpartition("/")[0]
    return Identity(
        cluster, group, manifest["kind"], manifest["metadata"].get("namespace") or "", manifest["metadata"]["name"]
    )


def list_declared_objects(cloud: Cloud) -> dict[Identity, Object]:
    """Return every object that the published branches of all clusters declare, and what is applied once."""
    hub = cloud.hub
    declared_objects = {identity(hub, manifest): manifest for manifest in _bootstrap(cloud)}
    for cluster in cloud.clusters:
        before = len(declared_objects)
        for path, manifest in published(cloud, cluster):
            at_hub = path.startswith(OF_THE_HUB) or (path.count("/") == 1 and path.startswith("control/"))
            declared_objects[identity(hub if at_hub else cluster, manifest)] = manifest
        assert len(declared_objects) > before, f"rendered/{cluster} declares nothing"
    return declared_objects


def _bootstrap(cloud: Cloud) -> list[Object]:
    key = git(cloud.root, "rev-parse", "HEAD:platform", "HEAD:clusters")
    if key not in _once:
        command = [sys.executable, "-m", "allotment", "bootstrap", "--repo", str(cloud.root)]
        objects = yaml.load_all(subprocess.run(command, capture_output=True, check=True).stdout, yaml.CSafeLoader)
        _once[key] = [
            manifest for manifest in objects if manifest["kind"] != "ConfigMap"
        ]  # Argo CD's own, of which we set keys
    return _once[key]


_once: dict[str, list[Object]] = {}  # what is applied once, by what it is made of


def published(cloud: Cloud, cluster: str) -> list[tuple[str, Object]]:
    """Return path and object of everything that a cluster's branch declares, as we published it."""
    return objects(cloud, f"refs/allotment/published/{cluster}")


def objects(cloud: Cloud, ref: str, *parts: str) -> list[tuple[str, Object]]:
    """Return path and object of everything that the files of a ref say, of all or of these; each text is read once."""
    return _objects_at(cloud.forge, git(cloud.forge, "rev-parse", "--verify", "-q", ref), *parts)


@cache
def _objects_at(repository: Path, commit: str, *parts: str) -> list[tuple[str, Object]]:
    return [
        (path, manifest)
        for path, text in files_of(repository, commit, *parts).items()
        for manifest in _objects_of(text)
    ]


@cache
def _objects_of(text: str) -> list[Object]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def list_live_objects(cloud: Cloud, *, every_kind: bool = False) -> dict[Identity, Object]:
    """Return every object of ours that the clusters have: of the kinds that the branches declare, or of every kind there is."""
    live_objects: dict[Identity, Object] = {}
    for name, cluster in cloud.clusters.items():
        before = len(live_objects)
        # The preferred version of a group may lack a kind that another has, such as NodeOverlay's.
        for api_version, kind in sorted({*_declared_kinds(cloud), *(_kinds(cluster.client) if every_kind else ())}):
            for live_object in _listed(cluster.client, api_version, kind):
                live_objects[identity(name, live_object)] = live_object
        assert len(live_objects) > before, f"{name} has nothing of ours"
    return live_objects


def _declared_kinds(cloud: Cloud) -> set[tuple[str, str]]:
    return {(manifest["apiVersion"], manifest["kind"]) for manifest in list_declared_objects(cloud).values()}


def _kinds(client: Client) -> list[tuple[str, str]]:
    """Return the preferred version of every kind that can be listed."""
    return sorted(kind for kind in client.kinds() if kind[1] not in DERIVED)


def _listed(client: Client, api_version: str, kind: str) -> list[Object]:
    try:
        live_objects = client.metadata(api_version, kind, labels=rendered.OURS)
    except Exception as error:  # a kind that this cluster hasn't got is one of which it has nothing
        if type(error).__name__ in ("ResourceNotFoundError", "NotFoundError"):
            return []
        raise
    return [live_object for live_object in live_objects if not live_object["metadata"].get("ownerReferences")]


def differences(cloud: Cloud, *, every_kind: bool = False) -> list[str]:
    """Return in words what a branch declares and its cluster hasn't got, and the other way round."""
    wanted, live = list_declared_objects(cloud), list_live_objects(cloud, every_kind=every_kind)
    return [
        *(f"missing: {object_identity}" for object_identity in sorted(wanted.keys() - live.keys())),
        *(f"not declared: {object_identity}" for object_identity in sorted(live.keys() - wanted.keys())),
    ]


def same(cloud: Cloud, seconds: float = 300, *, every_kind: bool = False) -> None:
    """Wait until the clusters have exactly what their branches declare."""

    def nothing_differs() -> bool:
        mismatches = differences(cloud, every_kind=every_kind)
        assert not mismatches, (len(mismatches), mismatches[:8])
        return True

    eventually(nothing_differs, "the clusters to have what their branches declare", seconds, pause=1)


def misused_volumes(client: Client) -> list[str]:
    """Return in words the instances' pods that mount a volume which a preparation fills now."""
    filling = {
        (job["metadata"]["namespace"], job["metadata"]["labels"][names.STORAGE]): job["metadata"]["name"]
        for job in client.list("batch/v1", "Job", labels=names.STORAGE)
        if not any(
            condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
            for condition in _conditions(job)
        )
    }
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} mounts {claim}, which {filling[space, claim]} fills"
        for pod in client.list("v1", "Pod", labels=names.INSTANCE)
        if pod["status"].get("phase") in ("Pending", "Running") and pod["spec"].get("nodeName")
        for space in [pod["metadata"]["namespace"]]
        for claim in _claims(pod)
        if (space, claim) in filling
    ]


def _conditions(live_object: Object) -> list[Object]:
    conditions: list[Object] = live_object.get("status", {}).get("conditions") or []
    return conditions


def _claims(pod: Object) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def oversold(client: Client) -> list[str]:
    """Return in words the specs of which instances' pods hold more units than the stocks there have."""
    stocks: Counter[str] = Counter()
    for deployment in client.list("apps/v1", "Deployment", names.STOCK_NAMESPACE):
        stocks[deployment["metadata"]["labels"][names.GPU_SPEC]] += int(
            deployment["metadata"]["annotations"][names.UNITS]
        )
    specs = {
        (deployment["metadata"]["namespace"], deployment["metadata"]["name"]): deployment["metadata"]["labels"][
            names.GPU_SPEC
        ]
        for deployment in client.list("apps/v1", "Deployment", labels=names.INSTANCE)
    }
    held: Counter[str] = Counter()
    for pod in client.list("v1", "Pod", labels=names.INSTANCE):
        key = pod["metadata"]["namespace"], pod["metadata"]["labels"][names.INSTANCE]
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed") and key in specs:
            held[specs[key]] += 1
    assert stocks, "no stock is there"
    return [f"{spec}: {units} of {stocks[spec]} units" for spec, units in held.items() if units > stocks[spec]]


def troubled(cloud: Cloud, expected: Mapping[str, str]) -> list[str]:
    """Return in words the Applications that are OutOfSync, Degraded or Progressing, but those that a test expects so."""
    problems = []
    for application in cloud.argocd.cluster.client.list(ARGO, "Application", NAMESPACE, rendered.OURS):
        status: Any = application.get("status", {})
        name, sync = application["metadata"]["name"], status.get("sync", {}).get("status")
        health = status.get("health", {}).get("status")
        if sync != "Synced" or health not in ("Healthy", "Suspended", expected.get(name, "Healthy")):
            problems.append(f"{name}: {sync}, {health}")
    return problems


def check(cloud: Cloud, *, every_kind: bool = True) -> None:
    """Compare branches and clusters, and look for misused volumes, oversold units and unwell Applications. Raises NotStarted
    where one of them remains."""
    same(cloud, 90, every_kind=every_kind)

    def all_is_well() -> bool:
        wrong = troubled(cloud, cloud.expected)
        for name, cluster in cloud.clusters.items():
            for find in (misused_volumes, oversold):
                wrong += [f"{name}: {words}" for words in partial(find, cluster.client)()]
        assert not wrong, (len(wrong), wrong[:8])
        return True

    eventually(all_is_well, "all to be well", 180, pause=2)
