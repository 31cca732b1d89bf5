"""Storage capacity: the storages of a StorageSpec do not exceed the capacity that their cluster declares for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.layout import Scope, path_of
from allotment.declared.values import format_size
from allotment.problems import Finding
from allotment.rules.tally import StorageUsage, Tally

RULE = "storage-capacity"


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check every cluster's capacity of every StorageSpec."""
    held_storages: dict[tuple[str, str], list[StorageUsage]] = defaultdict(list)
    for storage in tally.storages:
        held_storages[(storage.cluster, storage.storage_spec)].append(storage)
    for cluster in catalog.clusters.values():
        declared = cluster.get_singleton(Cluster)
        if declared is None:
            continue
        for index, entry in enumerate(declared.model.spec.storages):
            parts = sorted(
                held_storages[(cluster.name, entry.storage_spec)],
                key=lambda storage: (-storage.size, storage.tenant, storage.storage),
            )
            total = sum(storage.size for storage in parts)
            if total > entry.capacity:
                largest = ", ".join(
                    f"{storage.tenant}/{storage.storage} {format_size(storage.size)}" for storage in parts[:3]
                )
                message = (
                    f"storages of {entry.storage_spec} take {format_size(total)} in {cluster.name}, its capacity is"
                    f" {format_size(entry.capacity)}; the largest are {largest}"
                )
                related = tuple(
                    path_of("GPUStorage", Scope("tenant", storage.tenant), storage.storage) for storage in parts
                )
                yield declared.make_finding(f"spec.storages.{index}.capacity", message, RULE, related=related)
