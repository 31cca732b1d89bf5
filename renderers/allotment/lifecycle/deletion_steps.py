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
from allotment.declared.tenant_resources import RESOURCE_KINDS, SNAPSHOT, STORAGE, TREE_PARTS
from allotment.declared.values import format_duration
from allotment.lifecycle.published_manifests import deleting_namespace, deleting_volume, read_lifecycle, read_volume
from allotment.manifests import paths
from allotment.problems import Finding
from allotment.rules.deletion import snapshot_removal_finding, storage_removal_finding, tenant_removal_finding

NAMESPACE = ("namespace", "")


class ClusterObservation(NamedTuple):
    """What a cluster was seen to have of a tenant when it was last looked at.

    `present` are its things, by kind and name, and its namespace (NAMESPACE); `marked_seconds` are the seconds for which one
    was seen to be marked for deletion, `unprotected` those that were seen to be let go. `is_observed` says whether
    anything is.
    """

    is_observed: bool = False
    present: Collection[tuple[str, str]] = ()
    marked_seconds: Mapping[tuple[str, str], float] = {}
    unprotected: Collection[tuple[str, str]] = ()

    def has_released(self, resource: tuple[str, str]) -> bool:
        """Return whether the cluster was seen to have let a thing go, or not to have it."""
        return self.is_observed and (resource in self.unprotected or resource not in self.present)

    @property
    def is_empty(self) -> bool:
        """Whether nothing but the namespace was seen there."""
        return self.is_observed and set(self.present) <= {NAMESPACE}


_NAMESPACE_PENDING_TEXT = "its namespace is unprotected, goes once the cluster was seen to have it so"
_UNOBSERVED_TEXT = "; nothing reports that cluster, so nothing goes"


class RemovalStep(NamedTuple):
    """What stays of a tenant in a cluster although it is no longer rendered.

    With `findings` the deletion is not allowed, and the tenant keeps all it had. `pending_deletions` says in words what is on its
    way out.
    """

    files: dict[str, bytes]
    findings: list[Finding]
    pending_deletions: list[str]


class Removal(NamedTuple):
    """A tenant some of whose published files are no longer rendered for a cluster.

    `removed_paths` are the paths of those files; `read_published` returns a published file's bytes. `observation` is what the cluster was
    seen to have, and `grace_seconds` the seconds for which it must have been seen to have a thing marked.
    """

    tenant: str
    is_declared: bool
    rendered_paths: Collection[str]
    removed_paths: Collection[str]
    read_published: Callable[[str], bytes]
    observation: ClusterObservation
    grace_seconds: float


def next_removal_step(leaver: Removal) -> RemovalStep:
    """Return what stays of what is gone."""
    step = RemovalStep({}, [], [])
    for path in sorted(leaver.removed_paths):
        spot = paths.parse_tree_path(path)
        if spot is not None and spot.part == "storage" and spot.is_resource_file:
            _remove_volume(leaver, path, spot.name, step)
    if not leaver.rendered_paths:
        _remove_tenant(leaver, step)
    return step


def _remove_volume(leaver: Removal, path: str, stem: str, step: RemovalStep) -> None:
    name = stem.removesuffix(paths.DELETING_SUFFIX)
    if paths.resource_file(leaver.tenant, "storage", name) in leaver.rendered_paths:
        return  # declared again, and protected again
    data = leaver.read_published(path)
    volume = read_volume(data)
    if volume is None:
        return
    spot = paths.TreePath(leaver.tenant, "storage", name)
    if volume.deletion_policy != "Delete":
        make_finding = snapshot_removal_finding if spot.kind == SNAPSHOT.word else storage_removal_finding
        step.findings.append(make_finding(declaration_path(spot), spot.resource_name))
        return
    resource = spot.kind, spot.resource_name
    if not volume.protected and leaver.observation.has_released(resource):
        return
    protected = volume.protected and leaver.observation.marked_seconds.get(resource, -1) < leaver.grace_seconds
    leaving_path = paths.resource_file(leaver.tenant, "storage", name + paths.DELETING_SUFFIX)
    step.files[leaving_path] = deleting_volume(data, protected=protected)
    marked = f"kept until the cluster was seen to have it marked for {format_duration(leaver.grace_seconds)}"
    state = marked if protected else "unprotected, goes once the cluster was seen to have it so"
    step.pending_deletions.append(
        f"{spot.kind} {leaver.tenant}/{spot.resource_name}: {state}{'' if leaver.observation.is_observed else _UNOBSERVED_TEXT}"
    )


def declaration_path(spot: paths.TreePath) -> str:
    """Return the path of a storage's or snapshot's declaration; of a file that we wouldn't name so, a storage's."""
    return RESOURCE_KINDS.get(spot.kind, STORAGE).declaration_path(spot.tenant, spot.resource_name)


def _remove_tenant(leaver: Removal, step: RemovalStep) -> None:
    argo, namespace = paths.argo_file(leaver.tenant), paths.namespace_file(leaver.tenant)
    if argo in leaver.removed_paths:
        if not leaver.is_declared and read_lifecycle(leaver.read_published(argo)) != "Retired":
            path = path_of("Tenant", Scope("tenant", leaver.tenant), leaver.tenant)
            step.findings.append(tenant_removal_finding(path, leaver.tenant))
            return
        if step.files or not _holds_only_markers(leaver) or not leaver.observation.is_empty:
            step.files[argo] = leaver.read_published(argo)
            step.files[namespace] = leaver.read_published(namespace)
            for path, data in _deletion_markers(leaver):
                step.files[path] = data
            step.pending_deletions.append(
                f"tenant {leaver.tenant}: its Applications go once the cluster was seen to have nothing of it"
            )
            return
        step.files[namespace] = deleting_namespace(leaver.read_published(namespace))
        step.pending_deletions.append(f"tenant {leaver.tenant}: {_NAMESPACE_PENDING_TEXT}")
    elif namespace in leaver.removed_paths and not leaver.observation.has_released(NAMESPACE):
        step.files[namespace] = leaver.read_published(namespace)
        step.pending_deletions.append(
            f"tenant {leaver.tenant}: {_NAMESPACE_PENDING_TEXT}{'' if leaver.observation.is_observed else _UNOBSERVED_TEXT}"
        )


def _holds_only_markers(leaver: Removal) -> bool:
    """Return whether nothing but what keeps the folders was published, so that all else has been pruned."""
    spots = [paths.parse_tree_path(path) for path in leaver.removed_paths]
    return all(
        spot is None or spot.part not in TREE_PARTS or spot.name == paths.DELETING_FOLDER_MARKER for spot in spots
    )


def _deletion_markers(leaver: Removal) -> Iterator[tuple[str, bytes]]:
    """Yield what keeps the tenant's folders from being empty, under the name that says it is leaving."""
    for part in TREE_PARTS:
        for stem in (paths.FOLDER_MARKER, paths.DELETING_FOLDER_MARKER):
            path = paths.resource_file(leaver.tenant, part, stem)
            if path in leaver.removed_paths:
                yield (
                    paths.resource_file(leaver.tenant, part, paths.DELETING_FOLDER_MARKER),
                    leaver.read_published(path),
                )
