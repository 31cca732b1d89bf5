"""Diagnoses a repository or a cluster: finds faults and their remedies in data that other modules have read.

Each topic has a module with checks. A check sends no query: `cluster_snapshot.py` defines the queries to a cluster, and
`adapters/cluster/snapshot_reader.py` sends the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.diagnosis import (
    add_ons,
    apis,
    argocd,
    device_plugin,
    gateway,
    karpenter,
    nodes,
    reporter,
    ssh_gateway,
    storage,
    storage_nodes,
    version,
)
from allotment.diagnosis.cluster_snapshot import ClusterSnapshot, NotReadable, diagnose_unreadable
from allotment.diagnosis.diagnosis import SEVERITY_ORDER, Diagnosis

ClusterCheck = Callable[[ClusterSnapshot, Catalog, ScopeDeclarations], Iterable[Diagnosis]]

# Topics in the order of their importance, with their checks. If a check can't read its data, the other checks still run.
CHECKS_BY_TOPIC: dict[str, tuple[ClusterCheck, ...]] = {
    "kubernetes": (version.check_version,),
    "apis": (apis.check_apis,),
    "storage": (storage.check_classes, storage.check_id_mapping, storage.check_snapshots),
    "gateway": (
        gateway.check_gateway,
        gateway.check_class,
        gateway.check_certificate,
        gateway.check_proxies,
        gateway.check_logins,
        gateway.check_session_filter,
    ),
    "nodes": (
        nodes.check_pools,
        nodes.check_capacity,
        nodes.check_zones,
        nodes.check_unassigned,
        storage_nodes.check_storage_nodes,
    ),
    "device-plugin": (device_plugin.check_config, device_plugin.check_devices, device_plugin.check_slices),
    "karpenter": (karpenter.check_pools, karpenter.check_gates),
    "argocd": (argocd.check_settings, argocd.check_exclusions, argocd.check_applications),
    "add-ons": (add_ons.check_add_ons,),
    "reporter": (reporter.check_reporter_role,),
    "ssh": (ssh_gateway.check_ssh_gateway_role,),
}


def diagnose_cluster(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> list[Diagnosis]:
    """Return the diagnoses of a cluster, problems first, and then by topic.

    If a permission for a check is missing, the diagnosis is an error. A milder diagnosis could make a check that did
    not run look like a success.
    """
    diagnoses: list[Diagnosis] = []
    for topic, checks in CHECKS_BY_TOPIC.items():
        for check in checks:
            diagnoses += (
                msgspec.structs.replace(diagnosis, topic=topic)
                for diagnosis in _run_check(check, snapshot, catalog, cluster)
            )
    return sort_by_severity(dict.fromkeys(diagnoses))


def sort_by_severity(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses with problems first, and keep the order within a severity."""
    return sorted(diagnoses, key=lambda diagnosis: SEVERITY_ORDER.index(diagnosis.severity))


def _run_check(
    check: ClusterCheck, snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations
) -> Iterator[Diagnosis]:
    try:
        yield from check(snapshot, catalog, cluster)
    except NotReadable as unseen:
        yield diagnose_unreadable(unseen)
