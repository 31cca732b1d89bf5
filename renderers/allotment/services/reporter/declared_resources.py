"""Instances, storages and snapshots as a commit declares them, and as they are published."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.branches.branch import Branch
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.app import App
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import PLATFORM, DeclarationPath, Scope, parse_path, path_of, scope_of
from allotment.declared.placement import cluster_of as named_cluster
from allotment.declared.reading import read_declaration
from allotment.declared.tenant_resources import INSTANCE, RESOURCE_KINDS, ResourceKind
from allotment.lifecycle.brake import BrakeItem
from allotment.lifecycle.published_manifests import read_declared_blob, read_volume
from allotment.lifecycle.retained_instance import read_wait_message
from allotment.manifests import paths
from allotment.observed.rollout import BlobVersions, DeletingVolume, ResourceRef
from allotment.preparation.runtime_state import ALL_PREPARED
from allotment.preparation.start_gates import find_start_gates
from allotment.services.platform_settings import read_platform


class DeclaredResource(NamedTuple):
    """A declared thing: what it is, whose, its name, and the file that declares it."""

    kind: str
    tenant: str
    name: str
    path: str


def parse_resource_path(path: str) -> DeclaredResource | None:
    """Return the thing that a path declares; None where it declares none that a status lists."""
    if not path.startswith("tenants/") or not isinstance(spot := parse_path(path), DeclarationPath):
        return None
    resource_kind: ResourceKind | None = next(
        (candidate for candidate in RESOURCE_KINDS.values() if candidate.kind == spot.kind and candidate.reported), None
    )
    return DeclaredResource(resource_kind.word, spot.scope.name, spot.name, path) if resource_kind is not None else None


def list_resources(source: CommitSource, tenant: str) -> Iterator[DeclaredResource]:
    """Yield the things that a commit declares of a tenant, in the order of their paths."""
    for path in source.files(Scope("tenant", tenant)).paths:
        if (resource := parse_resource_path(path)) is not None:
            yield resource


def read_declaration_at(source: CommitSource, path: str) -> DeclarationFile[Declaration] | None:
    """Return what a path declares; None where there is nothing, or it can't be read."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath)
    try:
        return read_declaration(path, source.read(path), spot)[0]
    except KeyError:
        return None


def find_cluster(source: CommitSource, declared: DeclarationFile[Declaration] | None) -> str:
    """Return the cluster of a tenant's resource; empty where there is none."""
    if declared is None:
        return ""
    scope = scope_of(declared.path)

    def lookup(kind: str, name: str) -> Declaration | None:
        target = read_declaration_at(source, path_of(kind, scope, name))
        return target.model if target is not None else None

    return named_cluster(declared.model, lookup)


def explain_stop(source: CommitSource, path: str) -> str | None:
    """Return why an instance isn't to run by what a commit declares, in words; empty where it is to, and None where it
    can't be read, or is no instance."""
    declared = read_declaration_at(source, path)
    if declared is None or not isinstance(declared.model, GPUInstance):
        return None
    scope, choice = scope_of(path), declared.model.spec.app
    tenant = read_declaration_at(source, path_of(Tenant.__name__, scope, scope.name))
    app = read_declaration_at(source, path_of(App.__name__, PLATFORM, choice.name)) if choice is not None else None
    offers = Catalog(
        ScopeDeclarations(PLATFORM, [app] if app else []), {}, datetime.date.min
    )  # of which nothing is priced
    folder = ScopeDeclarations(scope, [declared, *([tenant] if tenant else [])])
    waits = find_start_gates(offers, folder, ALL_PREPARED, declared.model)
    return waits[0].message if waits else ""


def is_declared_in(source: CommitSource, spot: DeclaredResource, cluster: str) -> bool:
    """Return whether a thing is declared in a cluster. A file that has the line as `allot fmt` writes it isn't parsed for
    that: a tenant that hides the line in another text misleads who looks at its own thing, and nobody else."""
    line = f"\n  cluster: {cluster}\n".encode()
    return line in source.read(spot.path) or find_cluster(source, read_declaration_at(source, spot.path)) == cluster


def is_declared(source: CommitSource, item: BrakeItem) -> bool:
    """Return whether a commit declares an item of the brake, in the same cluster; of a tenant, whether it has a folder."""
    if not item.name:
        return Scope("tenant", item.tenant) in source.scopes()[0]
    path = RESOURCE_KINDS[item.kind].declaration_path(item.tenant, item.name)
    return find_cluster(source, read_declaration_at(source, path)) == item.cluster


def read_published_blobs(resource: ResourceRef, source: CommitSource, branches: Mapping[str, Branch]) -> BlobVersions:
    """Return what is published of a thing: `source` is the commit that the rendered branches are of."""
    kind = RESOURCE_KINDS[resource.kind]
    path = kind.declaration_path(resource.tenant, resource.name)
    blob = source.blob(path) or ""
    if blob and not resource.blob and find_cluster(source, read_declaration_at(source, path)) != resource.cluster:
        blob = ""  # it moved away: here it is gone
    branch = branches.get(resource.cluster)
    file = paths.resource_file(resource.tenant, kind.tree_part, kind.file_stem(resource.name))
    data = branch.read(file) if branch is not None and file in branch.files else b""
    rendered = read_declared_blob(data) if data else ""
    leaving_path = paths.resource_file(
        resource.tenant, kind.tree_part, kind.file_stem(resource.name) + paths.DELETING_SUFFIX
    )
    if resource.blob or rendered or branch is None or leaving_path not in branch.files:
        keeps = read_wait_message(data) if rendered and kind is INSTANCE and rendered != blob else ""
        return BlobVersions(blob, rendered, wait_message=keeps)
    volume, platform = read_volume(branch.read(leaving_path)), read_platform(source)
    after = platform.spec.deletion.after if platform is not None else 0
    return BlobVersions(blob, rendered, DeletingVolume(volume.protected, after) if volume is not None else None)
