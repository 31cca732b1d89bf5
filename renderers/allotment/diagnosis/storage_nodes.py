"""Checks whether a node accepts the pods of storages: preparation Jobs and file accessors."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.diagnosis.apis import is_bucket
from allotment.diagnosis.cluster_snapshot import KARPENTER_NODE_POOLS, NODES, ClusterSnapshot, NotReadable, Object
from allotment.diagnosis.diagnosis import Diagnosis, error, ok
from allotment.diagnosis.pool_nodes import has_gpus
from allotment.manifests import names, pods

_REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
_SUBJECT = "nodes for storages"


def check_storage_nodes(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """If the cluster offers volumes, yield a diagnosis of the nodes for preparation Jobs and file accessors.

    Raises NotReadable.
    """
    place = cluster.get_singleton(Cluster)
    if place is None or all(is_bucket(catalog, storage.storage_spec) for storage in place.model.spec.storages):
        return
    if pools := pods.storage_pools(cluster):
        yield ok(
            _SUBJECT,
            f"preparation Jobs and file accessors run on the pools {', '.join(pool.metadata.name for pool in pools)}",
        )
        return
    takers = [
        node for node in snapshot.list_objects(NODES) if not has_gpus(node) and not _repels_pods(node.get("spec", {}))
    ]
    if takers or _buys_nodes_without_gpus(snapshot):
        yield ok(_SUBJECT, "preparation Jobs and file accessors run on nodes without GPUs")
        return
    yield error(
        _SUBJECT,
        "each node has GPUs or a taint, so preparation Jobs and file accessors can't run: a storage with prepare stays Preparing",
        "add a node without GPUs, or write storagePods in a static NodePool",
    )


def _repels_pods(spec: Object) -> bool:
    return bool(spec.get("unschedulable")) or any(
        taint.get("effect") in _REPELLING_EFFECTS for taint in spec.get("taints", ())
    )


def _buys_nodes_without_gpus(snapshot: ClusterSnapshot) -> bool:
    """Return whether Karpenter creates nodes without taints from a NodePool that Allotment does not manage."""
    try:
        bought = snapshot.list_objects(KARPENTER_NODE_POOLS)
    except NotReadable:
        # The cluster has no Karpenter, or a permission is missing. The topic `karpenter` reports a missing permission.
        return False
    return any(
        pool["metadata"].get("labels", {}).get(names.MANAGED_BY) != names.PROGRAM_NAME
        and not _repels_pods(pool.get("spec", {}).get("template", {}).get("spec", {}))
        for pool in bought
    )
