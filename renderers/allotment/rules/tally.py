"""What one tenant's folder means to the others: small enough to keep for thousands, and to remember between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from allotment.capacity.units import SpecStocks, UnitClaim, stocks_of_spec
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
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
    """Return the changed files where nothing is compared."""
    return ()


class StorageUsage(NamedTuple):
    """The space that a storage takes, in bytes, of a storage spec in a cluster."""

    cluster: str
    storage_spec: str
    tenant: str
    storage: str
    size: int


class SharedStorage(NamedTuple):
    """A storage that its tenant shares, and with whom; ALL stands for every tenant."""

    cluster: str
    tenant: str
    storage: str
    readers: tuple[str, ...]

    def is_open_to(self, tenant: str) -> bool:
        """Return whether a tenant may copy it."""
        return tenant in self.readers or ALL_TENANTS in self.readers


class StorageCopy(NamedTuple):
    """A storage that is copied from `source`, of the tenant `owner`."""

    cluster: str
    tenant: str
    storage: str
    owner: str
    source: str


class UnknownStorage(NamedTuple):
    """The name of a storage that an instance uses and its tenant does not declare, with the field that names it."""

    path: str
    field: FieldPath
    tenant: str
    name: str


class TallyEntry(NamedTuple):
    """One tenant's part of the tally; `clusters` are those it declares something in, `invalid_storages` the storages in invalid files,
    `unknown_storages` the storages that its instances use and it does not declare."""

    claims: tuple[UnitClaim, ...]
    storages: tuple[StorageUsage, ...]
    clusters: tuple[str, ...]
    shares: tuple[SharedStorage, ...] = ()
    copies: tuple[StorageCopy, ...] = ()
    invalid_storages: tuple[str, ...] = ()
    unknown_storages: tuple[UnknownStorage, ...] = ()


class TallyBase(NamedTuple):
    """What is compared with: every tenant's part, and every cluster's folder, as they were at the base commit."""

    entries: Mapping[str, TallyEntry]
    clusters: Mapping[str, ScopeDeclarations]


class Tally:
    """The sums of all tenants, and the part of them that the base held already; all in the order of names.

    Without a base, the files that `changed_files` returns count as new, and all others as held before.
    """

    def __init__(
        self,
        parts: Mapping[str, TallyEntry],
        base: TallyBase | None = None,
        changed_files: ChangedFiles = no_changed_files,
    ) -> None:
        self.tenants = frozenset(parts)
        self.claims = [claim for name in sorted(parts) for claim in parts[name].claims]
        self.storages = [storage for name in sorted(parts) for storage in parts[name].storages]
        self.shares = [share for name in sorted(parts) for share in parts[name].shares]
        self.copies = [read for name in sorted(parts) for read in parts[name].copies]
        self.invalid_storages = frozenset(
            (name, storage) for name, part in parts.items() for storage in part.invalid_storages
        )
        self.unknown_storages = [unknown for name in sorted(parts) for unknown in parts[name].unknown_storages]
        base_parts = base.entries.values() if base else ()
        self._copies_before = {read for part in base_parts for read in part.copies}
        self._claims_before = {(claim.tenant, claim.instance): claim for part in base_parts for claim in part.claims}
        self._clusters_before = base.clusters if base else {}
        self._changed_files = changed_files
        self.has_base = base is not None

    def units_before(self, claim: UnitClaim) -> int:
        """Return how many of these units the instance held at the base already, of this spec in this cluster."""
        if not self.has_base:
            path = path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance)
            return 0 if self.is_changed(path) else claim.units
        old = self.claim_before(claim)
        return min(old.units, claim.units) if old is not None and old[:2] == claim[:2] else 0

    def claim_before(self, claim: UnitClaim) -> UnitClaim | None:
        """Return the claim of the same instance at the base; None where it has none there."""
        return self._claims_before.get((claim.tenant, claim.instance))

    def is_changed(self, path: str) -> bool:
        """Return whether a file changed, as far as that is known without a base."""
        return path in self._changed_paths

    @cached_property
    def _changed_paths(self) -> frozenset[str]:
        return frozenset(self._changed_files())

    def stocks_before(self, cluster: str, gpu_spec: str) -> SpecStocks:
        """Return the stocks that a spec had in a cluster at the base: none where there is no base, or no such cluster."""
        was = self._clusters_before.get(cluster)
        return SpecStocks([], {}) if was is None else stocks_of_spec(was, gpu_spec)

    def was_copied_before(self, read: StorageCopy) -> bool:
        """Return whether this was already copied so at the base."""
        return read in self._copies_before


def build_tally_entry(
    offers: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState = UNKNOWN_STATE
) -> TallyEntry:
    """Return a tenant's part."""
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
    claims = tuple(claim_units(offers, tenant, runtime_state))
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
