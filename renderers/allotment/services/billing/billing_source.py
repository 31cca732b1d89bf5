"""Opens the sources of bills: the settings of the platform, and the recorded usage of all declared clusters."""

from __future__ import annotations

import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from allotment.billing.recorded_use import ClusterRecord, UsageRecord
from allotment.branches.declarations_clone import DeclarationsClone, DeclaredCommit
from allotment.branches.platform_settings import read_platform, read_reporter_keys
from allotment.branches.status_branches import list_reported_clusters
from allotment.declared.kinds.platform import Platform
from allotment.problems import OperationRefused
from allotment.services.billing.usage_reader import read_usage_record


class BillingSource(NamedTuple):
    """The clone, the commit of the declarations, and the settings from which usage is read."""

    clone: DeclarationsClone
    declared: DeclaredCommit
    platform: Platform
    zone: datetime.tzinfo


def open_billing_source(clone: DeclarationsClone) -> BillingSource:
    """Return the source of the recorded usage.

    Raises OperationRefused if origin doesn't answer, or if the Platform declaration can't be read.
    """
    declared = clone.fetch_declared_commit()
    platform = read_platform(clone.find_settings_commit(declared))
    if platform is None:
        raise OperationRefused("platform/platform.yaml can't be read: `allot validate` shows the reason")
    return BillingSource(clone, declared, platform, ZoneInfo(platform.spec.billing.time_zone))


def read_record(source: BillingSource, tenant: str | None, since: int) -> UsageRecord:
    """Return the recorded usage of a tenant, or of all tenants, that ended after `since` or continues.

    Raises OperationRefused if the clone has no remote for the status branches, or if the remote doesn't answer.
    """
    url = source.clone.resolve_urls(source.declared).status
    if not source.clone.has_remote(url):
        raise OperationRefused(
            "the clone has no remote named origin, from which it would read the recorded usage: run"
            f" {source.clone.repository.git.origin_remedy}, or name the repository of the status branches with --status-url"
        )
    remote = source.clone.remote(url)
    declared = source.declared.source
    keys = read_reporter_keys(declared, declared.list_folders("clusters"))
    record = read_usage_record(source.clone.repository, remote, sorted(keys.items()), tenant, since)
    return record._replace(
        clusters=(
            *record.clusters,
            *(
                ClusterRecord.of_undeclared(name, "it has a status branch, but is not declared: its usage is left out")
                for name in list_reported_clusters(remote)
                if name not in keys
            ),
        )
    )
