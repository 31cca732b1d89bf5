"""Lists the declared facts and the cost of one instance or storage, for people."""

from __future__ import annotations

from allotment.observed.resource_rows import InstanceRowOutput, StorageRowOutput
from allotment.reports.list_columns import format_cost, format_labels
from allotment.reports.sheets import FactList


def instance_facts(row: InstanceRowOutput, currency: str) -> FactList:
    """Return the declared facts of an instance."""
    return FactList(
        [
            ("Declared state", row.state or "-"),
            ("App", row.app or ""),
            ("GPU", f"{row.gpu_model or 'unknown'}, {row.gpu_memory or '-'}"),
            ("Replicas", row.replicas),
            ("Units held", row.units),
            ("Maintenance", row.maintenance or ""),
            ("Storages", " ".join(row.storages)),
            ("Labels", format_labels(row.labels)),
            ("Cost per hour", f"{format_cost(row.cost_per_hour)} {currency}"),
        ]
    )


def storage_facts(row: StorageRowOutput, currency: str) -> FactList:
    """Return the declared facts of a storage."""
    return FactList(
        [
            ("Storage spec", row.storage_spec or "-"),
            ("Declared size", row.size or "-"),
            ("Source", row.source or "none"),
            ("Mounted by", " ".join(row.mounted_by) or "none"),
            ("Deletion policy", row.deletion_policy or "-"),
            ("Labels", format_labels(row.labels)),
            ("Cost per hour", f"{format_cost(row.cost_per_hour)} {currency}"),
        ]
    )
