"""Removes undeclared resources in steps, so that no single merge, rename or mistake loses data.

Three terms describe the progress of a deletion:

- The mark is an annotation of a volume in the cluster. It says that the declaration has `deletionPolicy: Delete`. The
  reporter records when it first saw the mark.
- A protected object has annotations that stop Argo CD from pruning it and the cluster from deleting it.
- A deletion file is the published file of an undeclared storage or snapshot. Its name ends in `--leaving`.

A publish removes an instance at once, because an instance has no data. A publish removes a storage or snapshot in
steps. Each line below shows the published file of one step, and the state of the resource in this step:

    storage/<name>           declared and protected; with `deletionPolicy: Delete`, also marked
    storage/<name>--leaving  undeclared and protected, until the mark is at least `spec.deletion.after` old
    storage/<name>--leaving  undeclared and unprotected: Argo CD may prune the volume, and the cluster may delete it
    no file                  the status shows the volume as unprotected or absent

A publish removes a tenant from a cluster after the last resource of the tenant in that cluster is gone. One step
removes the tenant's Applications and the protection of its namespace. The next step removes the namespace. Argo CD reads
the option `Prune=false` from the live object, so the removal of the protection is always a separate step.

Every step waits until the status of the cluster, which the reporter writes, confirms the previous step. The age of a
mark is the difference between two times of the cluster's own API server, because a local clock or the date of a commit
could be wrong or forged. Without a status of the cluster, a publish removes no volume and no tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from allotment.declared.layout import Scope, path_of
from allotment.declared.tenant_resources import RESOURCE_KINDS, SNAPSHOT, STORAGE, TREE_PARTS
from allotment.declared.values import format_duration
from allotment.lifecycle.published_manifests import (
    deleting_namespace,
    deleting_volume,
    read_lifecycle,
    read_volume,
    with_lifecycle,
)
from allotment.manifests import paths
from allotment.problems import Finding
from allotment.rules.deletion import snapshot_removal_finding, storage_removal_finding, tenant_removal_finding

NAMESPACE = ("namespace", "")


class ClusterObservation(NamedTuple):
    """The last observation of a tenant in a cluster.

    - `is_observed` is false if the cluster has no readable status. In this case, the other fields are empty.
    - `present` has (kind, name) of each resource that exists in the cluster, and NAMESPACE if the namespace exists.
    - `marked_seconds` maps a marked resource to the seconds between its mark and the observation.
    - `unprotected` are the entries of `present` that have no protection.
    """

    is_observed: bool = False
    present: Collection[tuple[str, str]] = ()
    marked_seconds: Mapping[tuple[str, str], float] = {}
    unprotected: Collection[tuple[str, str]] = ()

    def has_released(self, resource: tuple[str, str]) -> bool:
        """Return whether the observation shows a resource as unprotected or as absent."""
        return self.is_observed and (resource in self.unprotected or resource not in self.present)

    @property
    def is_empty(self) -> bool:
        """Whether the observation shows no resource of the tenant. The namespace may still exist."""
        return self.is_observed and set(self.present) <= {NAMESPACE}


_NAMESPACE_PENDING_TEXT = "its namespace is no longer protected; it is removed after the status confirms that"
_UNOBSERVED_TEXT = "; no reporter watches this cluster, so nothing is removed"


class RemovalStep(NamedTuple):
    """The next step of a removal.

    - `files` are the tenant's files that the next commit contains although they are no longer rendered.
    - `findings` are the reasons why the deletion is not allowed. If there is a finding, the tenant stays at its last
      published manifests.
    - `pending_deletions` are messages about deletions in progress.
    """

    files: dict[str, bytes]
    findings: list[Finding]
    pending_deletions: list[str]


class Removal(NamedTuple):
    """The removal of a tenant's files in one cluster: files that are published and no longer rendered.

    - `is_declared` is true if the tenant still has a folder of declarations. `lifecycle` is then its declared lifecycle; empty if it
      can't be read.
    - `rendered_paths` are the paths of the files that are still rendered for the cluster.
    - `removed_paths` are the paths of the published files that are no longer rendered.
    - `read_published` returns the bytes of a published file.
    - `observation` is the last observation of the tenant in the cluster.
    - `grace_seconds` is `spec.deletion.after`: a volume keeps its protection until its mark has this age.
    """

    tenant: str
    is_declared: bool
    rendered_paths: Collection[str]
    removed_paths: Collection[str]
    read_published: Callable[[str], bytes]
    observation: ClusterObservation
    grace_seconds: float
    lifecycle: str = ""


def next_removal_step(leaver: Removal) -> RemovalStep:
    """Return the next step of a removal."""
    step = RemovalStep({}, [], [])
    for path in sorted(leaver.removed_paths):
        tree_path = paths.parse_tree_path(path)
        if tree_path is not None and tree_path.part == "storage" and tree_path.is_resource_file:
            _remove_volume(leaver, path, tree_path.name, step)
    if not leaver.rendered_paths:
        _remove_tenant(leaver, step)
    return step


def _remove_volume(leaver: Removal, path: str, stem: str, step: RemovalStep) -> None:
    name = stem.removesuffix(paths.DELETING_SUFFIX)
    if paths.resource_file(leaver.tenant, "storage", name) in leaver.rendered_paths:
        return  # the resource is declared again, so its rendered file protects it
    data = leaver.read_published(path)
    volume = read_volume(data)
    if volume is None:
        return
    tree_path = paths.TreePath(leaver.tenant, "storage", name)
    if volume.deletion_policy != "Delete":
        make_finding = snapshot_removal_finding if tree_path.kind == SNAPSHOT.word else storage_removal_finding
        step.findings.append(make_finding(declaration_path(tree_path), tree_path.resource_name))
        return
    resource = tree_path.kind, tree_path.resource_name
    if not volume.protected and leaver.observation.has_released(resource):
        return
    protected = volume.protected and leaver.observation.marked_seconds.get(resource, -1) < leaver.grace_seconds
    leaving_path = paths.resource_file(leaver.tenant, "storage", name + paths.DELETING_SUFFIX)
    step.files[leaving_path] = deleting_volume(data, protected=protected)
    marked = f"kept until the status shows that it has been marked for {format_duration(leaver.grace_seconds)}"
    state = marked if protected else "no longer protected; it is removed after the status confirms that"
    step.pending_deletions.append(
        f"{tree_path.kind} {leaver.tenant}/{tree_path.resource_name}: {state}{'' if leaver.observation.is_observed else _UNOBSERVED_TEXT}"
    )


def declaration_path(tree_path: paths.TreePath) -> str:
    """Return the path of the declaration of a storage or snapshot.

    If the kind is unknown, return the path that a storage of this name would have.
    """
    return RESOURCE_KINDS.get(tree_path.kind, STORAGE).declaration_path(tree_path.tenant, tree_path.resource_name)


def _remove_tenant(leaver: Removal, step: RemovalStep) -> None:
    argo, namespace = paths.argo_file(leaver.tenant), paths.namespace_file(leaver.tenant)
    if argo in leaver.removed_paths:
        if not leaver.is_declared and read_lifecycle(leaver.read_published(argo)) != "Retired":
            path = path_of("Tenant", Scope("tenant", leaver.tenant), leaver.tenant)
            step.findings.append(tenant_removal_finding(path, leaver.tenant))
            return
        if step.files or not _holds_only_markers(leaver) or not leaver.observation.is_empty:
            # The Applications may outlast the folder of declarations, and then tell that the tenant was retired before.
            published = leaver.read_published(argo)
            step.files[argo] = with_lifecycle(published, leaver.lifecycle) if leaver.lifecycle else published
            step.files[namespace] = leaver.read_published(namespace)
            for path, data in _deletion_markers(leaver):
                step.files[path] = data
            step.pending_deletions.append(
                f"tenant {leaver.tenant}: its Applications are removed after the status shows that nothing of the tenant is left"
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
    """Return whether all published files in the folders TREE_PARTS of a tenant are deletion markers.

    A deletion marker is the file `allotment--leaving`, which replaces the folder marker of a folder. If only deletion
    markers remain, an earlier publish has removed all other files of the folders.
    """
    tree_paths = [paths.parse_tree_path(path) for path in leaver.removed_paths]
    return all(
        tree_path is None or tree_path.part not in TREE_PARTS or tree_path.name == paths.DELETING_FOLDER_MARKER
        for tree_path in tree_paths
    )


def _deletion_markers(leaver: Removal) -> Iterator[tuple[str, bytes]]:
    """For each published folder marker, yield the path and content of the deletion marker that replaces it."""
    for part in TREE_PARTS:
        for stem in (paths.FOLDER_MARKER, paths.DELETING_FOLDER_MARKER):
            path = paths.resource_file(leaver.tenant, part, stem)
            if path in leaver.removed_paths:
                yield (
                    paths.resource_file(leaver.tenant, part, paths.DELETING_FOLDER_MARKER),
                    leaver.read_published(path),
                )
