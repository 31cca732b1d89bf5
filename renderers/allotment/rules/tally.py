"""The tally: an entry for each tenant, which has the facts that the checks of other tenants need.

An entry is small. Therefore thousands of entries fit in memory, and can be cached between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from allotment.capacity.units import SpecStocks, UnitClaim, stocks_of_spec
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.stock import Stock
from allotment.declared.layout import Scope, path_of
from allotment.declared.placement import clusters_of
from allotment.declared.references import references
from allotment.preparation.runtime_state import UNKNOWN_STATE, RuntimeState
from allotment.preparation.sources import foreign_source
from allotment.preparation.start_gates import claim_units
from allotment.problems import FieldPath

ALL_TENANTS = "*"
ChangedFiles = Callable[[], Iterable[str]]


def no_changed_files() -> Iterable[str]:
    """Return no files, for a check that does not compare files with a commit."""
    return ()


class StorageUsage(NamedTuple):
    """The bytes that a storage takes from the capacity of its StorageSpec in its cluster."""

    cluster: str
    storage_spec: str
    tenant: str
    storage: str
    size: int


class SharedStorage(NamedTuple):
    """A storage that its tenant shares, and the tenants that may read it; `ALL_TENANTS` stands for every tenant."""

    cluster: str
    tenant: str
    storage: str
    readers: tuple[str, ...]

    def is_open_to(self, tenant: str) -> bool:
        """Return whether a tenant may copy the storage."""
        return tenant in self.readers or ALL_TENANTS in self.readers


class StorageCopy(NamedTuple):
    """A storage that is copied from `source`, a storage of the tenant `owner`."""

    cluster: str
    tenant: str
    storage: str
    owner: str
    source: str


class UnknownStorage(NamedTuple):
    """The name of an undeclared storage that an instance uses, and the field with the name."""

    path: str
    field: FieldPath
    tenant: str
    name: str


class TallyEntry(NamedTuple):
    """A tenant's entry in the tally.

    `clusters` are the clusters of the tenant's resources. `invalid_storages` are the names of the storages with an
    invalid file. `unknown_storages` are names of storages that an instance uses, but the tenant does not declare.
    """

    claims: tuple[UnitClaim, ...]
    storages: tuple[StorageUsage, ...]
    clusters: tuple[str, ...]
    shares: tuple[SharedStorage, ...] = ()
    copies: tuple[StorageCopy, ...] = ()
    invalid_storages: tuple[str, ...] = ()
    unknown_storages: tuple[UnknownStorage, ...] = ()


class TallyBase(NamedTuple):
    """The base of a comparison: every tenant's entry, and every cluster's folder, at the base commit."""

    entries: Mapping[str, TallyEntry]
    clusters: Mapping[str, ScopeDeclarations]


class Tally:
    """The entries of all tenants, in the order of the tenants' names, and the entries that the tenants had at the base.

    If there is no base, the tally treats the files that `changed_files` returns as new, and all others as unchanged.
    """

    def __init__(
        self,
        parts: Mapping[str, TallyEntry],
        base: TallyBase | None = None,
        changed_files: ChangedFiles = no_changed_files,
    ) -> None:
        entries = [parts[name] for name in sorted(parts)]
        self.tenants = frozenset(parts)
        self.claims = [claim for entry in entries for claim in entry.claims]
        self.storages = [storage for entry in entries for storage in entry.storages]
        self.shares = [share for entry in entries for share in entry.shares]
        self.copies = [read for entry in entries for read in entry.copies]
        self.invalid_storages = frozenset(
            (name, storage) for name, part in parts.items() for storage in part.invalid_storages
        )
        self.unknown_storages = [unknown for entry in entries for unknown in entry.unknown_storages]
        base_parts = base.entries.values() if base else ()
        self._copies_before = {read for part in base_parts for read in part.copies}
        self._readers_before = {
            (share.tenant, share.storage, reader)
            for part in base_parts
            for share in part.shares
            for reader in share.readers
        }
        self._claims_before = {(claim.tenant, claim.instance): claim for part in base_parts for claim in part.claims}
        self._clusters_before = base.clusters if base else {}
        self._changed_files = changed_files
        self.has_base = base is not None

    def units_before(self, claim: UnitClaim) -> int:
        """Return how many units of a claim the instance already held at the base.

        Only units of the same GPUSpec in the same cluster are included.
        """
        if not self.has_base:
            path = path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance)
            return 0 if self.is_changed(path) else claim.units
        old = self.claim_before(claim)
        return min(old.units, claim.units) if old is not None and old[:2] == claim[:2] else 0

    def claim_before(self, claim: UnitClaim) -> UnitClaim | None:
        """Return the claim of the same instance at the base; None if there is none."""
        return self._claims_before.get((claim.tenant, claim.instance))

    def is_changed(self, path: str) -> bool:
        """Return whether a file is one of the files that `changed_files` returns."""
        return path in self._changed_paths

    @cached_property
    def _changed_paths(self) -> frozenset[str]:
        return frozenset(self._changed_files())

    def is_changed_stock(self, cluster: str, stock: DeclarationFile[Stock]) -> bool:
        """Return whether the change adds units to a stock, or moves it to another pool or GPUSpec."""
        if not self.has_base:
            return self.is_changed(stock.path)
        before = self._clusters_before.get(cluster)
        old = before.of_kind(Stock).get(stock.model.name) if before is not None else None
        if old is None:
            return True
        old_spec, new_spec = old.model.spec, stock.model.spec
        return new_spec.declared_count > old_spec.declared_count or (new_spec.gpu_spec, new_spec.node_pool) != (
            old_spec.gpu_spec,
            old_spec.node_pool,
        )

    def is_changed_cordon(self, cluster: str, cordon: DeclarationFile[Cordon]) -> bool:
        """Return whether the change adds a cordon, or lets it take more days, another node, or move instances."""
        if not self.has_base:
            return self.is_changed(cordon.path)
        before = self._clusters_before.get(cluster)
        old = before.of_kind(Cordon).get(cordon.model.name) if before is not None else None
        if old is None:
            return True
        before_spec, spec = old.model.spec, cordon.model.spec
        lasts_longer = before_spec.until is not None and (spec.until is None or spec.until > before_spec.until)
        is_elsewhere = (spec.node_pool, spec.node) != (before_spec.node_pool, before_spec.node)
        moves = spec.drain == "Now" and before_spec.drain != "Now"
        return is_elsewhere or moves or lasts_longer or spec.start < before_spec.start

    def stocks_before(self, cluster: str, gpu_spec: str) -> SpecStocks:
        """Return the stocks of a GPUSpec in a cluster at the base; empty if there is no base, or no such cluster."""
        old = self._clusters_before.get(cluster)
        return SpecStocks([], {}) if old is None else stocks_of_spec(old, gpu_spec)

    def was_copied_before(self, read: StorageCopy) -> bool:
        """Return whether the base already had this copy."""
        return read in self._copies_before

    def was_shared_before(self, share: SharedStorage, reader: str) -> bool:
        """Return whether the tenant already shared this storage with `reader` at the base."""
        return (share.tenant, share.storage, reader) in self._readers_before


def build_tally_entry(
    catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState = UNKNOWN_STATE
) -> TallyEntry:
    """Return a tenant's entry in the tally."""
    storages = tuple(
        StorageUsage(
            storage.model.spec.cluster,
            storage.model.spec.storage_spec,
            tenant.name,
            storage.model.name,
            storage.model.spec.size,
        )
        for storage in tenant.of_kind(GPUStorage).values()
    )
    shares, reads = [], []
    for instance in tenant.of_kind(GPUStorage).values():
        spec = instance.model.spec
        if spec.shared_with:
            readers = tuple(reader.tenant or ALL_TENANTS for reader in spec.shared_with)
            shares.append(SharedStorage(spec.cluster, tenant.name, instance.model.name, readers))
        if source := foreign_source(instance.model, tenant.name):
            reads.append(StorageCopy(spec.cluster, tenant.name, instance.model.name, str(source.tenant), source.name))
    invalid = tuple(sorted(name for kind, name in tenant.invalid if kind == GPUStorage.__name__))
    claims = tuple(claim_units(catalog, tenant, runtime_state))
    return TallyEntry(
        claims=claims,
        storages=storages,
        clusters=tuple(filter(None, clusters_of(tenant))),
        shares=tuple(shares),
        copies=tuple(reads),
        invalid_storages=invalid,
        unknown_storages=tuple(_unknown_storages(tenant)),
    )


def _unknown_storages(tenant: ScopeDeclarations) -> Iterator[UnknownStorage]:
    for instance in tenant.of_kind(GPUInstance).values():
        for field, to, name in references(instance.model):
            if to.kind == GPUStorage.__name__ and tenant.is_absent(GPUStorage, name):
                yield UnknownStorage(instance.path, field, tenant.name, name)
