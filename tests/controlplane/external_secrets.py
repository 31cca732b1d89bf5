"""External Secrets Operator with its fake store: it writes the Secret of each ExternalSecret from the values of a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.controlplane import processes, programs
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import LOOPBACK
from tests.support.waiting import eventually

NAME = "external-secrets"
API = "external-secrets.io/v1"
# Kinds that the operator watches and Allotment does not render. The others have the CRDs of the version that `crds` pins.
WATCHED = ("external-secrets.io_secretstores", "generators.external-secrets.io_generatorstates")
UNUSED = ("push-secret", "cluster-push-secret", "cluster-external-secret")


def store(name: str, values: Mapping[str, str]) -> Object:
    """Return a ClusterSecretStore that holds these values by path and serves only namespaces of tenants."""
    return {
        "apiVersion": API,
        "kind": "ClusterSecretStore",
        "metadata": {"name": name},
        "spec": {
            "conditions": [
                {"namespaceSelector": {"matchExpressions": [{"key": "allotment.dev/tenant", "operator": "Exists"}]}}
            ],
            "provider": {"fake": {"data": [{"key": key, "value": value} for key, value in values.items()]}},
        },
    }


@contextmanager
def running(cluster: Cluster, first_store: Object) -> Iterator[None]:
    """Run the operator in a cluster with a store. Both end with the context."""
    crds = programs.files(NAME) / "config/crds/bases"
    cluster.client.install(yaml.load((crds / f"{kind}.yaml").read_bytes(), yaml.CSafeLoader) for kind in WATCHED)
    cluster.client.apply(first_store)
    store_name = first_store["metadata"]["name"]
    command: list[str | Path] = [
        programs.program(NAME),
        f"--metrics-addr={LOOPBACK}:{next(processes.free_ports())}",
        "--concurrent=4",
    ]
    command += [f"--enable-{kind}-reconciler=false" for kind in UNUSED]
    try:
        operator = processes.start(cluster.folder, NAME, command, {"KUBECONFIG": str(cluster.kubeconfig)})
        operator.wait_until(lambda: is_ready(cluster, "ClusterSecretStore", store_name), seconds=90)
        yield
    finally:
        processes.stop(cluster.folder, 0, NAME)
        cluster.client.delete(API, "ClusterSecretStore", store_name)


def is_ready(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> bool:
    """Return whether the operator calls an object ready."""
    return ready_condition(cluster, kind, name, namespace).get("status") == "True"


def ready_condition(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> dict[str, str]:
    """Return the condition Ready of an object; an empty one before the operator has written it."""
    conditions = cluster.client.get(API, kind, name, namespace).get("status", {}).get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def force_sync(cluster: Cluster, name: str, namespace: str, mark: str) -> None:
    """Let the operator read an ExternalSecret's values now. It does so when an annotation changes."""
    change = {"metadata": {"annotations": {"force-sync": mark}}}
    eventually(lambda: cluster.client.patch(API, "ExternalSecret", name, change, namespace), f"{name} to be annotated")
