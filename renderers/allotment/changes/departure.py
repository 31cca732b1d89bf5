"""What is declared no more leaves in steps, so that nothing is lost by one merge, by a rename or by a mistake.

A storage or snapshot goes in these steps; an instance has no data and goes at once:

    storage/<name>.yaml           declared, or marked by deletionPolicy: Delete, and protected
    storage/<name>--leaving.yaml  the file is gone: the volume alone, protected until it was marked for MARKED_SECONDS
    the same, unprotected         Argo CD may prune it, the cluster lets it go
    nothing                       after STEP_SECONDS, so that the step before has been synced

A tenant leaves a cluster after its last volume there: then its Applications go and its namespace is unprotected, then the
namespace goes. Argo CD reads the option that keeps a thing from the live object, hence a step of its own to drop it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from allotment.declared.layout import Scope, path_of
from allotment.manifests import paths
from allotment.manifests.published import leaving_namespace, leaving_volume, lifecycle_of, volume_of
from allotment.problems import Finding
from allotment.rules.deletion import snapshot_gone, storage_gone, tenant_gone

MARKED_SECONDS = 3600  # the two merges that delete data lie so far apart, at least
STEP_SECONDS = 600  # Argo CD looks for a new commit every three minutes


class Remains(NamedTuple):
    """What stays of a tenant in a cluster although it is no longer rendered.

    With `findings` the deletion is not allowed, and the tenant keeps all it had. `pending` says in words what is on its
    way out.
    """

    files: dict[str, bytes]
    findings: list[Finding]
    pending: list[str]


class Leaver(NamedTuple):
    """A tenant some of whose published files are no longer rendered for a cluster.

    `gone` are the paths of those files; `read` returns a published file's bytes and `age` the seconds since the last
    commit that changed a file or folder.
    """

    tenant: str
    declared: bool
    rendered: Collection[str]
    gone: Collection[str]
    read: Callable[[str], bytes]
    age: Callable[[str], float]


def remains(leaver: Leaver) -> Remains:
    """Return what stays of what is gone."""
    found = Remains({}, [], [])
    for path in sorted(leaver.gone):
        spot = paths.spot_of(path)
        if spot is not None and spot.part == "storage" and spot.name not in (paths.MARKER, paths.LEAVING_MARKER):
            _storage(leaver, path, spot.name, found)
    if not leaver.rendered:
        _tenant(leaver, found)
    return found


def _storage(leaver: Leaver, path: str, stem: str, found: Remains) -> None:
    name = stem.removesuffix(paths.LEAVING)
    if paths.tenant_file(leaver.tenant, "storage", name) in leaver.rendered:
        return  # declared again, and protected again
    data = leaver.read(path)
    volume = volume_of(data)
    if volume is None:
        return
    spot = paths.Spot(leaver.tenant, "storage", name)
    if volume.deletion_policy != "Delete":
        gone = snapshot_gone if spot.kind == "snapshot" else storage_gone
        found.findings.append(gone(declaration_of(spot), spot.thing))
        return
    if not volume.protected and leaver.age(path) >= STEP_SECONDS:
        return
    protected = volume.protected and leaver.age(path) < MARKED_SECONDS
    left = paths.tenant_file(leaver.tenant, "storage", name + paths.LEAVING)
    found.files[left] = leaving_volume(data, protected=protected)
    state = "kept until it was marked for an hour" if protected else "unprotected, goes with a later publish"
    found.pending.append(f"{spot.kind} {leaver.tenant}/{spot.thing}: {state}")


def declaration_of(spot: paths.Spot) -> str:
    """Return the path of a storage's or snapshot's declaration."""
    kind = "GPUStorageSnapshot" if spot.kind == "snapshot" else "GPUStorage"
    return path_of(kind, Scope("tenant", spot.tenant), spot.thing)


def _tenant(leaver: Leaver, found: Remains) -> None:
    argo, namespace = paths.argo_file(leaver.tenant), paths.namespace_file(leaver.tenant)
    if argo in leaver.gone:
        if not leaver.declared and lifecycle_of(leaver.read(argo)) != "Retired":
            path = path_of("Tenant", Scope("tenant", leaver.tenant), leaver.tenant)
            found.findings.append(tenant_gone(path, leaver.tenant))
            return
        if found.files or not _empty(leaver) or leaver.age(f"tenants/{leaver.tenant}") < STEP_SECONDS:
            found.files[argo] = leaver.read(argo)
            found.files[namespace] = leaver.read(namespace)
            for path, data in _markers(leaver):
                found.files[path] = data
            found.pending.append(f"tenant {leaver.tenant}: its Applications go when what it had is gone")
            return
        found.files[namespace] = leaving_namespace(leaver.read(namespace))
        found.pending.append(f"tenant {leaver.tenant}: its namespace is unprotected, goes with a later publish")
    elif namespace in leaver.gone and leaver.age(namespace) < STEP_SECONDS:
        found.files[namespace] = leaver.read(namespace)
        found.pending.append(f"tenant {leaver.tenant}: its namespace is unprotected, goes with a later publish")


def _empty(leaver: Leaver) -> bool:
    """Return whether nothing but what keeps the folders was published, so that all else has been pruned."""
    spots = [paths.spot_of(path) for path in leaver.gone]
    return all(spot is None or spot.part not in paths.PARTS or spot.name == paths.LEAVING_MARKER for spot in spots)


def _markers(leaver: Leaver) -> Iterator[tuple[str, bytes]]:
    """Yield what keeps the tenant's folders from being empty, under the name that says it is leaving."""
    for part in paths.PARTS:
        for stem in (paths.MARKER, paths.LEAVING_MARKER):
            path = paths.tenant_file(leaver.tenant, part, stem)
            if path in leaver.gone:
                yield paths.tenant_file(leaver.tenant, part, paths.LEAVING_MARKER), leaver.read(path)
