"""Describes the declarations that a field can name, with prices and free units, for one tenant.

A description has only facts that the tenant may know: it names no other tenant and no resource of another tenant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from allotment.capacity.pricing import is_sold, next_price, price_on
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.app import App
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import DeclarationPath
from allotment.declared.values import format_cpu, format_size
from allotment.problems import pluralize
from allotment.reports.markdown import escape_invisible
from allotment.rules.availability import AvailableOffers, GPUOffer, StorageOffer, list_offers
from allotment.rules.tally import TallyEntry

MAX_TEXT = 500  # characters of a declared description
_MARKUP = re.compile(r"([\\`*_\[\]<>!#|~&])")


class Offer(NamedTuple):
    """A declaration that a field can name: a short summary for a list, and its description in Markdown.

    `is_available` is false if the cluster of the file has no free units or no bytes of it, or if it is not Active.
    """

    name: str
    summary: str
    description: str
    is_available: bool = True


class DeclaredFacts:
    """The declarations that the file at `declaration_path` can name.

    `folder` has the declarations of the tenant or cluster of the file, or of the platform. `tally_entries` are those of
    all tenants; they count the free units.
    """

    def __init__(
        self,
        declaration_path: DeclarationPath,
        catalog: Catalog,
        folder: ScopeDeclarations,
        tally_entries: Iterable[TallyEntry],
    ) -> None:
        self.declaration_path, self.catalog, self.folder = declaration_path, catalog, folder
        self._tally_entries = tally_entries

    @property
    def tenant(self) -> str:
        """The name of the tenant of the file; empty for a file of the platform or of a cluster."""
        return self.declaration_path.scope.name if self.declaration_path.scope.kind == "tenant" else ""

    @cached_property
    def offers(self) -> AvailableOffers:
        """The GPU specs and storage specs in each cluster, with the free units."""
        entries = list(self._tally_entries)
        claims = (claim for entry in entries for claim in entry.claims)
        storages = (storage for entry in entries for storage in entry.storages)
        return list_offers(self.catalog, claims, storages)

    @cached_property
    def currency(self) -> str:
        """The currency of all prices; empty if the platform can't be read."""
        platform = self.catalog.platform.get_singleton(Platform)
        return platform.model.spec.billing.currency if platform is not None else ""

    def list_targets(self, kind: str, cluster: str | None, *, buckets: bool = False) -> list[Offer]:
        """Return the declarations of a kind: available declarations first, then by name.

        `cluster` is the cluster of the file, if it is known. Storages of another cluster are left out. If `buckets` is
        true, storages that are no buckets are left out.
        """
        if kind == "Cluster":
            clusters = [folder.get_singleton(KINDS[kind].model) for folder in self.catalog.clusters.values()]
            return [self.describe(declared, cluster) for declared in clusters if declared is not None]
        if kind == "Tenant":
            return []
        scope = self.catalog.platform if KINDS[kind].scope == "platform" else self.folder
        offers = [
            self.describe(declared, cluster)
            for declared in scope.of_kind(KINDS[kind].model).values()
            if (not buckets or self._is_bucket(declared)) and not _is_elsewhere(declared, cluster)
        ]
        return sorted(offers, key=lambda offer: not offer.is_available)

    def describe(self, declared: DeclarationFile[Any], cluster: str | None) -> Offer:
        """Return the description of a declaration. Prices and free units are those of `cluster`, if it is known."""
        model: Declaration = declared.model
        describe = _DESCRIBERS.get(model.kind)
        facts = list(describe(self, declared, cluster)) if describe is not None else []
        spec = model.spec
        lifecycle = str(getattr(spec, "lifecycle", "Active"))
        is_marked = getattr(spec, "deletion_policy", "Retain") == "Delete"
        warning = [*([lifecycle] if lifecycle != "Active" else []), *(["marked for deletion"] if is_marked else [])]
        texts = [escape_text(text) for text in (spec.display_name, spec.description) if text]
        title = f"**{model.kind} {model.name}**{''.join(f' ({word})' for word in warning)}"
        lines = [title, *texts, "\n".join(f"- {fact}" for fact in facts)]
        is_available = not warning and self._has_capacity(model, cluster)
        return Offer(model.name, "; ".join([*warning, *facts[:2]]), "\n\n".join(filter(None, lines)), is_available)

    def _has_capacity(self, model: Declaration, cluster: str | None) -> bool:
        """Return whether `cluster`, or any cluster, has free units of a GPUSpec or free bytes of a StorageSpec."""
        if isinstance(model, GPUSpec):
            return any(
                offer.free_units + offer.reserved_for(self.tenant).free_units > 0
                for offer in self.gpu_offers(model.name, cluster)
            )
        if isinstance(model, StorageSpec):
            return any(offer.free_bytes > 0 for offer in self.storage_offers(model.name, cluster))
        return True

    def storage_spec_of(self, storage: GPUStorage) -> StorageSpec | None:
        """Return the StorageSpec of a storage; None if it is absent or invalid."""
        declared = self.catalog.platform.of_kind(StorageSpec).get(storage.spec.storage_spec)
        return declared.model if declared is not None else None

    def _is_bucket(self, declared: DeclarationFile[Any]) -> bool:
        spec = self.storage_spec_of(declared.model) if isinstance(declared.model, GPUStorage) else None
        return spec is not None and spec.spec.bucket is not None

    def gpu_offers(self, name: str, cluster: str | None) -> list[GPUOffer]:
        """Return the offers of a GPUSpec in a cluster, or in all clusters."""
        return [
            offer
            for offer in self.offers.gpu_offers
            if offer.spec.model.name == name and cluster in (None, offer.cluster)
        ]

    def storage_offers(self, name: str, cluster: str | None) -> list[StorageOffer]:
        """Return the offers of a StorageSpec in a cluster, or in all clusters."""
        return [
            offer
            for offer in self.offers.storage_offers
            if offer.spec.model.name == name and cluster in (None, offer.cluster)
        ]


