"""The registries of the rules that check more than the schema of a single file. Each rule has its own module.

A rule checks the catalog, a tenant against the catalog, all tenants together, or the changes of a folder since the base
(the commit that a change is compared with).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.problems import Finding
from allotment.rules import (
    accessors,
    app_folders,
    buckets,
    budget,
    cordons,
    deletion,
    destinations,
    domains,
    folder_change,
    gateway_namespaces,
    immutability,
    karpenter,
    last_admin,
    lifecycle,
    limits,
    mounts,
    mps,
    ownership,
    packing,
    placeholders,
    pools,
    portals,
    preparation,
    prices,
    quota,
    references,
    secrets,
    sharing,
    sizes,
    snapshots,
    sources,
    ssh,
    stock,
    storage_capacity,
    unsaved_folders,
)
from allotment.rules.tally import Tally

PLATFORM_RULES: dict[str, Callable[[Catalog], Iterator[Finding]]] = {
    "reference": references.check_offers,
    "stock-pool": pools.check,
    "packing": packing.check,
    "karpenter": karpenter.check,
    "mps": mps.check,
    "domain": domains.check,
    "destination": destinations.check,
    "gateway-namespace": gateway_namespaces.check,
    "portal": portals.check,
    "ownership": ownership.check,
    "placeholder": placeholders.check,
}
TENANT_RULES: dict[str, Callable[[Catalog, ScopeDeclarations], Iterator[Finding]]] = {
    "reference": references.check_tenant,
    "mount": mounts.check,
    "app-folder": app_folders.check,
    "unsaved-folder": unsaved_folders.check,
    "source": sources.check,
    "snapshot": snapshots.check,
    "bucket": buckets.check,
    "accessor": accessors.check,
    "secret-reference": secrets.check,
    "ssh": ssh.check,
    "size": sizes.check,
    "limit": limits.check,
    "quota": quota.check,
    "budget": budget.check,
}
SHARED_RULES: dict[str, Callable[[Catalog, Tally], Iterator[Finding]]] = {
    "reference": references.check_across_tenants,
    "stock": stock.check,
    "cordon": cordons.check,
    "storage-capacity": storage_capacity.check,
    "sharing": sharing.check,
}
CHANGE_RULES: dict[str, Callable[[folder_change.FolderChange], Iterator[Finding]]] = {
    "immutable": immutability.check,
    "source": sources.check_sizes,
    "price": prices.check,
    "deletion": deletion.check,
    "preparation": preparation.check,
    "lifecycle": lifecycle.check,
    "last-admin": last_admin.check,
}
