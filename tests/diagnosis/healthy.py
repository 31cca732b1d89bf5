"""A cluster that is as the sample declares it: what it answers, to be changed by a test, and what is then said."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from typing import Any

import yaml
from tests.conftest import DAY, PROJECT
from tests.controlplane import simulated

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.add_on import AddOn
from allotment.declared.kinds.node_pool import NodePool
from allotment.diagnosis import apis, cluster_snapshot, diagnose_cluster
from allotment.diagnosis.cluster_snapshot import ClusterSnapshot, QueryAnswer, ResourceQuery
from allotment.diagnosis.diagnosis import Diagnosis
from allotment.diagnosis.reporter import list_watched_resources
from allotment.manifests import names
from allotment.manifests.cluster import add_on, bootstrap, control, device_plugin, managed_gateway, node_pool
from allotment.services.check.repository_check import check_repository

Object = dict[str, Any]
NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
KINDS = {
    "Node": cluster_snapshot.NODES,
    "StorageClass": cluster_snapshot.STORAGE_CLASSES,
    "VolumeSnapshotClass": cluster_snapshot.SNAPSHOT_CLASSES,
    "Gateway": cluster_snapshot.GATEWAYS,
    "GatewayClass": cluster_snapshot.GATEWAY_CLASSES,
    "ResourceSlice": cluster_snapshot.RESOURCE_SLICES,
}


def offers_of(root: Any = PROJECT) -> Catalog:
    """Return what a repository offers."""
    return check_repository(FolderSource(root), datetime.date.fromisoformat(DAY)).catalog


def is_true(kind: str, **more: Any) -> Object:
    """Return a condition that holds."""
    return {"type": kind, "status": "True", "reason": kind, "message": "", **more}


class Bed:
    """A cluster's answers. `objects` has those of each kind, `refused` an HTTP status instead."""

    def __init__(self, name: str = "eu-1", catalog: Catalog | None = None) -> None:
        self.catalog = catalog or offers_of()
        self.cluster = self.catalog.clusters[name]
        self.version = {"major": "1", "minor": "36+"}
        self.objects: dict[ResourceQuery, list[Object]] = {kind: [] for kind in cluster_snapshot.ALL_QUERIES}
        self.refused: dict[ResourceQuery, int] = {}
        self.apis = {
            needed_api.api: frozenset(needed_api.resources)
            for needed_api in apis.list_required_apis(self.catalog, self.cluster)
        }
        self.hub_apis: dict[str, frozenset[str]] = self.apis
        managed = managed_gateway.render(self.catalog, self.cluster)
        for manifest in (*simulated.surroundings(self.cluster), *managed):
            if manifest["kind"] in KINDS and manifest["kind"] != "Certificate":
                self.objects[KINDS[manifest["kind"]]].append(copy.deepcopy(manifest))
        self._nodes()
        self._edge()
        self._argocd()
        self._karpenter()

    def _nodes(self) -> None:
        for node in self.objects[cluster_snapshot.NODES]:
            node["status"].update(conditions=[is_true("Ready")], nodeInfo={"kernelVersion": "6.12.41-amd64"})
        for kind, field in (
            (cluster_snapshot.STORAGE_CLASSES, "provisioner"),
            (cluster_snapshot.SNAPSHOT_CLASSES, "driver"),
        ):
            for live_object in self.objects[kind]:
                if "cephfs" in live_object["metadata"]["name"]:
                    live_object[field] = "rook-ceph.cephfs.csi.ceph.com"
        self.objects[cluster_snapshot.PLUGIN_CONFIG] = copy.deepcopy(device_plugin.render(self.cluster))
        rules = [
            {"apiGroups": [group], "resources": [each], "verbs": ["list", "watch"]}
            for group, each in list_watched_resources()
        ]
        self.objects[cluster_snapshot.REPORTER_ROLE] = [{"metadata": {"name": "allotment-reporter"}, "rules": rules}]
        gateway = yaml.safe_load_all((PROJECT / "argo/add-ons/allot-ssh/rbac.yaml").read_text(encoding="utf-8"))
        self.objects[cluster_snapshot.SSH_GATEWAY_ROLE] = [each for each in gateway if each["kind"] == "ClusterRole"]

    def _edge(self) -> None:
        (gateway,), (of,) = self.objects[cluster_snapshot.GATEWAYS], self.objects[cluster_snapshot.GATEWAY_CLASSES]
        conditions = [is_true("Accepted"), is_true("Programmed")]
        listener = {"name": "https", "conditions": [*conditions, is_true("ResolvedRefs")]}
        gateway["status"] = {"conditions": conditions, "listeners": [listener]}
        of["status"] = {"conditions": [is_true("Accepted")]}
        https = gateway["spec"]["listeners"][-1]
        host, (secret,) = https["hostname"], https["tls"]["certificateRefs"]
        self.objects[cluster_snapshot.CERTIFICATES] = [
            {
                "metadata": {"name": "wildcard", "namespace": "edge"},
                "spec": {"secretName": secret["name"], "dnsNames": [host]},
                "status": {"conditions": [is_true("Ready")], "notAfter": "2027-01-21T12:00:00Z"},
            }
        ]
        labels = {f"gateway.envoyproxy.io/owning-gateway-{key}": "edge" for key in ("name", "namespace")}
        pod = {"metadata": {"name": "proxy", "namespace": "edge", "labels": labels}, "spec": {"nodeName": "cpu-1"}}
        self.objects[cluster_snapshot.OTHER_PODS] = [pod]
        ancestors = [{"conditions": [is_true("Accepted")]}]
        login = {"metadata": {"name": "webui", "namespace": "t-solo-ada"}, "spec": {"oidc": {}}}
        self.objects[cluster_snapshot.SECURITY_POLICIES] = [{**login, "status": {"ancestors": ancestors}}]
        policy = {"metadata": {"name": "allotment-sessions", "namespace": "edge"}, "spec": {}}
        self.objects[cluster_snapshot.EXTENSION_POLICIES] = [{**policy, "status": {"ancestors": ancestors}}]

    def _argocd(self) -> None:
        config_maps = {
            manifest["metadata"]["name"]: manifest
            for manifest in bootstrap.render(self.catalog)
            if manifest["kind"] == "ConfigMap"
        }
        for kind in cluster_snapshot.ARGO_CONFIG_MAPS:
            self.objects[kind] = [copy.deepcopy(config_maps[kind.name])]
        root = f"allotment--root--{self.cluster.name}"
        own = control.render_platform(self.catalog, self.cluster)
        applications = [manifest["metadata"]["name"] for manifest in own if manifest["kind"] == "Application"]
        for name in (root, *applications, f"solo-ada--{self.cluster.name}--compute"):
            self._applied({"metadata": {"name": name, "labels": {names.CLUSTER: self.cluster.name}}})
        for declared in self.catalog.platform.of_kind(AddOn).values():
            for manifest in add_on.render(self.catalog, self.cluster, declared, {})[1:]:
                self._applied(copy.deepcopy(manifest))

    def _applied(self, application: Object) -> None:
        status = {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}
        self.objects[cluster_snapshot.APPLICATIONS].append({**application, "status": status})

    def _karpenter(self) -> None:
        for pool in simulated.declared(PROJECT, self.cluster.name).of_kind(NodePool).values():
            for manifest in copy.deepcopy(node_pool.render(self.catalog, self.cluster, pool, {})):
                manifest["status"] = {"conditions": [is_true("Ready")]}
                if manifest["kind"] in ("NodePool", "NodeOverlay"):
                    self.objects[
                        cluster_snapshot.KARPENTER_NODE_POOLS
                        if manifest["kind"] == "NodePool"
                        else cluster_snapshot.NODE_OVERLAYS
                    ].append(manifest)

    def find_object(self, kind: ResourceQuery, name: str) -> Object:
        """Return an object by its name."""
        return next(live_object for live_object in self.objects[kind] if live_object["metadata"]["name"] == name)

    def node(self, name: str) -> Object:
        """Return a node by its name."""
        return self.find_object(cluster_snapshot.NODES, name)

    def answers(self) -> ClusterSnapshot:
        """Return what it answers."""
        answers = {kind: QueryAnswer(tuple(objects)) for kind, objects in self.objects.items()}
        answers |= {kind: QueryAnswer(status=status) for kind, status in self.refused.items()}
        return ClusterSnapshot(self.version, self.apis, self.hub_apis, answers, NOW)

    def diagnosed(self) -> list[Diagnosis]:
        """Return all that is said of it."""
        return diagnose_cluster(self.answers(), self.catalog, self.cluster)

    def report_lines(self, *severities: str) -> list[str]:
        """Return what isn't as it should be, or what is of some severities, as lines."""
        wanted = severities or ("error", "warning", "skipped")
        return [line(diagnosis) for diagnosis in self.diagnosed() if diagnosis.severity in wanted]


def line(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as a line."""
    return f"{diagnosis.severity} [{diagnosis.topic}] {diagnosis.subject}: {diagnosis.message}" + (
        f" -> {diagnosis.advice}" if diagnosis.advice else ""
    )


Change = Callable[[Bed], object]
