"""Derive, from a cluster's declaration, the values with which the gate compares objects."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, NamedTuple

from allotment.declared.addresses import is_subnet
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterSpec, Oidc, SecretStore
from allotment.declared.kinds.gateway import Gateway
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.stock import Stock
from allotment.declared.values import format_duration
from allotment.isolation.patterns import AnyOf
from allotment.manifests import names, pods
from allotment.manifests.cluster.gateway import SESSION_FILTER
from allotment.programs import ranges

_TOKEN_HEADERS = [{"name": "Authorization", "valuePrefix": "Bearer "}]


class Boundary(NamedTuple):
    """The values that a cluster's declaration allows in objects.

    `values` has the values that are the same for all tenants, by the name of the slot in a pattern (`patterns`).
    `cluster_declarations` and `catalog` are the declarations of the cluster and the platform.
    """

    cluster: str
    domain: str
    gateway: tuple[str, str]
    secret_namespace: str
    has_callback_host: bool
    secret_store: SecretStore | None
    values: Mapping[str, Any]
    cluster_declarations: ScopeDeclarations
    catalog: Catalog

    @staticmethod
    def from_declarations(catalog: Catalog, cluster: ScopeDeclarations) -> Boundary:
        """Return the boundary of a declared cluster."""
        declared, platform = cluster.get_singleton(Cluster), catalog.platform.get_singleton(Platform)
        assert declared is not None and platform is not None
        spec = declared.model.spec
        return Boundary(
            cluster=cluster.name,
            domain=spec.domain,
            gateway=(spec.gateway.namespace, spec.gateway.name),
            secret_namespace=spec.oidc.client_secret_ref.namespace,
            has_callback_host=spec.oidc.callback_host is not None,
            secret_store=spec.secret_store,
            values={
                **_cluster_values(cluster.name, spec),
                **_storage_pod_values(cluster),
                **_platform_values(platform.model),
            },
            cluster_declarations=cluster,
            catalog=catalog,
        )

    @property
    def tenants_with_own_stock(self) -> frozenset[str]:
        """Return the tenants with reserved stocks in the cluster.

        The instances of such a tenant may have another node affinity than the instances of other tenants.
        """
        return frozenset(
            stock.model.spec.tenant
            for stock in self.cluster_declarations.of_kind(Stock).values()
            if stock.model.spec.tenant
        )

    @property
    def destination(self) -> dict[str, str]:
        """Return the cluster, as Argo CD's destinations name it."""
        return dict(self.values["destination"])


def _cluster_values(name: str, spec: ClusterSpec) -> dict[str, Any]:
    target, oidc = spec.destination, spec.oidc
    place = {"name": target.name} if target.name is not None else {"server": str(target.server)}
    return {
        "cluster": name,
        "domain": spec.domain,
        "destination": place,
        "destination-anywhere": {**place, "namespace": "*"},
        "gateway": spec.gateway.name,
        "gateway-namespace": spec.gateway.namespace,
        "proxy-namespace": spec.gateway.effective_proxy_namespace,
        "session-filter": SESSION_FILTER,  # the gate takes this text from the renderer, so only tests check the text
        "gateway-section": spec.gateway.section_name,
        "request-timeout": format_duration(spec.gateway.timeouts.request or 0),
        "limits": _limits(spec.gateway),
        "issuer": oidc.issuer,
        "callback-host": oidc.callback_host or AnyOf(),
        "merge-type": "StrategicMerge" if oidc.callback_host is not None else AnyOf(),
        "oidc-provider": _oidc_provider(spec),
        "scopes": list(dict.fromkeys(["openid", *oidc.scopes])),
        "client-id": oidc.client_id,
        "audiences": [oidc.client_id, *([oidc.cli_client_id] if oidc.cli_client_id is not None else [])],
        **_program_values(oidc),
        "secret-name": oidc.client_secret_ref.name,
        "secret-namespace": oidc.client_secret_ref.namespace,
        "keys": oidc.jwks_uri or f"{oidc.issuer.rstrip('/')}/.well-known/jwks.json",
        "dns-peers": _dns_peers(spec),
        "denied-ipv4": _denied_ranges(ranges.IPV4, spec),
        "denied-ipv6": _denied_ranges(ranges.IPV6, spec),
        "disk-class": spec.disk_storage_class_name,
        "ssh-host": spec.ssh.host if spec.ssh is not None else AnyOf(),
        "ssh-port": f"-p {spec.ssh.port} " if spec.ssh is not None and spec.ssh.port != 22 else "",
        "secret-store": spec.secret_store.name if spec.secret_store is not None else AnyOf(),
        "secret-kind": "ExternalSecret" if spec.secret_store is not None else AnyOf(),
        "secret-prefix": spec.secret_store.prefix if spec.secret_store is not None else AnyOf(),
        **_image_pull_values(spec.secret_store),
        "a-storage-class": AnyOf(storage.storage_class_name for storage in spec.storages),
        "a-snapshot-class": AnyOf(storage.volume_snapshot_class_name for storage in spec.storages),
    }


