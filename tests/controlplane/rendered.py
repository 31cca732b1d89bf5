"""A rendered tree on a cluster: applied in the order in which Argo CD gets to it, and cleared away again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import yaml

from allotment.manifests.names import ARGO_NAMESPACE, MANAGED_BY, PROGRAM_NAME
from tests.controlplane.argocd import ARGO
from tests.controlplane.client import Client, Object
from tests.support.waiting import eventually

# Namespaces first, and what admits pods before the pods.
ORDER = (
    "platform/cluster/namespaces.rendered.yaml",
    "platform/cluster/managed-gateway.rendered.yaml",  # its namespace has other files' objects
    "platform/cluster/admission.rendered.yaml",
    "platform/cluster",
    "platform/add-ons",
    "platform/node-pools",
    "control/namespaces",
    "platform/stock",
    "tenants",
    "control",
)
OURS = f"{MANAGED_BY}={PROGRAM_NAME}"
ADMISSION = "admissionregistration.k8s.io/v1"
PROTECTING_KINDS = (
    (ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (ADMISSION, "ValidatingAdmissionPolicy"),
)
GATEWAY_CLASS = ("gateway.networking.k8s.io/v1", "GatewayClass")
LABELLED_KINDS = (
    ("v1", "ConfigMap"),  # markers in Argo CD's namespace, of folders that the next repository may not have
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    GATEWAY_CLASS,
    ("v1", "Namespace"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("resource.k8s.io/v1", "DeviceClass"),
)
# What a namespace's end would wait for: the controller that ends it looks again after 8 seconds where a finalizer is left, after 16
# where a pod ends.
ENDING_KINDS = (
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("v1", "PersistentVolumeClaim"),
)
SPREAD_KINDS = (
    ("gateway.networking.k8s.io/v1", "ReferenceGrant"),
    ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy"),
    ("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy"),
    ("gateway.envoyproxy.io/v1alpha1", "HTTPRouteFilter"),
    ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
)


def objects(tree: Path, *parts: str) -> Iterator[Object]:
    """Yield the objects of a cluster's tree, or of some of its paths, in the order that applying needs."""
    files = [file for file in sorted(tree.rglob("*.yaml")) if not parts or _within(file, tree, parts)]
    for file in sorted(files, key=lambda file: next(i for i, part in enumerate(ORDER) if _within(file, tree, [part]))):
        yield from yaml.load_all(file.read_bytes(), yaml.CSafeLoader)


def _within(file: Path, tree: Path, parts: Iterable[str]) -> bool:
    return any(file.is_relative_to(tree / part) for part in parts)


def clear(*clients: Client) -> None:
    """Remove everything that Allotment rendered from clusters, and wait until it is gone.

    First what protects it, then Applications without their finalizer: with it Argo CD would have to look at their source. A
    namespace stays for five seconds at least, so those of all clusters end at the same time.
    """
    for client in clients:
        _delete(client)
    for client in clients:
        eventually(partial(_no_namespaces, client), "tenants' namespaces to be gone", 900)
        eventually(partial(_nothing_labelled, client), "objects outside namespaces to be gone", 120)
        for volume in client.list("v1", "PersistentVolume"):
            if volume["status"].get("phase") == "Released":
                client.delete("v1", "PersistentVolume", volume["metadata"]["name"])


def _delete(client: Client) -> None:
    eventually(partial(_without_applications, client), "Applications to be gone", 300)
    for project in client.metadata(ARGO, "AppProject", labels=OURS):
        client.delete(ARGO, "AppProject", project["metadata"]["name"], project["metadata"]["namespace"])
    spaces = {namespace["metadata"]["name"] for namespace in client.metadata("v1", "Namespace", labels=OURS)}
    for api_version, kind in (*PROTECTING_KINDS, *ENDING_KINDS, *SPREAD_KINDS):
        for live_object in client.metadata(api_version, kind):
            labels, space = live_object["metadata"].get("labels", {}), live_object["metadata"].get("namespace")
            if labels.get(MANAGED_BY) == PROGRAM_NAME or space in spaces:  # a test may have put its own beside ours
                eventually(partial(_deleted, client, live_object), f"{kind} to be deleted")
    eventually(partial(_nothing_ends, client), "pods and claims to be gone", 600)
    for api_version, kind in LABELLED_KINDS:
        for live_object in client.metadata(api_version, kind, labels=OURS):
            eventually(partial(_deleted, client, live_object), f"{kind} to be deleted")


def _nothing_labelled(client: Client) -> bool:
    """Return True once no object of LABELLED_KINDS is left. Raises AssertionError that names those left.

    Envoy Gateway puts a finalizer on its GatewayClass, and may have ended before it could remove it.
    """
    for gateway_class in client.metadata(*GATEWAY_CLASS, labels=OURS):
        if gateway_class["metadata"].get("finalizers"):
            client.patch(*GATEWAY_CLASS, gateway_class["metadata"]["name"], {"metadata": {"finalizers": None}})
    remaining_objects = [
        f"{kind} {live_object['metadata']['name']}"
        for api_version, kind in LABELLED_KINDS
        for live_object in client.metadata(api_version, kind, labels=OURS)
    ]
    assert not remaining_objects, remaining_objects
    return True


def _no_namespaces(client: Client) -> bool:
    """Return True once no namespace of ours is left. Raises AssertionError that says what the others wait for."""
    remaining_objects = {
        namespace["metadata"]["name"]: [
            condition["message"]
            for condition in namespace["status"].get("conditions", ())
            if condition["status"] == "True"
        ]
        for namespace in client.list("v1", "Namespace", labels=OURS)
    }
    assert not remaining_objects, remaining_objects
    return True


def _without_applications(client: Client) -> bool:
    """Delete Applications, roots first; one that was just syncing may bring back another, so this is tried again."""
    applications = client.list(ARGO, "Application", ARGO_NAMESPACE, OURS)
    for application in sorted(
        applications, key=lambda application: not application["metadata"]["name"].startswith("allotment--")
    ):
        name = application["metadata"]["name"]
        if application["metadata"].get("finalizers"):
            client.patch(ARGO, "Application", name, {"metadata": {"finalizers": None}}, ARGO_NAMESPACE)
        client.delete(ARGO, "Application", name, ARGO_NAMESPACE)
    return not applications


def _deleted(client: Client, live_object: Object) -> bool:
    """A policy still guards for a moment after its binding is gone: then this raises, and is tried again."""
    client.delete(
        live_object["apiVersion"],
        live_object["kind"],
        live_object["metadata"]["name"],
        live_object["metadata"].get("namespace"),
    )
    return True


def _nothing_ends(client: Client) -> bool:
    """Return True once no pod and no claim of ours is left. Raises AssertionError that names those left, and why they are."""
    remaining_objects = [
        f"{live_object['kind']} {live_object['metadata'].get('namespace')}/{live_object['metadata']['name']}"
        f" (deleted {live_object['metadata'].get('deletionTimestamp', 'not yet')},"
        f" finalizers {live_object['metadata'].get('finalizers', [])})"
        for kind in ("Pod", "PersistentVolumeClaim")
        for live_object in client.metadata("v1", kind, labels=OURS)
    ]
    assert not remaining_objects, remaining_objects
    return True
