"""Instances, storages and snapshots as a commit declares them, and as they are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.commit_source import CommitSource
from allotment.declared.inventory import Declared
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.layout import Meaning, Scope, path_of, scope_of, spot_of
from allotment.declared.reading import read_declaration
from allotment.declared.things import THINGS, TenantThing
from allotment.manifests import paths
from allotment.manifests.published import declared_blob
from allotment.observed.rollout import Merged, MergedBlobs


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
    found: TenantThing | None = next((one for one in THINGS.values() if one.kind == spot.kind and one.reported), None)
    return DeclaredThing(found.word, spot.scope.name, spot.name, path) if found is not None else None


def things_of(source: CommitSource, tenant: str) -> Iterator[DeclaredThing]:
    """Yield the things that a commit declares of a tenant, in the order of their paths."""
    for path in source.files(Scope("tenant", tenant)).paths:
        if (found := thing_at(path)) is not None:
            yield found


def declared_at(source: CommitSource, path: str) -> Declared[Declaration] | None:
    """Return what a path declares; None where there is nothing, or it can't be read."""
    spot = spot_of(path)
    assert isinstance(spot, Meaning)
    try:
        return read_declaration(path, source.read(path), spot)[0]
    except KeyError:
        return None


def cluster_of(source: CommitSource, declared: Declared[Declaration] | None) -> str:
    """Return the cluster of an instance or storage, of a snapshot its storage's; empty where there is none."""
    if declared is None:
        return ""
    if isinstance(declared.model, GPUStorageSnapshot):
        scope = scope_of(declared.path)
        return cluster_of(source, declared_at(source, path_of(GPUStorage.__name__, scope, declared.model.spec.storage)))
    return str(declared.model.spec.cluster)  # type: ignore[attr-defined]  # both have one


def is_declared_in(source: CommitSource, spot: DeclaredThing, cluster: str) -> bool:
    """Return whether a thing is declared in a cluster. A file that has the line as `allot fmt` writes it isn't parsed for
    that: a tenant that hides the line in another text misleads who looks at its own thing, and nobody else."""
    line = f"\n  cluster: {cluster}\n".encode()
    return line in source.read(spot.path) or cluster_of(source, declared_at(source, spot.path)) == cluster


def published_blobs(thing: Merged, source: CommitSource, branches: Mapping[str, Branch]) -> MergedBlobs:
    """Return what is published of a thing: `source` is the commit that the rendered branches are of."""
    kind = THINGS[thing.kind]
    path = kind.declaration(thing.tenant, thing.name)
    blob = source.blob(path) or ""
    if blob and not thing.blob and cluster_of(source, declared_at(source, path)) != thing.cluster:
        blob = ""  # it moved away: here it is gone
    branch = branches.get(thing.cluster)
    file = paths.tenant_file(thing.tenant, kind.part, kind.stem(thing.name))
    rendered = declared_blob(branch.read(file)) if branch is not None and file in branch.files else ""
    return MergedBlobs(blob, rendered)
