"""Instances, storages and snapshots as a commit declares them, and as they are published."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.commit_source import CommitSource
from allotment.changes.brake import Counted
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.app import App
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import PLATFORM, Meaning, Scope, path_of, scope_of, spot_of
from allotment.declared.placement import cluster_of as named_cluster
from allotment.declared.reading import read_declaration
from allotment.declared.things import INSTANCE, THINGS, TenantThing
from allotment.manifests import paths
from allotment.manifests.published import declared_blob, volume_of
from allotment.manifests.retained_instance import waiting_words
from allotment.observed.rollout import LeavingVolume, Merged, MergedBlobs
from allotment.pipeline.declared import platform_of
from allotment.readiness.instances import waits_for
from allotment.readiness.standing import PREPARED


class DeclaredThing(NamedTuple):
    """A declared thing: what it is, whose, its name, and the file that declares it."""

    kind: str
    tenant: str
    name: str
    path: str


def thing_at(path: str) -> DeclaredThing | None:
    """Return the thing that a path declares; None where it declares none that a status lists."""
    if not path.startswith("tenants/") or not isinstance(spot := spot_of(path), Meaning):
        return None
    resource_kind: TenantThing | None = next(
        (candidate for candidate in THINGS.values() if candidate.kind == spot.kind and candidate.reported), None
    )
    return DeclaredThing(resource_kind.word, spot.scope.name, spot.name, path) if resource_kind is not None else None


def things_of(source: CommitSource, tenant: str) -> Iterator[DeclaredThing]:
    """Yield the things that a commit declares of a tenant, in the order of their paths."""
    for path in source.files(Scope("tenant", tenant)).paths:
        if (resource := thing_at(path)) is not None:
            yield resource


def declared_at(source: CommitSource, path: str) -> Declared[Declaration] | None:
    """Return what a path declares; None where there is nothing, or it can't be read."""
    spot = spot_of(path)
    assert isinstance(spot, Meaning)
    try:
        return read_declaration(path, source.read(path), spot)[0]
    except KeyError:
        return None


def cluster_of(source: CommitSource, declared: Declared[Declaration] | None) -> str:
    """Return the cluster of a tenant's resource; empty where there is none."""
    if declared is None:
        return ""
    scope = scope_of(declared.path)

    def lookup(kind: str, name: str) -> Declaration | None:
        target = declared_at(source, path_of(kind, scope, name))
        return target.model if target is not None else None

    return named_cluster(declared.model, lookup)


def stopped_by(source: CommitSource, path: str) -> str | None:
    """Return why an instance isn't to run by what a commit declares, in words; empty where it is to, and None where it
    can't be read, or is no instance."""
    declared = declared_at(source, path)
    if declared is None or not isinstance(declared.model, GPUInstance):
        return None
    scope, choice = scope_of(path), declared.model.spec.app
    tenant = declared_at(source, path_of(Tenant.__name__, scope, scope.name))
    app = declared_at(source, path_of(App.__name__, PLATFORM, choice.name)) if choice is not None else None
    offers = Offers(Folder(PLATFORM, [app] if app else []), {}, datetime.date.min)  # of which nothing is priced
    folder = Folder(scope, [declared, *([tenant] if tenant else [])])
    waits = waits_for(offers, folder, PREPARED, declared.model)
    return waits[0].words if waits else ""


def is_declared_in(source: CommitSource, spot: DeclaredThing, cluster: str) -> bool:
    """Return whether a thing is declared in a cluster. A file that has the line as `allot fmt` writes it isn't parsed for
    that: a tenant that hides the line in another text misleads who looks at its own thing, and nobody else."""
    line = f"\n  cluster: {cluster}\n".encode()
    return line in source.read(spot.path) or cluster_of(source, declared_at(source, spot.path)) == cluster


def is_declared(source: CommitSource, item: Counted) -> bool:
    """Return whether a commit declares an item of the brake, in the same cluster; of a tenant, whether it has a folder."""
    if not item.name:
        return Scope("tenant", item.tenant) in source.scopes()[0]
    path = THINGS[item.kind].declaration(item.tenant, item.name)
    return cluster_of(source, declared_at(source, path)) == item.cluster


def published_blobs(resource: Merged, source: CommitSource, branches: Mapping[str, Branch]) -> MergedBlobs:
    """Return what is published of a thing: `source` is the commit that the rendered branches are of."""
    kind = THINGS[resource.kind]
    path = kind.declaration(resource.tenant, resource.name)
    blob = source.blob(path) or ""
    if blob and not resource.blob and cluster_of(source, declared_at(source, path)) != resource.cluster:
        blob = ""  # it moved away: here it is gone
    branch = branches.get(resource.cluster)
    file = paths.tenant_file(resource.tenant, kind.part, kind.stem(resource.name))
    data = branch.read(file) if branch is not None and file in branch.files else b""
    rendered = declared_blob(data) if data else ""
    leaving_path = paths.tenant_file(resource.tenant, kind.part, kind.stem(resource.name) + paths.LEAVING)
    if resource.blob or rendered or branch is None or leaving_path not in branch.files:
        keeps = waiting_words(data) if rendered and kind is INSTANCE and rendered != blob else ""
        return MergedBlobs(blob, rendered, waits=keeps)
    volume, platform = volume_of(branch.read(leaving_path)), platform_of(source)
    after = platform.spec.deletion.after if platform is not None else 0
    return MergedBlobs(blob, rendered, LeavingVolume(volume.protected, after) if volume is not None else None)
