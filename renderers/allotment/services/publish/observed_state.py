"""Reads the clusters' status branches into the observed state: preparations, pods, and deletions in progress.

The status branch of a cluster describes only this cluster. A lost, unreadable or untrusted status is treated as absent.
Without a status, a publish removes no volume and no tenant (`lifecycle/deletion_steps`), and open start gates stay open
(`preparation_history`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from allotment import conditions as word
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.branches.status_branches import CLUSTER, StatusBranch, read_status_branches, tenant_of
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.manifests.yaml_text import Malformed
from allotment.observed.status import TenantStatus, parse_cluster_status, parse_tenant_status
from allotment.preparation.job_names import format_job_name
from allotment.problems import OperationRefused

_NEVER_STARTING_REASONS = (word.IMAGE_PULL_FAILED, word.IMAGE_PULL_UNAUTHORIZED, word.CONFIG_FAILED)
_REASONS_WITH_PODS = (word.TERMINATING, word.REMOVED_STILL_RUNNING)


class Attempt(NamedTuple):
    """The last attempt to prepare a storage: the name and uid of its Job, and its progress.

    - `finished` is true once the Job has ended or can never start. Only then may another attempt write to the volume.
    - `prune_protected` is true if the Job in the cluster has the annotation that stops Argo CD from pruning it.
    - `volume_lost` is true if the volume that the Job filled is gone.
    """

    job: str
    uid: str
    succeeded: bool
    finished: bool
    prune_protected: bool = False
    volume_lost: bool = False


ResourceKey = tuple[str, str, str]  # cluster, kind and name of a resource; the name of a namespace is empty


class ObservedTenant(NamedTuple):
    """The observed state of a tenant.

    - `attempts` has the last attempt to prepare each storage, by cluster and storage.
    - `with_pods` has the instances (cluster, name) that may have pods.
    - `pod_units` has the GPUSpec of the live pods and the units that these pods hold, by cluster and instance.
    - `present` has the instances, storages, snapshots and namespaces in the statuses. A status also lists a resource
      that is published but not created yet.
    - `marked_since` has, for each resource that is marked for deletion, the time of the mark by the API server's clock.
    - `unprotected` has the resources that are seen without their protection from deletion.
    - `unreadable_clusters` has the clusters in which the status of the tenant is unreadable, because another version of
      Allotment wrote it.
    - `pdb_clusters` has the clusters in which a PodDisruptionBudget protects the tenant's instances from node drains.
    """

    attempts: Mapping[tuple[str, str], Attempt] = {}
    with_pods: frozenset[tuple[str, str]] = frozenset()
    pod_units: Mapping[tuple[str, str], tuple[str, int]] = {}
    present: frozenset[ResourceKey] = frozenset()
    marked_since: Mapping[ResourceKey, str] = {}
    unprotected: frozenset[ResourceKey] = frozenset()
    unreadable_clusters: frozenset[str] = frozenset()
    pdb_clusters: frozenset[str] = frozenset()


NOTHING_OBSERVED = ObservedTenant()


class ObservedState(NamedTuple):
    """The content of the clusters' statuses, by tenant and by cluster.

    - `tenants` has each tenant that a status reports.
    - `observed_at` has, by cluster, the time of the status by the API server's clock; empty if the status has no time.
    - `commits` has, by cluster, the commit of the status.
    - `troubles` has, by cluster, the reason why the status is not trusted or cannot be read.
    """

    tenants: Mapping[str, ObservedTenant] = {}
    observed_at: Mapping[str, str] = {}
    commits: Mapping[str, str] = {}
    troubles: Mapping[str, str] = {}

    def find_tenant(self, tenant: str) -> ObservedTenant:
        """Return the observed state of a tenant; `NOTHING_OBSERVED` if no status reports it."""
        return self.tenants.get(tenant, NOTHING_OBSERVED)

    def deletion_clock(self) -> dict[str, str]:
        """Return, by cluster, the time of each status that reports a deletion in progress.

        The next step of the deletion depends on this time.
        """
        deleting = {key[0] for observed_tenant in self.tenants.values() for key in observed_tenant.marked_since}
        return {cluster: time for cluster, time in self.observed_at.items() if cluster in deleting}


EMPTY_STATE = ObservedState()


class StatusReader:
    """Reads status branches repeatedly. A file is parsed again only if it has changed.

    `state` is the result of the last read.
    """

    def __init__(self, repository: Repository, remote: Remote) -> None:
        self._repository = repository
        self.remote = remote
        self._files: dict[str, dict[str, tuple[str, ObservedTenant]]] = {}
        self.state = EMPTY_STATE

    def read(self, clusters: Mapping[str, str | None]) -> ObservedState:
        """Return the observed state; `clusters` maps each cluster to the declared public key of its reporter.

        If the remote does not answer, return the state of the last read with the error in `troubles`.
        """
        reports: Mapping[str, StatusBranch] = {}
        try:
            reports = read_status_branches(self._repository, self.remote, clusters) if clusters else {}
            troubles = {
                cluster: report.distrust_reason for cluster, report in reports.items() if report.distrust_reason
            }
        except OperationRefused as error:
            troubles = dict.fromkeys(clusters, str(error))
        observed_at = _without(self.state.observed_at, reports)
        commits = _without(self.state.commits, reports)
        for cluster, report in reports.items():
            if report.trusted_commit is not None:
                commits[cluster] = report.trusted_commit
                observed_at[cluster] = _read_observed_at(report.branch)
                self._files[cluster] = self._read_tenants(cluster, report.branch)
            else:
                self._files[cluster] = {}
        for removed_cluster in self._files.keys() - clusters.keys():
            del self._files[removed_cluster]
        self.state = ObservedState(self._merge_clusters(), observed_at, commits, troubles)
        return self.state

    def _read_tenants(self, cluster: str, branch: Branch) -> dict[str, tuple[str, ObservedTenant]]:
        previous_files, current_files = self._files.get(cluster, {}), {}
        for path, blob in branch.files.items():
            tenant = tenant_of(path)
            if tenant is None:
                continue
            previous_file = previous_files.get(tenant)
            current_files[tenant] = (
                previous_file
                if previous_file is not None and previous_file[0] == blob
                else (blob, _read_observed_tenant(cluster, branch.read(path)))
            )
        return current_files

    def _merge_clusters(self) -> dict[str, ObservedTenant]:
        together: dict[str, ObservedTenant] = {}
        for files in self._files.values():
            for tenant, (_, observed_tenant) in files.items():
                merged_tenant = together.get(tenant, NOTHING_OBSERVED)
                together[tenant] = ObservedTenant(
                    attempts={**merged_tenant.attempts, **observed_tenant.attempts},
                    with_pods=merged_tenant.with_pods | observed_tenant.with_pods,
                    pod_units={**merged_tenant.pod_units, **observed_tenant.pod_units},
                    present=merged_tenant.present | observed_tenant.present,
                    marked_since={**merged_tenant.marked_since, **observed_tenant.marked_since},
                    unprotected=merged_tenant.unprotected | observed_tenant.unprotected,
                    unreadable_clusters=merged_tenant.unreadable_clusters | observed_tenant.unreadable_clusters,
                    pdb_clusters=merged_tenant.pdb_clusters | observed_tenant.pdb_clusters,
                )
        return {
            tenant: observed_tenant
            for tenant, observed_tenant in together.items()
            if observed_tenant != NOTHING_OBSERVED
        }


def _without(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}


def _read_observed_at(branch: Branch) -> str:
    """Return the time of a cluster's last observation; empty if the status of the cluster has no time."""
    try:
        return parse_cluster_status(branch.read(CLUSTER)).observed_at if CLUSTER in branch.files else ""
    except Malformed:
        return ""


