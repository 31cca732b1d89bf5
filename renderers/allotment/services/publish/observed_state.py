"""What the clusters' statuses say of each tenant: preparations, what runs, and what is on its way out.

Each cluster's own status branch speaks for that cluster alone. What is lost, older, unreadable or not to be
believed says nothing, and where nothing is said nothing that runs is changed, and nothing goes (`tenant_transition`).
"""

from __future__ import annotations

from collections.abc import Mapping
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

_NEVER_STARTING_REASONS = (word.IMAGE_PULL_FAILED, word.CONFIG_FAILED)
_REASONS_WITH_PODS = (word.TERMINATING, word.REMOVED_STILL_RUNNING)


class Attempt(NamedTuple):
    """The last attempt to prepare a storage: its Job by name and uid, and how far it came.

    `finished` says that it has ended, or can't ever begin: another attempt doesn't write beside it. `prune_protected` says that
    the cluster was seen to have its Job as one that Argo CD doesn't prune, `volume_lost` that the volume which it filled
    is gone.
    """

    job: str
    uid: str
    succeeded: bool
    finished: bool
    prune_protected: bool = False
    volume_lost: bool = False


ResourceKey = tuple[
    str, str, str
]  # a cluster, the kind of a thing there, and its name, which is empty of the namespace


class ObservedTenant(NamedTuple):
    """What is known of a tenant: the last attempts by cluster and storage, and the instances (cluster, name) with pods.

    `pod_units` are the units that live pods hold, and of which spec, by cluster and instance. `present` are the
    instances, storages, snapshots and namespaces that its clusters were seen to have; `marked_since` says since when, by
    the API server's clock, one was seen to be marked for deletion, `unprotected` which were seen to be let go. What
    a cluster of `unreadable_clusters` says of the tenant is of another version of ours. `pdb_clusters` are the clusters that
    were seen to protect its instances from drained nodes.
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


class StatusReader:
    """Reads status branches again and again; a file that is as it was is read once."""

    def __init__(self, repository: Repository, remote: Remote) -> None:
        self._repository = repository
        self.remote = remote
        self._files: dict[str, dict[str, tuple[str, ObservedTenant]]] = {}
        self.tenants: dict[str, ObservedTenant] = {}
        self.commits: dict[str, str] = {}
        self.observed_at: dict[str, str] = {}
        self.troubles: dict[str, str] = {}

    def read(self, clusters: Mapping[str, str | None]) -> dict[str, ObservedTenant]:
        """Return what is known of each tenant; `clusters` has the reporter's public key of each, where one is declared.

        `commits` then has the commit that each cluster's part comes from, `troubles` what isn't as its reporter
        left it, `observed` when each cluster was last looked at, by its API server's clock. A remote that doesn't
        answer leaves what was known. `tenants` is what was returned last.
        """
        looks: Mapping[str, StatusBranch] = {}
        try:
            looks = read_status_branches(self._repository, self.remote, clusters) if clusters else {}
            self.troubles = {
                cluster: report.distrust_reason for cluster, report in looks.items() if report.distrust_reason
            }
        except OperationRefused as error:
            self.troubles = dict.fromkeys(clusters, str(error))
        for cluster, report in looks.items():
            self.commits.pop(cluster, None)
            self.observed_at.pop(cluster, None)
            if report.trusted_commit is not None:
                self.commits[cluster] = report.trusted_commit
                self.observed_at[cluster] = _read_observed_at(report.branch)
            self._files[cluster] = (
                self._read_tenants(cluster, report.branch) if report.trusted_commit is not None else {}
            )
        for removed_cluster in self._files.keys() - clusters.keys():
            del self._files[removed_cluster]
        self.tenants = self._merge_clusters()
        return self.tenants

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

    def deletion_clock(self) -> dict[str, str]:
        """Return when each cluster was last looked at that has anything on its way out: what is known of that
        changes by time."""
        leaving = {place[0] for observed_tenant in self.tenants.values() for place in observed_tenant.marked_since}
        return {cluster: time for cluster, time in self.observed_at.items() if cluster in leaving}


def _read_observed_at(branch: Branch) -> str:
    """Return when a cluster was last looked at; empty where its status doesn't say."""
    try:
        return parse_cluster_status(branch.read(CLUSTER)).observed_at if CLUSTER in branch.files else ""
    except Malformed:
        return ""


def _read_observed_tenant(cluster: str, data: bytes) -> ObservedTenant:
    try:
        status: TenantStatus = parse_tenant_status(data)
    except Malformed:
        return ObservedTenant(unreadable_clusters=frozenset((cluster,)))  # the reporter writes it anew
    attempts = {}
    for storage in status.storages:
        if storage.prepare is not None:
            prepare = storage.prepare
            attempts[cluster, storage.name] = Attempt(
                format_job_name(storage.name, prepare.input_hash, prepare.attempt),
                prepare.uid,
                prepare.state == word.SUCCEEDED,
                prepare.state in (word.SUCCEEDED, word.FAILED) or prepare.reason in _NEVER_STARTING_REASONS,
                prepare.kept,
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
