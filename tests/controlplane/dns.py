"""DNS of a cluster with a real node: CoreDNS as a pod there, as every cluster has it."""

from __future__ import annotations

from typing import Any

from tests.controlplane import images, internet, programs
from tests.controlplane.cluster import Cluster
from tests.controlplane.world import ADVERTISED

NAME = "coredns"
NAMESPACE = "kube-system"
ADDRESS = "10.96.0.10"
LABELS = {"k8s-app": "kube-dns"}  # by which network policies know it
IMAGE = "allotment.test/coredns:1"
EMPTY = images.Image({}, ["/coredns", "-conf", "/etc/coredns/Corefile"])  # the program comes by a mount: it is large
RULES = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
COREFILE = f"""
.:53 {{
    errors
    ready
    kubernetes cluster.local
    forward . {internet.NAMESERVER}
    cache 5
}}
"""


def objects(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    """Return what makes a node resolve names for the cluster."""
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    ports = [{"name": name.lower(), "port": 53, "protocol": name} for name in ("UDP", "TCP")]
    named = {"name": NAME, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": RULES},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": role,
            "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"Corefile": COREFILE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE},
            "spec": {"clusterIP": ADDRESS, "selector": LABELS, "ports": ports},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named,
            "spec": {
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": _pod(cluster, node)},
            },
        },
    ]


def _pod(cluster: Cluster, node: str) -> dict[str, Any]:
    """It reaches the API server by the address that it advertises, since kube-proxy may come later."""
    server = {"KUBERNETES_SERVICE_HOST": ADVERTISED, "KUBERNETES_SERVICE_PORT": cluster.server.rpartition(":")[2]}
    program = {"path": str(programs.program(NAME).resolve()), "type": "File"}
    return {
        "nodeName": node,
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "env": [{"name": name, "value": value} for name, value in server.items()],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/coredns"},
                    {"name": "program", "mountPath": "/coredns", "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "program", "hostPath": program},
        ],
    }


def is_ready(cluster: Cluster) -> bool:
    """Return whether names are resolved."""
    status = cluster.client.get("apps/v1", "Deployment", NAME, NAMESPACE).get("status", {})
    return bool(status.get("readyReplicas"))
