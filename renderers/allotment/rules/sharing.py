"""Sharing: a tenant copies another tenant's storage only if the owner lists the tenant under spec.sharedWith, and
only in the same cluster. spec.sharedWith names other tenants that exist."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.layout import Scope, path_of
from allotment.declared.reading import invalid_file_hint, suggest_name
from allotment.problems import Finding, quote_value
from allotment.rules.tally import ALL_TENANTS, SharedStorage, StorageCopy, Tally

RULE = "sharing"
SOURCE_FIELD = ("spec", "prepare", "source", "storage")


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check all copies between tenants, and the tenants that storages are shared with.

    If the base already has the copy or the reader, a fault is only a warning. If the fault were an error, an owner could
    not stop sharing a storage that another tenant has copied, and a tenant with readers elsewhere could not be removed.
    """
    for share in tally.shares:
        yield from _check_readers(tally, share)
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
            _missing_tenant_message(tally, read.owner),
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


def _check_readers(tally: Tally, share: SharedStorage) -> Iterator[Finding]:
    path = path_of("GPUStorage", Scope("tenant", share.tenant), share.storage)
    for index, reader in enumerate(share.readers):
        field = ("spec", "sharedWith", index, "tenant")
        is_old = tally.was_shared_before(share, reader)
        if reader == share.tenant:
            message = f"{reader} is the tenant of this storage, and needs no permission: remove the entry"
            yield Finding(path, field, message, RULE, is_old)
        elif reader != ALL_TENANTS and reader not in tally.tenants:
            yield Finding(path, field, _missing_tenant_message(tally, reader), "reference", is_old)


def _missing_tenant_message(tally: Tally, name: str) -> str:
    return f"no Tenant is named {quote_value(name)}{suggest_name(name, tally.tenants)}"
