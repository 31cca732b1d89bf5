"""Find out why a tenant's resource changes.

The causes are the changed fields in the file of the resource. If no field of this file changes, the causes are the
changed fields in the files that the resource depends on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
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
from allotment.diff.field_diff import DiffCache
from allotment.diff.tenant_side import TenantSide

MAX_SHOWN_CAUSES = 6
# If these fields of a dependency change, the manifests of the resource that depends on it stay the same.
_UNRENDERED_FIELDS = (
    "spec.displayName", "spec.description", "spec.prices", "spec.snapshotPrices", "spec.plan", "spec.quota",
    "spec.brake", "spec.billing", "spec.count", "spec.warm", "metadata.labels",
)  # fmt: skip


# In a Cluster, `_STORAGE_CLASS_FIELDS` affect the manifests of storages. `_ROUTING_FIELDS` affect the routes of
# instances and of accessors (web pages that show the files of storages).
_STORAGE_CLASS_FIELDS = ("storageClassName", "volumeSnapshotClassName", "cloning", "objectStore")
_ROUTING_FIELDS = ("spec.destination", "spec.domain", "spec.gateway", "spec.oidc")


class _DeclarationPair(NamedTuple):
    """A declaration that a resource depends on, before and after a change.

    `relevant_fields` has prefixes of the fields that affect the resource.
    """

    old: DeclarationFile[Any] | None
    new: DeclarationFile[Any] | None
    relevant_fields: tuple[str, ...] = ("",)


_FolderPair = tuple[ScopeDeclarations | None, ScopeDeclarations | None]


def find_causes(
    before: TenantSide, after: TenantSide, model: type[Declaration], name: str, cluster: str, cache: DiffCache
) -> list[str]:
    """Return the causes of a resource's change, each with its file. The resource exists before and after the change."""
    old, new = before.folder.of_kind(model).get(name), after.folder.of_kind(model).get(name)
    own = list(_field_causes(old, new, cache)) if old is not None and new is not None else []
    if own:
        return _first_causes(own)
    related_lines = [
        cause
        for pair in _dependency_pairs(before, after, new or old, cluster)
        for cause in _dependency_causes(*pair, cache)
    ]
    if related_lines:
        return _first_causes(dict.fromkeys(related_lines))
    if old is not None and new is not None and old.data != new.data:
        return [f"{new.path}: only its text, not its meaning"]
    same = {declaration.path: declaration.data for declaration in before.folder.all_declarations()} == {
        declaration.path: declaration.data for declaration in after.folder.all_declarations()
    }
    if same:
        return ["the platform's catalog changed"]
    stays = ", and the files on the storage stay" if model is GPUStorage else ""
    return [f"another file of its tenant changed{stays}"]


def _first_causes(lines: Collection[str]) -> list[str]:
    more = len(lines) - MAX_SHOWN_CAUSES
    return [*list(lines)[:MAX_SHOWN_CAUSES], *([f"and {more} more"] if more > 0 else [])]


def _field_causes(old: DeclarationFile[Any], new: DeclarationFile[Any], cache: DiffCache) -> Iterator[str]:
    for change in cache.field_changes(old, new):
        yield f"{new.path}: {change}"


def _dependency_causes(
    old: DeclarationFile[Any] | None, new: DeclarationFile[Any] | None, within: tuple[str, ...], cache: DiffCache
) -> Iterator[str]:
    """Yield the changes of a declaration that a resource depends on.

    If the declaration exists before and after the change, yield each changed field that affects manifests and starts
    with a prefix in `within`. Otherwise, yield the addition or the removal of the declaration.
    """
    if old is None or new is None:
        if declaration := new or old:
            yield f"{declaration.path}: {'added' if old is None else 'removed'}"
        return
    for change in cache.field_changes(old, new):
        rendered = not (
            change.field.startswith(_UNRENDERED_FIELDS)
            or change.field.endswith(".capacity")
            or ".folders" in change.field
        )
        if rendered and change.field.startswith(within):
            yield f"{new.path}: {change}"


