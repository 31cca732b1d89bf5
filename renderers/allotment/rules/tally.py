"""What one tenant's folder means to the others: small enough to keep for thousands, and to remember between runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.readiness import claims
from allotment.accounts.sources import foreign_source
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage

ALL = "*"


class Held(NamedTuple):
    """The space that a storage takes, in bytes, of a storage spec in a cluster."""

    cluster: str
    storage_spec: str
    tenant: str
    storage: str
    size: int


class Share(NamedTuple):
    """A storage that its tenant shares, and with whom; ALL stands for every tenant."""

    cluster: str
    tenant: str
    storage: str
    readers: tuple[str, ...]

    def is_open_to(self, tenant: str) -> bool:
        """Return whether a tenant may copy it."""
        return tenant in self.readers or ALL in self.readers


class Read(NamedTuple):
    """A storage that is copied from `source`, of the tenant `owner`."""

    cluster: str
    tenant: str
    storage: str
    owner: str
    source: str


class Part(NamedTuple):
    """One tenant's part of the tally; `clusters` are those it declares something in."""

    claims: tuple[Claim, ...]
    storages: tuple[Held, ...]
    clusters: tuple[str, ...]
    shares: tuple[Share, ...] = ()
    reads: tuple[Read, ...] = ()


class Tally:
    """What all tenants hold together, and what of it is new: the units each instance held at the base, if there is one."""

    def __init__(self, parts: Mapping[str, Part], before: Mapping[str, Part] | None = None) -> None:
        self.tenants = frozenset(parts)
        self.claims = [claim for name in sorted(parts) for claim in parts[name].claims]
        self.storages = [held for name in sorted(parts) for held in parts[name].storages]
        self.shares = [share for name in sorted(parts) for share in parts[name].shares]
        self.reads = [read for name in sorted(parts) for read in parts[name].reads]
        self._read_before = {read for part in (before or {}).values() for read in part.reads}
        self._before = {
            (claim.tenant, claim.instance): claim for part in (before or {}).values() for claim in part.claims
        }

    def was_held(self, claim: Claim) -> bool:
        """Return whether these units were already held at the base."""
        old = self._before.get((claim.tenant, claim.instance))
        return old is not None and old[:2] == claim[:2] and old.units >= claim.units

    def was_read(self, read: Read) -> bool:
        """Return whether this was already copied so at the base."""
        return read in self._read_before

    @property
    def newest_last(self) -> Iterable[Claim]:
        """The claims, those that the base knew first."""
        return sorted(self.claims, key=lambda claim: (not self.was_held(claim), claim.tenant, claim.instance))


def part_of(offers: Offers, tenant: Folder) -> Part:
    """Return a tenant's part."""
    storages = tuple(
        Held(one.model.spec.cluster, one.model.spec.storage_spec, tenant.name, one.model.name, one.model.spec.size)
        for one in tenant.of(GPUStorage).values()
    )
    used = {held.cluster for held in storages} | {one.model.spec.cluster for one in tenant.of(GPUInstance).values()}
    shares, reads = [], []
    for one in tenant.of(GPUStorage).values():
        spec = one.model.spec
        if spec.shared_with:
            readers = tuple(reader.tenant or ALL for reader in spec.shared_with)
            shares.append(Share(spec.cluster, tenant.name, one.model.name, readers))
        if source := foreign_source(one.model, tenant.name):
            reads.append(Read(spec.cluster, tenant.name, one.model.name, str(source.tenant), source.name))
    return Part(tuple(claims(offers, tenant)), storages, tuple(sorted(used)), tuple(shares), tuple(reads))
