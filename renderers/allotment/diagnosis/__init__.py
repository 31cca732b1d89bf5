"""What is wrong with a repository or a cluster: what was read of it → diagnoses, each with what to do.

One module a topic. Nothing here reads anything: `cluster_snapshot.py` says what a cluster is asked for, `adapters/cluster/snapshot_reader.py` asks.
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
    storage,
    storage_nodes,
    version,
)
from allotment.diagnosis.cluster_snapshot import ClusterSnapshot, NotReadable, diagnose_unreadable
from allotment.diagnosis.diagnosis import SEVERITY_ORDER, Diagnosis

ClusterCheck = Callable[[ClusterSnapshot, Catalog, ScopeDeclarations], Iterable[Diagnosis]]

# Topics in the order of how much rests on them, with their checks; what one can't read keeps no other from its work.
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
}


def diagnose_cluster(looked: ClusterSnapshot, offers: Catalog, cluster: ScopeDeclarations) -> list[Diagnosis]:
    """Return what is found about a cluster: problems first, then by topic. What may not be read is an error, so that nothing is
    taken for fine that nobody has seen."""
    diagnoses: list[Diagnosis] = []
    for topic, checks in CHECKS_BY_TOPIC.items():
        for check in checks:
            diagnoses += (
                msgspec.structs.replace(diagnosis, topic=topic)
                for diagnosis in _run_check(check, looked, offers, cluster)
            )
    return sort_by_severity(dict.fromkeys(diagnoses))


def sort_by_severity(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses with problems first; those of one severity stay in their order."""
    return sorted(diagnoses, key=lambda diagnosis: SEVERITY_ORDER.index(diagnosis.severity))


def _run_check(
    check: ClusterCheck, looked: ClusterSnapshot, offers: Catalog, cluster: ScopeDeclarations
) -> Iterator[Diagnosis]:
    try:
        yield from check(looked, offers, cluster)
    except NotReadable as unseen:
        yield diagnose_unreadable(unseen)
