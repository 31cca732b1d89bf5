"""Render the network policies for declared traffic between a tenant's namespace and others: shared storages, buckets.

If a tenant copies a shared storage of another tenant, each of the two tenants has a policy in its own namespace. The
copy needs both policies. If a declaration is removed, its policy is removed too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage, Reader
from allotment.manifests import names
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import find_cluster_storage, foreign_source, is_bucket, is_prepared

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def render(
    catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations, runtime_state: RuntimeState
) -> list[dict[str, Any]]:
    """Return a tenant's policies in a cluster. The policy of a shared storage appears once the storage is prepared."""
    return render_declared(catalog, cluster, tenant, lambda storage: is_prepared(tenant, runtime_state, storage))


def render_declared(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    is_open: Callable[[str], bool] = lambda _: True,
) -> list[dict[str, Any]]:
    """Return the policies for a tenant's declarations; for a shared storage, only if `is_open` returns True for it."""
    policies = []
    for declaration in tenant.of_kind(GPUStorage).values():
        storage = declaration.model
        if storage.spec.cluster != cluster.name:
            continue
        if storage.spec.shared_with and is_open(storage.name):
            policies.append(_build_share_policy(tenant.name, storage))
        if source := foreign_source(storage, tenant.name):
            policies.append(_build_read_policy(tenant.name, storage.name, str(source.tenant), source.name))
    return policies + _build_bucket_policies(catalog, cluster, tenant)


def _build_policy(tenant: str, name: str, pods: dict[str, str], **rules: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "namespace": names.namespace(tenant),
            "labels": names.labels(tenant=tenant),
            "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
        },
        "spec": {"podSelector": {"matchLabels": pods}, **rules},
    }


def _files_selector(storage: str) -> dict[str, str]:
    return {names.STORAGE: storage, names.ROLE: names.FILES_ROLE}


FILES_PORTS = [{"protocol": "TCP", "port": names.FILES_PORT}]


def _build_share_policy(tenant: str, storage: GPUStorage) -> dict[str, Any]:
    copies = {"podSelector": {"matchLabels": {names.ROLE: names.COPY_ROLE}}}
    readers = sorted(storage.spec.shared_with, key=lambda reader: reader.tenant or "")
    sources = [{"namespaceSelector": _build_reader_peer(reader), **copies} for reader in readers]
    rules = [{"from": sources, "ports": FILES_PORTS}]
    return _build_policy(
        tenant, f"share--{storage.name}", _files_selector(storage.name), policyTypes=["Ingress"], ingress=rules
    )


def _build_reader_peer(reader: Reader) -> dict[str, Any]:
    if reader.tenant is None:
        return {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}
    return {"matchLabels": {NAMESPACE_NAME: names.namespace(reader.tenant)}}


def _build_read_policy(tenant: str, storage: str, owner: str, source: str) -> dict[str, Any]:
    copies = {names.STORAGE: storage, names.ROLE: names.COPY_ROLE}
    target = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: names.namespace(owner)}},
        "podSelector": {"matchLabels": _files_selector(source)},
    }
    rules = [{"to": [target], "ports": FILES_PORTS}]
    return _build_policy(tenant, f"read--{storage}", copies, policyTypes=["Egress"], egress=rules)


def _build_bucket_policies(
    catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations
) -> list[dict[str, Any]]:
    """Return a policy for each instance with buckets in an in-cluster object store. It admits traffic to the store."""
    policies = []
    for instance in tenant.of_kind(GPUInstance).values():
        used = [tenant.of_kind(GPUStorage)[use.name].model for use in instance.model.spec.buckets]
        stores = sorted(
            {
                entry.object_store.namespace
                for bucket in used
                if instance.model.spec.cluster == cluster.name and is_bucket(catalog, bucket)
                if (entry := find_cluster_storage(catalog, bucket)) is not None
                and entry.object_store is not None
                and entry.object_store.namespace is not None
            }
        )
        if stores:
            to = [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: store}}} for store in stores]
            policy = f"buckets--{instance.model.name}"
            pods = {names.INSTANCE: instance.model.name}
            policies.append(_build_policy(tenant.name, policy, pods, policyTypes=["Egress"], egress=[{"to": to}]))
    return policies
