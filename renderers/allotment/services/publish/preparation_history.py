"""Finds the preparations that have succeeded, and the instances and Jobs that may delay the next preparation.

The sources are the observed state and the published manifests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from allotment.branches.branch import Branch
from allotment.capacity.units import UnitClaim
from allotment.lifecycle.published_manifests import (
    read_mounts,
)
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.manifests import paths
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.published_file_cache import PublishedFileCache


class PreparationHistory:
    """The preparations of all tenants, according to the observed state and the published manifests."""

    def __init__(
        self, observed_state: ObservedState, branches: Mapping[str, Branch], file_cache: PublishedFileCache
    ) -> None:
        self._observed_state = observed_state
        self._branches = branches
        self._file_cache = file_cache

    def list_succeeded_jobs(self) -> dict[str, frozenset[tuple[str, str]]]:
        """Return, by tenant, the Jobs that have prepared the storages of the tenant, as (cluster, Job).

        Leaves out a Job that prepared an earlier storage of the same name. The published file of a storage records the
        Job that prepared it. This record stays valid if the status is lost or old, so that an open start gate stays
        open. The record becomes invalid only if a status reports the prepared volume as gone and, in addition, no
        published instance runs on the storage.
        """
        jobs_by_tenant: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for tenant, observed_tenant in self._observed_state.tenants.items():
            for (cluster, storage), attempt in observed_tenant.attempts.items():
                if attempt.succeeded and self._is_current(cluster, tenant, storage, attempt.uid):
                    jobs_by_tenant[tenant].add((cluster, attempt.job))
        for cluster, branch in self._branches.items():
            for tenant, storage, job, older in self._list_prepared_storages(branch):
                if job and not self._is_volume_lost(cluster, tenant, storage, job):
                    jobs_by_tenant[tenant].add((cluster, job))
                elif older and self._was_open(cluster, tenant, storage):
                    jobs_by_tenant[tenant].add((cluster, older))
        return {tenant: frozenset(jobs) for tenant, jobs in jobs_by_tenant.items()}

    def _is_volume_lost(self, cluster: str, tenant: str, storage: str, job: str) -> bool:
        """Return whether a status reports a Job's volume as gone, and no published instance runs on the storage."""
        attempt = self._observed_state.find_tenant(tenant).attempts.get((cluster, storage))
        if attempt is None or not attempt.volume_lost or attempt.job != job:
            return False
        return not self._is_used(cluster, tenant, storage)

    def _was_open(self, cluster: str, tenant: str, storage: str) -> bool:
        """Return whether an older version of Allotment, which recorded no Job, published a storage as prepared.

        The evidence is a published instance that runs on the storage, or a published NetworkPolicy `share--<storage>`.
        """
        path = paths.namespace_file(tenant)
        branch = self._branches[cluster]
        shared = f"\n  name: share--{storage}\n".encode()
        return self._is_used(cluster, tenant, storage) or (path in branch.files and shared in branch.read(path))

    def _is_used(self, cluster: str, tenant: str, storage: str) -> bool:
        """Return whether a published instance runs on a storage."""
        folder = f"tenants/{tenant}/compute/"
        published = [f"{cluster}/{path}" for path in self._branches[cluster].files if path.startswith(folder)]
        return any(
            self._is_running(cluster, tenant, instance)
            for instance in self._find_mounting_instances(cluster, storage, published)
        )

    def find_last_job_uid(self, cluster: str, tenant: str, storage: str) -> str:
        """Return the uid of the Job that last prepared a storage of this name; empty if no such Job is known."""
        attempt = self._observed_state.find_tenant(tenant).attempts.get((cluster, storage))
        return attempt.uid if attempt else ""

    def find_storage_users(
        self, cluster: str, tenant: str, storage: str, claims: Mapping[str, UnitClaim], published: Iterable[str]
    ) -> StorageUsers:
        """Return the instances and Jobs that use a storage. They may delay the storage's next preparation.

        `claims` are the current claims of the tenant's instances, by name; `published` are the paths of the tenant's
        published files.
        """
        observed_tenant = self._observed_state.find_tenant(tenant)
        running, stopping = [], []
        for name in self._find_mounting_instances(cluster, storage, published):
            claim = claims.get(name)
            if claim is not None and claim.cluster == cluster and self._is_running(cluster, tenant, name):
                running.append(name)
            elif (cluster, name) in observed_tenant.with_pods or self._is_running(cluster, tenant, name):
                stopping.append(name)
        attempt = observed_tenant.attempts.get((cluster, storage))
        jobs = [attempt.job] if attempt is not None else []
        over, is_prune_protected = (
            attempt is not None and attempt.finished,
            attempt is not None and attempt.prune_protected,
        )
        return StorageUsers(running, stopping, jobs if over else (), jobs if is_prune_protected else ())

    def _find_mounting_instances(self, cluster: str, storage: str, published: Iterable[str]) -> list[str]:
        branch, instance_names = self._branches[cluster], []
        for path in sorted(published):
            place, _, inner = path.partition("/")
            tree_path = paths.parse_tree_path(inner) if place == cluster else None
            if tree_path is not None and tree_path.kind == "instance" and storage in read_mounts(branch.read(inner)):
                instance_names.append(tree_path.name)
        return instance_names

    def find_published_claim(self, claim: UnitClaim) -> UnitClaim | None:
        """Return the published claim of the instance and cluster that `claim` names; None if it has no units."""
        return self._read_published_claim(claim.cluster, claim.tenant, claim.instance)

    def _read_published_claim(self, cluster: str, tenant: str, instance: str) -> UnitClaim | None:
        return self._file_cache.read_claim(self._branches[cluster], cluster, tenant, instance)

    def _is_running(self, cluster: str, tenant: str, instance: str) -> bool:
        claim = self._read_published_claim(cluster, tenant, instance)
        return claim is not None and claim.rendered > 0

    def _is_current(self, cluster: str, tenant: str, storage: str, uid: str) -> bool:
        """Return whether the Job `uid` prepared the published storage, and not an earlier storage of the same name.

        If nothing has been published on the branch yet, return True.
        """
        branch = self._branches.get(cluster)
        if branch is None:
            return False
        path = paths.resource_file(tenant, "storage", storage)
        if path not in branch.files:
            return branch.published_commit is None
        return self._file_cache.read_predecessor(branch, path) != uid

    def _list_prepared_storages(self, branch: Branch) -> Iterator[tuple[str, str, str, str]]:
        """Yield the tenant, the name and the Jobs of each published storage with a preparation.

        Includes the storages that are being deleted. `PublishedFileCache.read_prepared_jobs` describes the Jobs.
        """
        tree_paths = {
            path: tree_path
            for path in branch.files
            if "/storage/" in path
            and (tree_path := paths.parse_tree_path(path))
            and tree_path.part == "storage"
            and tree_path.is_resource_file
        }
        for path, jobs in self._file_cache.read_prepared_jobs(branch, tree_paths).items():
            if any(jobs):
                yield tree_paths[path].tenant, tree_paths[path].name.removesuffix(paths.DELETING_SUFFIX), *jobs
