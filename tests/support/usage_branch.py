"""A commit of a status branch with recorded usage, as a reporter writes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import CAPACITY, CLUSTER, tenant_path, usage_path
from allotment.observed.status import CapacityUsage, ClusterStatus, TenantStatus, UsageInterval, dump_status
from allotment.observed.usage_log import UsageLogHeader, append_usage

AUTHOR = b"reporter <reporter@northlight.example> 1 +0000"


def write_usage(root: Path, cluster: str, tenant: str, usage: Iterable[UsageInterval], now: str) -> str:
    """Write a commit with the usage of a tenant, observed until `now`, into the repository, and return it."""
    intervals = list(usage)
    current = tuple(interval for interval in intervals if not interval.end_time)
    header = UsageLogHeader(cluster, tenant, now, "")
    data: dict[str, bytes | None] = {
        CLUSTER: dump_status(ClusterStatus(cluster, now)),
        CAPACITY: dump_status(CapacityUsage(cluster, "2026-01-01T00:00:00Z")),
        tenant_path(tenant): dump_status(TenantStatus(tenant, cluster, usage=current)),
        usage_path(tenant): append_usage(None, header, [interval for interval in intervals if interval.end_time]),
    }
    return write_commit(Repository(root), [], data, CommitMessage("Report the usage", AUTHOR))
