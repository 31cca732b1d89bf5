"""Tenant → network policies that open what crosses its namespace, no wider than declared: shared storages, read
ones, buckets.

Each side opens its own: a copy works where the owner shares and the reader reads. These go when the declaration goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage, Reader
from allotment.manifests import names
from allotment.readiness.sources import foreign_source, is_bucket, is_prepared, placed
from allotment.readiness.standing import Standing

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def render(offers: Offers, cluster: Folder, tenant: Folder, standing: Standing) -> list[dict[str, Any]]:
    """Return a tenant's policies in a cluster. A storage is open once it is prepared."""
    return declared(offers, cluster, tenant, lambda storage: is_prepared(tenant, standing, storage))


def declared(
    offers: Offers, cluster: Folder, tenant: Folder, is_open: Callable[[str], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """Return the policies that a tenant's declarations may come to, of shared storages those that are open."""
    policies = []
    for declaration in tenant.of(GPUStorage).values():
        storage = declaration.model
        if storage.spec.cluster != cluster.name:
            continue
        if storage.spec.shared_with and is_open(storage.name):
            policies.append(_share(tenant.name, storage))
        if source := foreign_source(storage, tenant.name):
            policies.append(_read(tenant.name, storage.name, str(source.tenant), source.name))
    return policies + _buckets(offers, cluster, tenant)


def _policy(tenant: str, name: str, pods: dict[str, str], **rules: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "namespace": names.namespace(tenant),
            "labels": names.labels(tenant=tenant),
            "annotations": {names.SYNC_OPTIONS: names.OUTLIVE},
        },
        "spec": {"podSelector": {"matchLabels": pods}, **rules},
    }


def _files(storage: str) -> dict[str, str]:
    return {names.STORAGE: storage, names.ROLE: names.FILES_ROLE}


PORTS = [{"protocol": "TCP", "port": names.FILES_PORT}]


def _share(tenant: str, storage: GPUStorage) -> dict[str, Any]:
    copies = {"podSelector": {"matchLabels": {names.ROLE: names.COPY_ROLE}}}
    readers = sorted(storage.spec.shared_with, key=lambda reader: reader.tenant or "")
    sources = [{"namespaceSelector": _readers(reader), **copies} for reader in readers]
    rules = [{"from": sources, "ports": PORTS}]
    return _policy(tenant, f"share--{storage.name}", _files(storage.name), policyTypes=["Ingress"], ingress=rules)


def _readers(reader: Reader) -> dict[str, Any]:
    if reader.tenant is None:
        return {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}
    return {"matchLabels": {NAMESPACE_NAME: names.namespace(reader.tenant)}}


def _read(tenant: str, storage: str, owner: str, source: str) -> dict[str, Any]:
    copies = {names.STORAGE: storage, names.ROLE: names.COPY_ROLE}
    target = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: names.namespace(owner)}},
        "podSelector": {"matchLabels": _files(source)},
    }
    rules = [{"to": [target], "ports": PORTS}]
    return _policy(tenant, f"read--{storage}", copies, policyTypes=["Egress"], egress=rules)


def _buckets(offers: Offers, cluster: Folder, tenant: Folder) -> list[dict[str, Any]]:
    """A store that runs in the cluster is reached by the instances that name a bucket there, and by nothing else."""
    policies = []
    for instance in tenant.of(GPUInstance).values():
        used = [tenant.of(GPUStorage)[use.name].model for use in instance.model.spec.buckets]
        stores = sorted(
            {
                entry.object_store.namespace
                for bucket in used
                if instance.model.spec.cluster == cluster.name and is_bucket(offers, bucket)
                if (entry := placed(offers, bucket)) is not None
                and entry.object_store is not None
                and entry.object_store.namespace is not None
            }
        )
        if stores:
            to = [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: store}}} for store in stores]
            policy = f"buckets--{instance.model.name}"
            pods = {names.INSTANCE: instance.model.name}
            policies.append(_policy(tenant.name, policy, pods, policyTypes=["Egress"], egress=[{"to": to}]))
    return policies
