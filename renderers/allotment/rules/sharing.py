"""Sharing: a tenant copies another tenant's storage only if the owner lists the tenant under spec.sharedWith, and
only in the same cluster."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.layout import Scope, path_of
from allotment.declared.reading import invalid_file_hint, suggest_name
from allotment.problems import Finding, quote_value
from allotment.rules.tally import StorageCopy, Tally

RULE = "sharing"
SOURCE_FIELD = ("spec", "prepare", "source", "storage")


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check all copies between tenants.

    If the base already has the copy, a fault is only a warning. If the fault were an error, an owner could not stop
    sharing a storage that another tenant has copied.
    """
    for read in tally.copies:
        if fault := _sharing_fault(tally, read):
            part, message, rule = fault
            path = path_of("GPUStorage", Scope("tenant", read.tenant), read.storage)
            owners = path_of("GPUStorage", Scope("tenant", read.owner), read.source)
            yield Finding(path, (*SOURCE_FIELD, part), message, rule, tally.was_copied_before(read), (owners,))


def _sharing_fault(tally: Tally, read: StorageCopy) -> tuple[str, str, str] | None:
    """Return the field, the message and the rule of the finding about a copy; None if the copy is allowed."""
    if read.owner not in tally.tenants:
        return (
            "tenant",
            f"no Tenant is named {quote_value(read.owner)}{suggest_name(read.owner, tally.tenants)}",
            "reference",
        )
    shared = {
        share.storage: share for share in tally.shares if share.tenant == read.owner and share.is_open_to(read.tenant)
    }
    if read.source not in {storage.storage for storage in tally.storages if storage.tenant == read.owner}:
        if (read.owner, read.source) in tally.invalid_storages:
            return "name", invalid_file_hint("GPUStorage", Scope("tenant", read.owner), read.source), "reference"
        near = suggest_name(read.source, shared)
        return "name", f"no GPUStorage is named {quote_value(read.source)} in tenants/{read.owner}{near}", "reference"
    if read.source not in shared:
        message = f"tenant {read.owner} doesn't share {read.source} with {read.tenant}: ask them to list it under spec.sharedWith"
        return "name", message, RULE
    source_cluster = shared[read.source].cluster
    if source_cluster != read.cluster:
        message = f"{read.owner}'s storage {read.source} is in cluster {source_cluster}, and this storage is in {read.cluster}: use the same cluster for both"
        return "name", message, RULE
    return None