def _dependency_pairs(
    before: TenantSide, after: TenantSide, resource: DeclarationFile[Any] | None, cluster: str
) -> Iterator[_DeclarationPair]:
    """Yield each declaration that a resource depends on, before and after the change.

    Direct dependencies come first.
    """

    def both(
        folders: _FolderPair, model: type[Declaration], name: str | None, within: tuple[str, ...] = ("",)
    ) -> Iterator[_DeclarationPair]:
        ends = [None if folder is None or name is None else folder.of_kind(model).get(name) for folder in folders]
        if ends[0] is not None or ends[1] is not None:
            yield _DeclarationPair(ends[0], ends[1], within)

    def each(folders: _FolderPair, model: type[Declaration]) -> Iterator[_DeclarationPair]:
        names = [set[str]() if folder is None else set(folder.of_kind(model)) for folder in folders]
        for name in sorted(names[0] | names[1]):
            yield from both(folders, model, name)

    own = before.folder, after.folder
    platform = before.catalog.platform, after.catalog.platform
    place = before.catalog.clusters.get(cluster), after.catalog.clusters.get(cluster)
    for model, name, within in _named_dependencies(resource.model if resource else None):
        yield from both(own if model in (GPUStorage, GPUStorageSnapshot) else platform, model, name, (within,))
    for model in (Members, Tenant):
        yield from each(own, model)
    yield from both(place, Cluster, cluster, _relevant_cluster_fields(resource.model if resource else None))
    if resource is not None and isinstance(resource.model, GPUInstance):
        stocks = [pair for pair in each(place, Stock) if _is_stock_of_spec(pair, resource.model.spec.gpu_spec)]
        yield from stocks
        pools = {stock.model.spec.node_pool for pair in stocks for stock in (pair.old, pair.new) if stock is not None}
        for pool in sorted(pools):
            yield from both(place, NodePool, pool)
    yield from each(platform, Platform)


def _named_dependencies(model: Declaration | None) -> Iterator[tuple[type[Declaration], str | None, str]]:
    """Yield the kind, the name and the relevant field of each declaration that a resource names.

    These declarations belong to the tenant or to the platform.
    """
    if isinstance(model, GPUInstance):
        spec = model.spec
        if spec.app is not None:
            yield App, spec.app.name, f"spec.versions[{spec.app.version}]"
        yield GPUSpec, spec.gpu_spec, ""
        for storage in (*(mount.name for mount in spec.storages), *(bucket.name for bucket in spec.buckets)):
            yield GPUStorage, storage, "spec.prepare"
    elif isinstance(model, GPUStorage):
        source = model.spec.prepare.source if model.spec.prepare else None
        yield StorageSpec, model.spec.storage_spec, ""
        yield GPUStorage, source.storage.name if source and source.storage and not source.storage.tenant else None, ""
        yield GPUStorageSnapshot, source.snapshot.name if source and source.snapshot else None, ""
    elif isinstance(model, GPUStorageSnapshot):
        yield GPUStorage, model.spec.storage, ""


def _relevant_cluster_fields(model: Declaration | None) -> tuple[str, ...]:
    """Return the fields of a cluster that affect a rendered resource."""
    if isinstance(model, GPUInstance):
        return (*_ROUTING_FIELDS, "spec.diskStorageClassName", "spec.storages", "spec.network")
    if isinstance(model, GPUStorage):
        classes = [f"spec.storages[{model.spec.storage_spec}].{field}" for field in _STORAGE_CLASS_FIELDS]
        return (*_ROUTING_FIELDS, *classes)
    return ("spec.storages",)


def _is_stock_of_spec(pair: _DeclarationPair, gpu_spec: str) -> bool:
    """Return whether a Stock holds units of a GPUSpec, before or after the change."""
    return any(stock is not None and stock.model.spec.gpu_spec == gpu_spec for stock in (pair.old, pair.new))