def _image_pull_values(store: SecretStore | None) -> dict[str, Any]:
    """Return the place of the platform's pull credential; values that equal nothing if the cluster declares none."""
    place = store.image_pull if store is not None else None
    if place is None:
        return dict.fromkeys(("image-pull-path", "image-pull-property", "image-pull-reference"), AnyOf())
    reference = {
        "key": place.path,
        "conversionStrategy": "Default",
        "decodingStrategy": "None",
        "metadataPolicy": "None",
    }
    if place.property_ is not None:
        reference["property"] = place.property_
    return {
        "image-pull-path": place.path,
        "image-pull-property": place.property_ or "",
        "image-pull-reference": reference,
    }


def _program_values(oidc: Oidc) -> dict[str, Any]:
    """Return the values of fields that admit programs with a token; values that equal nothing if the cluster admits none."""
    if oidc.cli_client_id is None:
        return dict.fromkeys(("pass-through", "token-headers", "listener-jwt", "route-filters"), AnyOf())
    provider = {
        "name": "login",
        "issuer": oidc.issuer,
        "audiences": [oidc.client_id, oidc.cli_client_id],
        "remoteJWKS": {"uri": oidc.effective_jwks_uri, "cacheDuration": "300s"},
        "extractFrom": {"cookies": ["allotment-id-token"], "headers": _TOKEN_HEADERS},
    }
    return {
        "pass-through": True,
        "token-headers": _TOKEN_HEADERS,
        "listener-jwt": {"providers": [provider]},
        "route-filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Authorization"]}}],
    }


def _limits(gateway: Gateway) -> Any:
    """Return the spec of the policy that limits requests; if no limit is declared, a value that equals no spec."""
    target = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": gateway.name,
        "sectionName": gateway.section_name,
    }
    limits: dict[str, Any] = {}
    if gateway.timeouts.idle:
        limits["timeout"] = {"http": {"streamIdleTimeout": format_duration(gateway.timeouts.idle)}}
    if gateway.requests_per_second:
        rule = {"limit": {"requests": gateway.requests_per_second, "unit": "Second"}}
        limits["rateLimit"] = {"local": {"rules": [rule]}}
    return {"targetRefs": [target], **limits} if limits else AnyOf()


def _oidc_provider(spec: ClusterSpec) -> dict[str, str]:
    """Return the provider of a login, with its endpoints if they are declared."""
    endpoints = spec.oidc.endpoints
    if endpoints is None:
        return {"issuer": spec.oidc.issuer}
    declared = {
        "issuer": spec.oidc.issuer,
        "authorizationEndpoint": endpoints.authorization,
        "tokenEndpoint": endpoints.token,
        "endSessionEndpoint": endpoints.end_session,
    }
    return {name: url for name, url in declared.items() if url is not None}


def _dns_peers(spec: ClusterSpec) -> list[dict[str, Any]]:
    """Return the peers for DNS queries: the pods of kube-dns, and the declared address of NodeLocal DNSCache."""
    cluster_dns = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    address = spec.network.node_local_dns
    if address is None:
        return [cluster_dns]
    return [cluster_dns, {"ipBlock": {"cidr": f"{address}/{'128' if ':' in address else '32'}"}}]


def _storage_pod_values(cluster: ScopeDeclarations) -> dict[str, Any]:
    """Return the allowed nodes, tolerations and environment of the pods of preparation Jobs and file accessors.

    These pods run on the nodes of pools with `storagePods`. If no pool has `storagePods`, they run on nodes without
    GPUs.
    """
    pools = pods.storage_pools(cluster)
    if not pools:
        term = {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}
        nodes: Any = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        }
        return {"storage-nodes": nodes, **dict.fromkeys(("storage-tolerations", "accessor-nodes", "no-gpus"), AnyOf())}
    return {
        "storage-nodes": pods.require_pools(pools),
        "accessor-nodes": pods.require_pools(pools),
        "storage-tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "no-gpus": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }


def _denied_ranges(block: ranges.Block, spec: ClusterSpec) -> list[str]:
    """Return the ranges that no tenant may reach within a block: first the common ranges, then the cluster's own."""
    block_network = ip_network(block.cidr)
    own = [
        text
        for text in sorted(set(spec.network.denied) - set(block.denied))
        if is_subnet(ip_network(text), block_network)
    ]
    return [*block.denied, *own]


def _platform_values(platform: Platform) -> dict[str, Any]:
    spec = platform.spec
    return {
        "repository": spec.git.rendered or spec.git.url,
        "argocd": spec.argocd.url.rstrip("/") if spec.argocd is not None else AnyOf(),
        "files-image": spec.images.files if spec.images.files is not None else AnyOf(),
        "prepare-image": spec.images.prepare or names.PREPARE_IMAGE,
    }
