"""Computes a tenant's transition: the change from its published files to their next versions.

The transition has the next file of each published volume, and the deletion steps of undeclared resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from allotment.lifecycle import program_references
from allotment.lifecycle.deletion_steps import (
    ClusterObservation,
    Removal,
    RemovalStep,
    declaration_path,
    next_removal_step,
)
from allotment.lifecycle.published_manifests import reprotected, with_predecessor
from allotment.lifecycle.volume_transitions import StorageUsers, VolumeTransition, next_file
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of
from allotment.observed.conditions import seconds_between
from allotment.problems import Finding
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.published_trees import PublishedTrees, deleting_path
from allotment.services.publish.rendered_tenant import RenderedTenant


class TenantTransition(NamedTuple):
    """The transition of a tenant.

    - `findings` are the reasons why the transition is refused and the tenant is retained; empty for an allowed
      transition.
    - `updated` has each file that replaces the rendered file, because its content depends on published files or on the
      status.
    - `retained` has the files that are published without being rendered: files of undeclared resources, and programs
      (ConfigMaps with scripts) that Jobs still name.
    - `unreferenced` has the paths of rendered programs that are not published, because no Job names them yet.
    - `pending_deletions` and `pending_preparations` are messages about deletions in progress and preparations that
      wait.
    """

    findings: list[Finding]
    updated: dict[str, bytes]
    retained: dict[str, bytes]
    pending_deletions: list[str]
    pending_preparations: list[str]
    unreferenced: frozenset[str] = frozenset()


NO_TRANSITION = TenantTransition([], {}, {}, [], [])


class TransitionContext(NamedTuple):
    """The inputs of a transition.

    - `observed_state` is the content of the clusters' statuses.
    - `grace_seconds` is the time for which a volume stays marked for deletion before a publish removes it.
    - `find_users` returns the instances and Jobs that may delay a new preparation of a storage in a cluster.
    - `find_last_job_uid` returns the uid of the Job that last prepared a storage with a given name in a cluster.
    - `find_lifecycle` returns the declared lifecycle of the tenant; empty if it can't be read.
    """

    observed_state: ObservedState
    grace_seconds: float
    find_users: Callable[[str, str], StorageUsers]
    find_last_job_uid: Callable[[str, str], str]
    find_lifecycle: Callable[[], str] = str


def transition_tenant(
    tenant: str,
    declared: bool,
    rendered: RenderedTenant | None,
    published_trees: PublishedTrees,
    context: TransitionContext,
) -> TenantTransition:
    """Return the transition of a tenant; `declared` is true if the tenant has a folder."""
    now = rendered or RenderedTenant({}, {}, ())
    removals = _remove_files(tenant, declared, now, published_trees, context)
    follow_ups = {
        path: _update_storage(path, now, published_trees, context)
        for path in _list_changed_storages(tenant, now, published_trees)
    }
    tenant_transition = TenantTransition(
        findings=[
            *(finding for step in removals.values() for finding in step.findings),
            *(finding for follow_up in follow_ups.values() for finding in follow_up.findings),
        ],
        updated={path: follow_up.data for path, follow_up in follow_ups.items()}
        | {
            path: with_predecessor(now.read_file(path), uid)
            for path, uid in _find_recreated_storages(now, published_trees, context)
        },
        retained={
            f"{cluster}/{inner}": data for cluster, step in removals.items() for inner, data in step.files.items()
        },
        pending_deletions=[
            f"{cluster}: {message}" for cluster, step in removals.items() for message in step.pending_deletions
        ],
        pending_preparations=[
            _format_pending_preparation(tenant, path, follow_up.pending_reason)
            for path, follow_up in follow_ups.items()
            if follow_up.pending_reason
        ],
    )
    return _with_referenced_programs(now, published_trees, tenant_transition)


def _remove_files(
    tenant: str, declared: bool, now: RenderedTenant, published_trees: PublishedTrees, context: TransitionContext
) -> dict[str, RemovalStep]:
    """Return, by cluster, the next step in the removal of the published files that are no longer rendered."""
    removed_paths = published_trees.tenant_files.get(tenant, {}).keys() - now.blobs.keys()

    def next_step(cluster: str) -> RemovalStep:
        prefix = f"{cluster}/"
        return next_removal_step(
            Removal(
                tenant=tenant,
                is_declared=declared,
                rendered_paths={path.removeprefix(prefix) for path in now.blobs if path.startswith(prefix)},
                removed_paths={path.removeprefix(prefix) for path in removed_paths if path.startswith(prefix)},
                read_published=published_trees.branches[cluster].read,
                observation=_observe_cluster(cluster, tenant, context.observed_state),
                grace_seconds=context.grace_seconds,
                lifecycle=context.find_lifecycle() if declared else "",
            )
        )

    return {cluster: next_step(cluster) for cluster in sorted({path.partition("/")[0] for path in removed_paths})}


def _with_referenced_programs(
    now: RenderedTenant, published_trees: PublishedTrees, tenant_transition: TenantTransition
) -> TenantTransition:
    """Return the transition with more retained files: published programs that Jobs of the storages name."""
    own_files = {**tenant_transition.updated, **tenant_transition.retained}
    folders = {folder_of(path) for path in own_files}
    if not folders:
        return tenant_transition
    files = [
        path
        for path in {**now.blobs, **own_files}
        if (folder := folder_of(path)) in folders and folder.endswith("/storage")
    ]

    def read(path: str) -> bytes:
        if path in own_files:
            return own_files[path]
        is_published = published_trees.find_blob(path) == now.blobs[path]
        return published_trees.read_file(path) if is_published else now.read_file(path)

    missing, unnamed = program_references.check_programs(files, read)
    programs = {path: published_trees.read_file(path) for path in sorted(missing) if published_trees.find_blob(path)}
    return tenant_transition._replace(retained=tenant_transition.retained | programs, unreferenced=unnamed)


def _update_storage(
    path: str, now: RenderedTenant, published_trees: PublishedTrees, context: TransitionContext
) -> VolumeTransition:
    """Return the file that follows the published file of a storage or snapshot."""
    cluster, _, inner = path.partition("/")
    tree_path = paths.parse_tree_path(inner)
    assert tree_path is not None
    published_data = (
        published_trees.read_file(path)
        if published_trees.find_blob(path)
        else reprotected(published_trees.read_file(deleting_path(path)))
    )
    return next_file(
        declaration_path(tree_path),
        published_data,
        now.read_file(path),
        lambda: context.find_users(cluster, tree_path.name),
    )


def _format_pending_preparation(tenant: str, path: str, reason: str) -> str:
    cluster, _, inner = path.partition("/")
    tree_path = paths.parse_tree_path(inner)
    assert tree_path is not None
    return f"{cluster}: {tree_path.kind} {tenant}/{tree_path.resource_name}: {reason}"


def _list_changed_storages(tenant: str, now: RenderedTenant, published_trees: PublishedTrees) -> list[str]:
    """Return the paths of published storages and snapshots with changed rendered files.

    Includes the storages and snapshots that are being deleted.
    """
    part = f"/tenants/{tenant}/storage/"
    changed = [path for path, blob in now.blobs.items() if part in path and published_trees.find_blob(path) != blob]
    return [
        path
        for path in changed
        if _is_resource_file(path)
        and (published_trees.find_blob(path) or published_trees.find_blob(deleting_path(path)))
    ]


def _is_resource_file(path: str) -> bool:
    tree_path = paths.parse_tree_path(path.partition("/")[2])
    return tree_path is not None and tree_path.is_resource_file


def _find_recreated_storages(
    now: RenderedTenant, published_trees: PublishedTrees, context: TransitionContext
) -> Iterator[tuple[str, str]]:
    """Yield each new storage that replaces an earlier storage of the same name: its path, and the uid of a Job.

    The Job prepared the earlier storage, and did not prepare the new storage.
    """
    for path in now.blobs:
        if published_trees.find_blob(path) is not None:
            continue
        cluster, _, inner = path.partition("/")
        tree_path = paths.parse_tree_path(inner)
        if tree_path is None or tree_path.kind != "storage":
            continue
        if published_trees.branches[cluster].published_commit is None:
            continue  # the branch has no published commit, so it lacks even the storages that are not new
        uid = context.find_last_job_uid(cluster, tree_path.name)
        if uid and not published_trees.find_blob(deleting_path(path)):
            yield path, uid


def _observe_cluster(cluster: str, tenant: str, observed_state: ObservedState) -> ClusterObservation:
    """Return the observation of a tenant in a cluster, with times by the cluster's own clock."""
    observed, observed_tenant = observed_state.observed_at.get(cluster, ""), observed_state.find_tenant(tenant)
    if not observed or cluster in observed_tenant.unreadable_clusters:
        return ClusterObservation()
    marked = {
        resource_key[1:]: _elapsed_seconds(since, observed)
        for resource_key, since in observed_tenant.marked_since.items()
        if resource_key[0] == cluster
    }
    return ClusterObservation(
        True,
        {resource_key[1:] for resource_key in observed_tenant.present if resource_key[0] == cluster},
        {resource_key: seconds for resource_key, seconds in marked.items() if seconds is not None},
        {resource_key[1:] for resource_key in observed_tenant.unprotected if resource_key[0] == cluster},
    )


def _elapsed_seconds(since: str, until: str) -> float | None:
    """Return the seconds between two times of a cluster's API server; None if a status has an invalid time."""
    try:
        return seconds_between(since, until)
    except ValueError:
        return None
