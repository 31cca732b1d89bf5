"""Objects that a person adds to a cluster by hand, and the conditions that report edits."""

from __future__ import annotations

from allotment.observed.status import Condition, Instance, Snapshot, Storage
from tests.controlplane.client import Client, Object
from tests.e2e.cloud import Cloud
from tests.support.cloud_status import status
from tests.support.published import git

POD = "spec.template.spec"
NEVER_MATCHES = [
    {"name": "never", "expression": "false"}
]  # conditions with which an admission policy permits everything
SECONDS = 120  # an edit must last for half a minute


def read_edit_conditions(cloud: Cloud) -> dict[str, Condition]:
    """Return what the status says of edits, by the condition's type and whose it is."""
    names = git(cloud.forge, "ls-tree", "--name-only", "refs/heads/status/eu-1", "tenants/").splitlines()
    edit_conditions: dict[str, Condition] = {}
    for name in names:
        tenant_status = status(cloud, name.removeprefix("tenants/").removesuffix(".yaml"))
        resources: list[Instance | Storage | Snapshot] = [
            *tenant_status.instances,
            *tenant_status.storages,
            *tenant_status.snapshots,
        ]
        for label, conditions in [
            ("", tenant_status.conditions),
            *((each.name, each.conditions) for each in resources),
        ]:
            edit_conditions |= {
                f"{tenant_status.tenant}/{label} {each.type}": each
                for each in conditions
                if each.type in ("AsPublished", "OnlyPublished")
            }
    return edit_conditions


def add_by_hand(client: Client, name: str, space: str) -> tuple[str, ...]:
    """Add a label, a variable and a container to an instance's Deployment; return the fields."""
    (container,) = client.get("apps/v1", "Deployment", name, space)["spec"]["template"]["spec"]["containers"]
    sidecar = {key: container[key] for key in ("image", "securityContext")} | {"name": "sidecar"}
    main = {**container, "env": [*container.get("env", ()), {"name": "EDITED", "value": "yes"}]}
    change = {
        "metadata": {"labels": {"edited": "yes"}},
        "spec": {"template": {"spec": {"containers": [main, sidecar]}}},
    }
    client.patch("apps/v1", "Deployment", name, change, space)
    return "metadata.labels.edited", f"{POD}.containers[main].env[EDITED]", f"{POD}.containers[sidecar]"


def open_policy(space: str) -> Object:
    """Return a NetworkPolicy that opens a namespace to everybody."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "open", "namespace": space},
        "spec": {"podSelector": {}, "ingress": [{}]},
    }


def open_role_binding(space: str) -> Object:
    """Return a RoleBinding that lets every account change the objects of a namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "open", "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}],
    }