def _is_elsewhere(declared: DeclarationFile[Any], cluster: str | None) -> bool:
    """Return whether a storage is in another cluster than `cluster`."""
    return isinstance(declared.model, GPUStorage) and cluster not in (None, declared.model.spec.cluster)


def escape_text(text: str) -> str:
    """Return Markdown that shows a declared text literally: an image or a link in it would load or open an address."""
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return _MARKUP.sub(r"\\\1", escape_invisible(" ".join(cut.split())))


def _describe_gpu_spec(facts: DeclaredFacts, declared: DeclarationFile[GPUSpec], cluster: str | None) -> Iterator[str]:
    spec, day = declared.model.spec, facts.catalog.as_of
    price = price_on(spec.prices, day)
    yield f"{price.per_hour} {facts.currency} per hour" + (
        "" if is_sold(spec.prices, day) else f" from {price.start} on"
    )
    for offer in (offers := facts.gpu_offers(declared.model.name, cluster)):
        own = offer.reserved_for(facts.tenant)
        units = offer.units + own.unit_count
        free_text = f"{offer.free_units + own.free_units} of {pluralize(units, 'unit')} free" if units else "no units"
        yield f"{free_text} in {offer.cluster}"
    if not offers and cluster is not None:
        yield f"no units in {cluster}"
    if (later := next_price(spec.prices, day)) is not None and is_sold(spec.prices, day):
        yield f"{later.per_hour} {facts.currency} per hour from {later.start} on"
    yield f"{spec.gpu.count} × {spec.gpu.model} with {format_size(spec.gpu.memory)}" + (
        f", shared: {spec.sharing.chosen_member}" if spec.sharing is not None else ""
    )
    yield f"{format_cpu(spec.cpu)} CPU, {format_size(spec.memory)} memory, {format_size(spec.disk)} disk"


def _describe_storage_spec(
    facts: DeclaredFacts, declared: DeclarationFile[StorageSpec], cluster: str | None
) -> Iterator[str]:
    spec, day = declared.model.spec, facts.catalog.as_of
    price = price_on(spec.prices, day)
    yield f"{price.per_gib_month} {facts.currency} per GiB and month" + (
        "" if is_sold(spec.prices, day) else f" from {price.start} on"
    )
    for offer in facts.storage_offers(declared.model.name, cluster):
        yield f"{format_size(offer.free_bytes)} of {format_size(offer.cluster_storage.capacity)} free in {offer.cluster}"
    kind = "bucket" if spec.volume is None else f"volume, {spec.volume.access_mode}"
    yield f"{kind}, {format_size(spec.size.min)} to {format_size(spec.size.max)}"
    if spec.snapshot_prices:
        snapshot = price_on(spec.snapshot_prices, day).per_gib_month
        yield f"snapshots: {snapshot} {facts.currency} per GiB and month"


def _describe_app(facts: DeclaredFacts, declared: DeclarationFile[App], cluster: str | None) -> Iterator[str]:
    for version in reversed(declared.model.spec.versions):
        state = "" if version.lifecycle == "Active" else f" ({version.lifecycle})"
        yield f"version {version.version}{state}"


def _describe_storage(
    facts: DeclaredFacts, declared: DeclarationFile[GPUStorage], cluster: str | None
) -> Iterator[str]:
    spec = declared.model.spec
    yield f"{format_size(spec.size)} of {spec.storage_spec} in {spec.cluster}"


def _describe_snapshot(
    facts: DeclaredFacts, declared: DeclarationFile[GPUStorageSnapshot], cluster: str | None
) -> Iterator[str]:
    yield f"of storage {declared.model.spec.storage}"


_DESCRIBERS: dict[str, Callable[[DeclaredFacts, Any, str | None], Iterator[str]]] = {
    "GPUSpec": _describe_gpu_spec,
    "StorageSpec": _describe_storage_spec,
    "App": _describe_app,
    "GPUStorage": _describe_storage,
    "GPUStorageSnapshot": _describe_snapshot,
}
