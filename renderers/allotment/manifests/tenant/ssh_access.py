"""Render the SSH access to a tenant's instances.

These are a ConfigMap, in which the SSH gateway (`allot ssh-gateway`) looks up keys and instances at each login, and a
RoleBinding, which lets the gateway start programs in the pods of this namespace. A namespace without an instance that
declares `access: [SSH]` has neither, so the gateway has no access to it.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.tenant import Tenant
from allotment.manifests import names
from allotment.manifests.yaml_text import Frozen

INSTANCES, KEYS, ADDRESSES = "instances", "authorized_keys", "allowed_cidrs"
_ROLE_REF = Frozen(apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name=names.SSH_GATEWAY_ROLE)
_SUBJECT = Frozen(kind="ServiceAccount", name=names.SSH_GATEWAY, namespace=names.SYSTEM_NAMESPACE)


def render(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the ConfigMap and the RoleBinding of a tenant in a cluster; empty if no instance there declares SSH."""
    data = build_data(cluster, tenant)
    if not data:
        return []
    metadata = {
        "name": names.SSH_GATEWAY,
        "namespace": names.namespace(tenant.name),
        "labels": Frozen(names.labels(tenant=tenant.name)),
        "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": _ROLE_REF,
            "subjects": [_SUBJECT],
        },
    ]


def build_data(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> dict[str, str]:
    """Return the data of the ConfigMap; empty if no instance of the tenant in the cluster declares SSH.

    Each value has a line for each item. A line of KEYS has the type of a key, the key, and the name of its owner, as in a
    file `authorized_keys`. If the tenant declares address ranges, ADDRESSES has them.
    """
    place = cluster.get_singleton(Cluster)
    instances = [
        instance.model.name
        for instance in tenant.of_kind(GPUInstance).values()
        if instance.model.spec.cluster == cluster.name and "SSH" in instance.model.spec.access
    ]
    if not instances or place is None or place.model.spec.ssh is None:
        return {}
    declared = tenant.get_singleton(Tenant)
    data = {KEYS: _join_lines(_list_keys(tenant)), INSTANCES: _join_lines(sorted(instances))}
    if declared is not None and declared.model.spec.allowed_cidrs:
        data[ADDRESSES] = _join_lines(sorted(set(declared.model.spec.allowed_cidrs)))
    return data


def _list_keys(tenant: ScopeDeclarations) -> list[str]:
    members = tenant.get_singleton(Members)
    users = members.model.spec.ssh_users if members is not None else []
    return sorted(" ".join([*key.split()[:2], user.name]) for user in users for key in user.ssh_keys)


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
