"""Removes in steps what is declared no more, so that no data is lost by one merge, by a rename or by a mistake.

A storage or snapshot goes in these steps; an instance has no data and goes at once:

    storage/<name>.yaml           declared, or marked by deletionPolicy: Delete, and protected
    storage/<name>--leaving.yaml  the file is gone: the volume, protected until it was seen marked for `spec.deletion.after`
    the same, unprotected         Argo CD may prune it, the cluster lets it go
    nothing                       once the cluster was seen to have it unprotected

A tenant leaves a cluster after its last volume there: then its Applications go and its namespace is unprotected,
then the namespace goes. Argo CD reads the option that keeps a thing from the live object, hence a step of its own
to drop it.

Every step waits for what the cluster was seen to have, and time is between two times of its own API server: neither
a clock of ours nor the date of a commit, which anybody may write, makes a step come sooner. Without a status
nothing goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from allotment.declared.layout import Scope, path_of
from allotment.declared.things import PARTS, SNAPSHOT, STORAGE, THINGS
from allotment.declared.values import duration_text
from allotment.manifests import paths
from allotment.manifests.published import leaving_namespace, leaving_volume, lifecycle_of, volume_of
from allotment.problems import Finding
from allotment.rules.deletion import snapshot_gone, storage_gone, tenant_gone

NAMESPACE = ("namespace", "")


class Sighting(NamedTuple):
    """What a cluster was seen to have of a tenant when it was last looked at.

    `there` are its things, by kind and name, and its namespace (NAMESPACE); `marked` are the seconds for which one
    was seen to be marked for deletion, `unprotected` those that were seen to be let go. `known` says whether
    anything is.
    """

    known: bool = False
    there: Collection[tuple[str, str]] = ()
    marked: Mapping[tuple[str, str], float] = {}
    unprotected: Collection[tuple[str, str]] = ()

    def has_let_go(self, resource: tuple[str, str]) -> bool:
        """Return whether the cluster was seen to have let a thing go, or not to have it."""
        return self.known and (resource in self.unprotected or resource not in self.there)

    @property
    def empty(self) -> bool:
        """Whether nothing but the namespace was seen there."""
        return self.known and set(self.there) <= {NAMESPACE}


_NAMESPACE_GOES = "its namespace is unprotected, goes once the cluster was seen to have it so"
_UNKNOWN = "; nothing reports that cluster, so nothing goes"


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

    `gone` are the paths of those files; `read` returns a published file's bytes. `seen` is what the cluster was
    seen to have, and `after` the seconds for which it must have been seen to have a thing marked.
    """

    tenant: str
    declared: bool
    rendered: Collection[str]
    gone: Collection[str]
    read: Callable[[str], bytes]
    seen: Sighting
    after: float


def remains(leaver: Leaver) -> Remains:
    """Return what stays of what is gone."""
    step = Remains({}, [], [])
    for path in sorted(leaver.gone):
        spot = paths.spot_of(path)
        if spot is not None and spot.part == "storage" and spot.is_of_thing:
            _storage(leaver, path, spot.name, step)
    if not leaver.rendered:
        _tenant(leaver, step)
    return step


def _storage(leaver: Leaver, path: str, stem: str, step: Remains) -> None:
    name = stem.removesuffix(paths.LEAVING)
    if paths.tenant_file(leaver.tenant, "storage", name) in leaver.rendered:
        return  # declared again, and protected again
    data = leaver.read(path)
    volume = volume_of(data)
    if volume is None:
        return
    spot = paths.Spot(leaver.tenant, "storage", name)
    if volume.deletion_policy != "Delete":
        make_finding = snapshot_gone if spot.kind == SNAPSHOT.word else storage_gone
        step.findings.append(make_finding(declaration_of(spot), spot.thing))
        return
    resource = spot.kind, spot.thing
    if not volume.protected and leaver.seen.has_let_go(resource):
        return
    protected = volume.protected and leaver.seen.marked.get(resource, -1) < leaver.after
    leaving_path = paths.tenant_file(leaver.tenant, "storage", name + paths.LEAVING)
    step.files[leaving_path] = leaving_volume(data, protected=protected)
    marked = f"kept until the cluster was seen to have it marked for {duration_text(leaver.after)}"
    state = marked if protected else "unprotected, goes once the cluster was seen to have it so"
    step.pending.append(f"{spot.kind} {leaver.tenant}/{spot.thing}: {state}{'' if leaver.seen.known else _UNKNOWN}")


def declaration_of(spot: paths.Spot) -> str:
    """Return the path of a storage's or snapshot's declaration; of a file that we wouldn't name so, a storage's."""
    return THINGS.get(spot.kind, STORAGE).declaration(spot.tenant, spot.thing)


def _tenant(leaver: Leaver, step: Remains) -> None:
    argo, namespace = paths.argo_file(leaver.tenant), paths.namespace_file(leaver.tenant)
    if argo in leaver.gone:
        if not leaver.declared and lifecycle_of(leaver.read(argo)) != "Retired":
            path = path_of("Tenant", Scope("tenant", leaver.tenant), leaver.tenant)
            step.findings.append(tenant_gone(path, leaver.tenant))
            return
        if step.files or not _empty(leaver) or not leaver.seen.empty:
            step.files[argo] = leaver.read(argo)
            step.files[namespace] = leaver.read(namespace)
            for path, data in _markers(leaver):
                step.files[path] = data
            step.pending.append(
                f"tenant {leaver.tenant}: its Applications go once the cluster was seen to have nothing of it"
            )
            return
        step.files[namespace] = leaving_namespace(leaver.read(namespace))
        step.pending.append(f"tenant {leaver.tenant}: {_NAMESPACE_GOES}")
    elif namespace in leaver.gone and not leaver.seen.has_let_go(NAMESPACE):
        step.files[namespace] = leaver.read(namespace)
        step.pending.append(f"tenant {leaver.tenant}: {_NAMESPACE_GOES}{'' if leaver.seen.known else _UNKNOWN}")


def _empty(leaver: Leaver) -> bool:
    """Return whether nothing but what keeps the folders was published, so that all else has been pruned."""
    spots = [paths.spot_of(path) for path in leaver.gone]
    return all(spot is None or spot.part not in PARTS or spot.name == paths.LEAVING_MARKER for spot in spots)


def _markers(leaver: Leaver) -> Iterator[tuple[str, bytes]]:
    """Yield what keeps the tenant's folders from being empty, under the name that says it is leaving."""
    for part in PARTS:
        for stem in (paths.MARKER, paths.LEAVING_MARKER):
            path = paths.tenant_file(leaver.tenant, part, stem)
            if path in leaver.gone:
                yield paths.tenant_file(leaver.tenant, part, paths.LEAVING_MARKER), leaver.read(path)