def _read_observed_tenant(cluster: str, data: bytes) -> ObservedTenant:
    try:
        status: TenantStatus = parse_tenant_status(data)
    except Malformed:
        # The reporter will replace the unreadable file.
        return ObservedTenant(unreadable_clusters=frozenset((cluster,)))
    attempts = {}
    for storage in status.storages:
        if storage.prepare is not None:
            prepare = storage.prepare
            attempts[cluster, storage.name] = Attempt(
                format_job_name(storage.name, prepare.input_hash, prepare.attempt),
                prepare.uid,
                prepare.state == word.SUCCEEDED,
                prepare.state in (word.SUCCEEDED, word.FAILED) or prepare.reason in _NEVER_STARTING_REASONS,
                prepare.is_prune_protected,
                prepare.reason == word.OF_ANOTHER_VOLUME,
            )
    quiet = (word.STOPPED, word.WAITING)
    live = {
        (cluster, instance.name)
        for instance in status.instances
        if instance.state not in quiet or instance.reason in _REASONS_WITH_PODS or instance.nodes or instance.pods
    }
    resource_times: dict[ResourceKey, Mapping[str, str]] = {
        (cluster, kind, resource.name): {
            condition.type: condition.last_transition_time for condition in resource.conditions
        }
        for kind, resource_kind in RESOURCE_KINDS.items()
        if resource_kind.reported
        for resource in getattr(status, resource_kind.plural)
    }
    if status.namespace:
        resource_times[cluster, "namespace", ""] = {status.namespace: ""}
    return ObservedTenant(
        attempts,
        frozenset(live),
        {
            (cluster, instance.name): (instance.gpu_spec, instance.pods)
            for instance in status.instances
            if instance.pods and instance.gpu_spec
        },
        frozenset(resource_times),
        {
            place: times[word.MARKED_FOR_DELETION]
            for place, times in resource_times.items()
            if word.MARKED_FOR_DELETION in times
        },
        frozenset(place for place, times in resource_times.items() if word.UNPROTECTED in times),
        pdb_clusters=frozenset((cluster,) if status.disruption == word.PROTECTED else ()),
    )
