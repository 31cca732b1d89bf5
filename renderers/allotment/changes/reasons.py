"""Why a tenant's thing changes: which field of which file, its own first, or else of those that it depends on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from allotment.changes.fields import Noted
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.app import App
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.kinds.tenant import Tenant

SHOWN = 6
# Fields from which nothing of a tenant's is rendered.
_UNRENDERED = (
    "spec.displayName", "spec.description", "spec.prices", "spec.snapshotPrices", "spec.plan", "spec.quota",
    "spec.brake", "spec.billing", "spec.count", "spec.warm", "metadata.labels",
)  # fmt: skip


# Fields of a cluster from which what runs in it is rendered, and what shows a storage's files.
_CLASSES = ("storageClassName", "volumeSnapshotClassName", "cloning", "objectStore")
_SERVED = ("spec.destination", "spec.domain", "spec.gateway", "spec.oidc")


class _Pair(NamedTuple):
    """A declaration at both ends, and the fields of it that count, if not all do."""

    old: Declared[Any] | None
    new: Declared[Any] | None
    within: tuple[str, ...] = ("",)


_Ends = tuple[Folder | None, Folder | None]


class End(NamedTuple):
    """What is on offer, and a tenant's folder, at one end of a change."""

    offers: Offers
    folder: Folder


def reasons(before: End, after: End, model: type[Declaration], name: str, cluster: str, noted: Noted) -> list[str]:
    """Return why a thing that is there at both ends changes, each reason with its file."""
    old, new = before.folder.of(model).get(name), after.folder.of(model).get(name)
    own = list(_told(old, new, noted)) if old is not None and new is not None else []
    if own:
        return _first(own)
    found = [words for pair in _beside(before, after, new or old, cluster) for words in _related(*pair, noted)]
    if found:
        return _first(dict.fromkeys(found))
    if old is not None and new is not None and old.data != new.data:
        return [f"{new.path}: its text, and nothing that it declares"]
    same = {one.path: one.data for one in before.folder.all()} == {one.path: one.data for one in after.folder.all()}
    return ["what the platform offers changed" if same else "another file of its tenant changed"]


def _first(several: Collection[str]) -> list[str]:
    more = len(several) - SHOWN
    return [*list(several)[:SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _told(old: Declared[Any], new: Declared[Any], noted: Noted) -> Iterator[str]:
    for one in noted.of(old, new):
        yield f"{new.path}: {one}"


def _related(
    old: Declared[Any] | None, new: Declared[Any] | None, within: tuple[str, ...], noted: Noted
) -> Iterator[str]:
    """Yield what differs of a declaration that another one depends on, as far as that can reach it."""
    if old is None or new is None:
        if there := new or old:
            yield f"{there.path}: {'added' if old is None else 'removed'}"
        return
    for one in noted.of(old, new):
        rendered = not (one.field.startswith(_UNRENDERED) or one.field.endswith(".capacity") or ".folders" in one.field)
        if rendered and one.field.startswith(within):
            yield f"{new.path}: {one}"


def _beside(before: End, after: End, thing: Declared[Any] | None, cluster: str) -> Iterator[_Pair]:
    """Yield both ends of each declaration that a thing depends on, the nearest first."""

    def both(
        folders: _Ends, model: type[Declaration], name: str | None, within: tuple[str, ...] = ("",)
    ) -> Iterator[_Pair]:
        ends = [None if one is None or name is None else one.of(model).get(name) for one in folders]
        if ends[0] is not None or ends[1] is not None:
            yield _Pair(ends[0], ends[1], within)

    def each(folders: _Ends, model: type[Declaration]) -> Iterator[_Pair]:
        names = [set[str]() if one is None else set(one.of(model)) for one in folders]
        for name in sorted(names[0] | names[1]):
            yield from both(folders, model, name)

    own = before.folder, after.folder
    platform = before.offers.platform, after.offers.platform
    place = before.offers.clusters.get(cluster), after.offers.clusters.get(cluster)
    for model, name, within in _named(thing.model if thing else None):
        yield from both(own if model in (GPUStorage, GPUStorageSnapshot) else platform, model, name, (within,))
    for model in (Members, Tenant):
        yield from each(own, model)
    yield from both(place, Cluster, cluster, _of_cluster(thing.model if thing else None))
    if thing is not None and isinstance(thing.model, GPUInstance):
        stocks = [pair for pair in each(place, Stock) if _holds(pair, thing.model.spec.gpu_spec)]
        yield from stocks
        pools = {one.model.spec.node_pool for pair in stocks for one in (pair.old, pair.new) if one is not None}
        for pool in sorted(pools):
            yield from both(place, NodePool, pool)
    yield from each(platform, Platform)


def _named(model: Declaration | None) -> Iterator[tuple[type[Declaration], str | None, str]]:
    """Yield what a thing names of its tenant and of the platform: kind, name, and the field of it that counts."""
    if isinstance(model, GPUInstance):
        spec = model.spec
        if spec.app is not None:
            yield App, spec.app.name, f"spec.versions[{spec.app.version}]"
        yield GPUSpec, spec.gpu_spec, ""
        for storage in (*(one.name for one in spec.storages), *(one.name for one in spec.buckets)):
            yield GPUStorage, storage, "spec.prepare"
    elif isinstance(model, GPUStorage):
        source = model.spec.prepare.source if model.spec.prepare else None
        yield StorageSpec, model.spec.storage_spec, ""
        yield GPUStorage, source.storage.name if source and source.storage and not source.storage.tenant else None, ""
        yield GPUStorageSnapshot, source.snapshot.name if source and source.snapshot else None, ""
    elif isinstance(model, GPUStorageSnapshot):
        yield GPUStorage, model.spec.storage, ""


def _of_cluster(model: Declaration | None) -> tuple[str, ...]:
    """Return the fields of a cluster from which a thing is rendered."""
    if isinstance(model, GPUInstance):
        return (*_SERVED, "spec.diskStorageClassName", "spec.storages", "spec.network")
    if isinstance(model, GPUStorage):
        classes = [f"spec.storages[{model.spec.storage_spec}].{field}" for field in _CLASSES]
        return (*_SERVED, *classes)
    return ("spec.storages",)


def _holds(pair: _Pair, gpu_spec: str) -> bool:
    """Return whether a Stock is, or was, of a GPUSpec."""
    return any(one is not None and one.model.spec.gpu_spec == gpu_spec for one in (pair.old, pair.new))
