"""Reads instances, storages and snapshots as a commit declares them, and as they are published."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.branches.branch import Branch
from allotment.branches.platform_settings import read_platform
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


class DeclaredResource(NamedTuple):
    """A declared resource: its kind, tenant and name, and the path of its file."""

    kind: str
    tenant: str
    name: str
    path: str


def parse_resource_path(path: str) -> DeclaredResource | None:
    """Return the resource that a path declares; None if it declares no resource that a status lists."""
    if not path.startswith("tenants/") or not isinstance(declaration_path := parse_path(path), DeclarationPath):
        return None
    resource_kind: ResourceKind | None = next(
        (
            candidate
            for candidate in RESOURCE_KINDS.values()
            if candidate.kind == declaration_path.kind and candidate.reported
        ),
        None,
    )
    return (
        DeclaredResource(resource_kind.word, declaration_path.scope.name, declaration_path.name, path)
        if resource_kind is not None
        else None
    )


def list_resources(source: CommitSource, tenant: str) -> Iterator[DeclaredResource]:
    """Yield the resources that a commit declares for a tenant, in the order of their paths."""
    for path in source.files(Scope("tenant", tenant)).paths:
        if (resource := parse_resource_path(path)) is not None:
            yield resource


def read_declaration_at(source: TreeSource, path: str) -> DeclarationFile[Declaration] | None:
    """Return the declaration at a path; None if there is none, or if it can't be read.

    The path may come from the name in an invalid reference.
    """
    declaration_path = parse_path(path)
    if not isinstance(declaration_path, DeclarationPath):
        return None
    try:
        return read_declaration(path, source.read(path), declaration_path)[0]
    except KeyError:
        return None


def find_cluster(source: CommitSource, declared: DeclarationFile[Declaration] | None) -> str:
    """Return the cluster of a tenant's resource; empty if it has none."""
    if declared is None:
        return ""
    scope = scope_of(declared.path)

    def lookup(kind: str, name: str) -> Declaration | None:
        target = read_declaration_at(source, path_of(kind, scope, name))
        return target.model if target is not None else None

    return named_cluster(declared.model, lookup)


def explain_stop(source: CommitSource, path: str) -> str | None:
    """Return the reason why the declarations keep an instance from running; empty if the instance should run.

    Returns None if the path can't be read or declares no instance.
    """
    declared = read_declaration_at(source, path)
    if declared is None or not isinstance(declared.model, GPUInstance):
        return None
    scope, choice = scope_of(path), declared.model.spec.app
    tenant = read_declaration_at(source, path_of(Tenant.__name__, scope, scope.name))
    app = read_declaration_at(source, path_of(App.__name__, PLATFORM, choice.name)) if choice is not None else None
    # The start gates depend neither on clusters nor on prices, so the catalog has no clusters and an arbitrary day.
    catalog = Catalog(ScopeDeclarations(PLATFORM, [app] if app else []), {}, datetime.date.min)
    folder = ScopeDeclarations(scope, [declared, *([tenant] if tenant else [])])
    waits = find_start_gates(catalog, folder, ALL_PREPARED, declared.model)
    return waits[0].message if waits else ""


def is_declared_in(source: CommitSource, resource: DeclaredResource, cluster: str) -> bool:
    """Return whether a resource is declared in a cluster.

    If the file has the line `cluster: NAME` as `allot fmt` writes it, the file is not parsed. A tenant can put such a
    line into a longer text, but this misleads only the view of the tenant's own resource.
    """
    line = f"\n  cluster: {cluster}\n".encode()
    return (
        line in source.read(resource.path)
        or find_cluster(source, read_declaration_at(source, resource.path)) == cluster
    )


def is_marked_for_deletion(source: CommitSource, path: str) -> bool:
    """Return whether the file at a path declares a storage or snapshot with `deletionPolicy: Delete`.

    A file without this field is not parsed.
    """
    if b"deletionPolicy" not in source.read(path):
        return False
    declared = read_declaration_at(source, path)
    return declared is not None and getattr(declared.model.spec, "deletion_policy", "") == "Delete"


def is_declared(source: CommitSource, item: BrakeItem) -> bool:
    """Return whether a commit declares an item that the brake counts.

    An instance, storage or snapshot must be declared in the cluster of the item. A tenant must have a folder.
    """
    if not item.name:
        return Scope("tenant", item.tenant) in source.scopes()[0]
    path = RESOURCE_KINDS[item.kind].declaration_path(item.tenant, item.name)
    return find_cluster(source, read_declaration_at(source, path)) == item.cluster


def prefetch_published(resources: Iterable[ResourceRef], source: CommitSource, branches: Mapping[str, Branch]) -> None:
    """Read the files that `read_published_blobs` reads for some resources, with one request for each branch."""
    files_by_cluster = defaultdict[str, list[str]](list)
    declarations = []
    for resource in resources:
        kind = RESOURCE_KINDS[resource.kind]
        stem = kind.file_stem(resource.name)
        files_by_cluster[resource.cluster].append(paths.resource_file(resource.tenant, kind.tree_part, stem))
        if not resource.blob:
            declarations.append(kind.declaration_path(resource.tenant, resource.name))
    source.prefetch(declarations)
    for cluster, branch in branches.items():
        branch.prefetch(files_by_cluster[cluster])


def read_published_blobs(resource: ResourceRef, source: CommitSource, branches: Mapping[str, Branch]) -> BlobVersions:
    """Return a resource's version in the published source commit, and its version in the cluster's rendered branch.

    `source` is the published source commit. If the volume of the resource is being deleted, the result says so.
    """
    kind = RESOURCE_KINDS[resource.kind]
    path = kind.declaration_path(resource.tenant, resource.name)
    blob = source.blob(path) or ""
    if blob and not resource.blob and find_cluster(source, read_declaration_at(source, path)) != resource.cluster:
        blob = ""  # the resource moved to another cluster, so it is removed in this cluster
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
