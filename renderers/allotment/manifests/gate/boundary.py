"""Where a cluster's declaration lets things lie: what the gate compares with."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, NamedTuple

from allotment.declared.addresses import lies_in
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.stock import Stock
from allotment.manifests import names, pods
from allotment.manifests.gate.patterns import OneOf
from allotment.programs import ranges


class Boundary(NamedTuple):
    """What a cluster's declaration says about where things may lie.

    `values` has what stands in patterns under a name, as far as it is the same for all tenants; `folder` and
    `offers` are what the cluster and the platform declare.
    """

    cluster: str
    domain: str
    gateway: tuple[str, str]
    secret_namespace: str
    values: Mapping[str, Any]
    folder: Folder
    offers: Offers

    @staticmethod
    def of(offers: Offers, cluster: Folder) -> Boundary:
        """Return a declared cluster's boundary."""
        declared, platform = cluster.one(Cluster), offers.platform.one(Platform)
        assert declared is not None and platform is not None
        spec = declared.model.spec
        return Boundary(
            cluster=cluster.name,
            domain=spec.domain,
            gateway=(spec.gateway.namespace, spec.gateway.name),
            secret_namespace=spec.oidc.client_secret_ref.namespace,
            values={**_of_cluster(cluster.name, spec), **_of_storage_pods(cluster), **_of_platform(platform.model)},
            folder=cluster,
            offers=offers,
        )

    @property
    def reserved(self) -> frozenset[str]:
        """The tenants that have stocks of their own in the cluster: their instances' nodes aren't everybody's."""
        return frozenset(stock.model.spec.tenant for stock in self.folder.of(Stock).values() if stock.model.spec.tenant)

    @property
    def destination(self) -> dict[str, str]:
        """The cluster, as Argo CD's destinations name it."""
        return dict(self.values["destination"])


def _of_cluster(name: str, spec: ClusterSpec) -> dict[str, Any]:
    target, oidc = spec.destination, spec.oidc
    place = {"name": target.name} if target.name is not None else {"server": str(target.server)}
    return {
        "cluster": name,
        "domain": spec.domain,
        "destination": place,
        "destination-anywhere": {**place, "namespace": "*"},
        "gateway": spec.gateway.name,
        "gateway-namespace": spec.gateway.namespace,
        "gateway-section": spec.gateway.section_name,
        "issuer": oidc.issuer,
        "client-id": oidc.client_id,
        "secret-name": oidc.client_secret_ref.name,
        "secret-namespace": oidc.client_secret_ref.namespace,
        "keys": oidc.jwks_uri or f"{oidc.issuer.rstrip('/')}/.well-known/jwks.json",
        "denied-ipv4": _denied(ranges.IPV4, spec),
        "denied-ipv6": _denied(ranges.IPV6, spec),
        "disk-class": spec.disk_storage_class_name,
        "a-storage-class": OneOf(storage.storage_class_name for storage in spec.storages),
        "a-snapshot-class": OneOf(storage.volume_snapshot_class_name for storage in spec.storages),
    }


def _of_storage_pods(cluster: Folder) -> dict[str, Any]:
    """Return the allowed nodes, tolerations and environment of preparation Jobs and file accessors.

    They run on the nodes of pools with storagePods, or on nodes without GPUs if there is no such pool.
    """
    pools = pods.storage_pools(cluster)
    if not pools:
        term = {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}
        nodes: Any = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        }
        return {"storage-nodes": nodes, **dict.fromkeys(("storage-tolerations", "accessor-nodes", "no-gpus"), OneOf())}
    return {
        "storage-nodes": pods.node_affinity(pools),
        "accessor-nodes": pods.node_affinity(pools),
        "storage-tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "no-gpus": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }


def _denied(block: ranges.Block, spec: ClusterSpec) -> list[str]:
    """Return the ranges within a block that no tenant may reach: everybody's, then the cluster's own that aren't
    among them."""
    block_network = ip_network(block.cidr)
    own = [
        text
        for text in sorted(set(spec.network.denied) - set(block.denied))
        if lies_in(ip_network(text), block_network)
    ]
    return [*block.denied, *own]


def _of_platform(platform: Platform) -> dict[str, Any]:
    spec = platform.spec
    return {
        "repository": spec.git.rendered or spec.git.url,
        "argocd": spec.argocd.url.rstrip("/") if spec.argocd is not None else OneOf(),
        "files-image": spec.images.files if spec.images.files is not None else OneOf(),
        "prepare-image": spec.images.prepare or names.PREPARE_IMAGE,
    }
