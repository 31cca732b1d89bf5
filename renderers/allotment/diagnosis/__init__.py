"""What is wrong with a repository or a cluster: what was read of it → diagnoses, each with what to do.

One module a topic. Nothing here reads anything: `looked.py` says what a cluster is asked for, `adapters/cluster/looking.py` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from allotment.declared.inventory import Folder, Offers
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
from allotment.diagnosis.diagnosis import ORDER, Diagnosis
from allotment.diagnosis.looked import Looked, Unseen, diagnosis_of

Check = Callable[[Looked, Offers, Folder], Iterable[Diagnosis]]

# Topics in the order of how much rests on them, with their checks; what one can't read keeps no other from its work.
TOPICS: dict[str, tuple[Check, ...]] = {
    "kubernetes": (version.check,),
    "apis": (apis.check,),
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
        nodes.check_room,
        nodes.check_zones,
        nodes.check_strays,
        storage_nodes.check_storage_nodes,
    ),
    "device-plugin": (device_plugin.check_config, device_plugin.check_devices, device_plugin.check_slices),
    "karpenter": (karpenter.check_pools, karpenter.check_gates),
    "argocd": (argocd.check_settings, argocd.check_exclusions, argocd.check_applications),
    "add-ons": (add_ons.check,),
    "reporter": (reporter.check,),
}


def diagnose(looked: Looked, offers: Offers, cluster: Folder) -> list[Diagnosis]:
    """Return what is found about a cluster: problems first, then by topic. What may not be read is an error, so that nothing is
    taken for fine that nobody has seen."""
    diagnoses: list[Diagnosis] = []
    for topic, checks in TOPICS.items():
        for check in checks:
            diagnoses += (diagnosis._replace(topic=topic) for diagnosis in _of(check, looked, offers, cluster))
    return ranked(dict.fromkeys(diagnoses))


def ranked(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses with problems first; those of one severity stay in their order."""
    return sorted(diagnoses, key=lambda diagnosis: ORDER.index(diagnosis.severity))


def _of(check: Check, looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    try:
        yield from check(looked, offers, cluster)
    except Unseen as unseen:
        yield diagnosis_of(unseen)
