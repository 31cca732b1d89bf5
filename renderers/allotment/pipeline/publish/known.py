"""What the clusters' statuses say of each tenant: preparations, what runs, and what is on its way out.

Each cluster's own status branch speaks for that cluster alone. What is lost, older, unreadable or not to be
believed says nothing, and where nothing is said nothing that runs is changed, and nothing goes (`settled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment import conditions as word
from allotment.adapters.git.branch import Branch
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.status import CLUSTER, Reported, look_statuses, tenant_of
from allotment.declared.things import THINGS
from allotment.manifests.text import Malformed
from allotment.observed.status import TenantStatus, read_cluster, read_tenant
from allotment.problems import Refused
from allotment.readiness.preparation import name_of

_NEVER_STARTS = (word.IMAGE_PULL_FAILED, word.CONFIG_FAILED)
_MAY_HAVE_PODS = (word.TERMINATING, word.STILL_RUNNING)


class Attempt(NamedTuple):
    """The last attempt to prepare a storage: its Job by name and uid, and how far it came.

    `over` says that it has ended, or can't ever begin: another attempt doesn't write beside it. `kept` says that
    the cluster was seen to have its Job as one that Argo CD doesn't prune, `lost` that the volume which it filled
    is gone.
    """

    job: str
    uid: str
    succeeded: bool
    over: bool
    kept: bool = False
    lost: bool = False


ThingKey = tuple[str, str, str]  # a cluster, the kind of a thing there, and its name, which is empty of the namespace


class Known(NamedTuple):
    """What is known of a tenant: the last attempts by cluster and storage, and the instances (cluster, name) with pods.

    `holding` are the units that live pods hold, and of which spec, by cluster and instance. `there` are the
    instances, storages, snapshots and namespaces that its clusters were seen to have; `marked` says since when, by
    the API server's clock, one was seen to be marked for deletion, `unprotected` which were seen to be let go. What
    a cluster of `unreadable` says of the tenant is of another version of ours. `undisturbed` are the clusters that
    were seen to protect its instances from drained nodes.
    """

    attempts: Mapping[tuple[str, str], Attempt] = {}
    live: frozenset[tuple[str, str]] = frozenset()
    holding: Mapping[tuple[str, str], tuple[str, int]] = {}
    there: frozenset[ThingKey] = frozenset()
    marked: Mapping[ThingKey, str] = {}
    unprotected: frozenset[ThingKey] = frozenset()
    unreadable: frozenset[str] = frozenset()
    undisturbed: frozenset[str] = frozenset()


NOTHING = Known()


class Statuses:
    """Reads status branches again and again; a file that is as it was is read once."""

    def __init__(self, repository: Repository, remote: Remote) -> None:
        self._repository = repository
        self.remote = remote
        self._files: dict[str, dict[str, tuple[str, Known]]] = {}
        self.known: dict[str, Known] = {}
        self.commits: dict[str, str] = {}
        self.observed: dict[str, str] = {}
        self.troubles: dict[str, str] = {}

    def read(self, clusters: Mapping[str, str | None]) -> dict[str, Known]:
        """Return what is known of each tenant; `clusters` has the reporter's public key of each, where one is declared.

        `commits` then has the commit that each cluster's part comes from, `troubles` what isn't as its reporter
        left it, `observed` when each cluster was last looked at, by its API server's clock. A remote that doesn't
        answer leaves what was known. `known` is what was returned last.
        """
        looks: Mapping[str, Reported] = {}
        try:
            looks = look_statuses(self._repository, self.remote, clusters) if clusters else {}
            self.troubles = {cluster: report.why for cluster, report in looks.items() if report.why}
        except Refused as error:
            self.troubles = dict.fromkeys(clusters, str(error))
        for cluster, report in looks.items():
            self.commits.pop(cluster, None)
            self.observed.pop(cluster, None)
            if report.believed is not None:
                self.commits[cluster] = report.believed
                self.observed[cluster] = _observed_at(report.branch)
            self._files[cluster] = self._read(cluster, report.branch) if report.believed is not None else {}
        for removed_cluster in self._files.keys() - clusters.keys():
            del self._files[removed_cluster]
        self.known = self._together()
        return self.known

    def _read(self, cluster: str, branch: Branch) -> dict[str, tuple[str, Known]]:
        previous_files, current_files = self._files.get(cluster, {}), {}
        for path, blob in branch.files.items():
            tenant = tenant_of(path)
            if tenant is None:
                continue
            previous_file = previous_files.get(tenant)
            current_files[tenant] = (
                previous_file
                if previous_file is not None and previous_file[0] == blob
                else (blob, _known(cluster, branch.read(path)))
            )
        return current_files

    def _together(self) -> dict[str, Known]:
        together: dict[str, Known] = {}
        for files in self._files.values():
            for tenant, (_, observed_tenant) in files.items():
                merged_tenant = together.get(tenant, NOTHING)
                together[tenant] = Known(
                    attempts={**merged_tenant.attempts, **observed_tenant.attempts},
                    live=merged_tenant.live | observed_tenant.live,
                    holding={**merged_tenant.holding, **observed_tenant.holding},
                    there=merged_tenant.there | observed_tenant.there,
                    marked={**merged_tenant.marked, **observed_tenant.marked},
                    unprotected=merged_tenant.unprotected | observed_tenant.unprotected,
                    unreadable=merged_tenant.unreadable | observed_tenant.unreadable,
                    undisturbed=merged_tenant.undisturbed | observed_tenant.undisturbed,
                )
        return {tenant: observed_tenant for tenant, observed_tenant in together.items() if observed_tenant != NOTHING}

    def moments(self) -> dict[str, str]:
        """Return when each cluster was last looked at that has anything on its way out: what is known of that
        changes by time."""
        leaving = {place[0] for observed_tenant in self.known.values() for place in observed_tenant.marked}
        return {cluster: time for cluster, time in self.observed.items() if cluster in leaving}


def _observed_at(branch: Branch) -> str:
    """Return when a cluster was last looked at; empty where its status doesn't say."""
    try:
        return read_cluster(branch.read(CLUSTER)).observed_at if CLUSTER in branch.files else ""
    except Malformed:
        return ""


def _known(cluster: str, data: bytes) -> Known:
    try:
        status: TenantStatus = read_tenant(data)
    except Malformed:
        return Known(unreadable=frozenset((cluster,)))  # the reporter writes it anew
    attempts = {}
    for storage in status.storages:
        if storage.prepare is not None:
            prepare = storage.prepare
            attempts[cluster, storage.name] = Attempt(
                name_of(storage.name, prepare.input_hash, prepare.attempt),
                prepare.uid,
                prepare.state == word.SUCCEEDED,
                prepare.state in (word.SUCCEEDED, word.FAILED) or prepare.reason in _NEVER_STARTS,
                prepare.kept,
                prepare.reason == word.OF_ANOTHER_VOLUME,
            )
    quiet = (word.STOPPED, word.WAITING)
    live = {
        (cluster, instance.name)
        for instance in status.instances
        if instance.state not in quiet or instance.reason in _MAY_HAVE_PODS or instance.nodes or instance.pods
    }
    resource_times: dict[ThingKey, Mapping[str, str]] = {
        (cluster, kind, resource.name): {
            condition.type: condition.last_transition_time for condition in resource.conditions
        }
        for kind, resource_kind in THINGS.items()
        if resource_kind.reported
        for resource in getattr(status, resource_kind.plural)
    }
    if status.namespace:
        resource_times[cluster, "namespace", ""] = {status.namespace: ""}
    return Known(
        attempts,
        frozenset(live),
        {
            (cluster, instance.name): (instance.gpu_spec, instance.pods)
            for instance in status.instances
            if instance.pods and instance.gpu_spec
        },
        frozenset(resource_times),
        {place: times[word.MARKED] for place, times in resource_times.items() if word.MARKED in times},
        frozenset(place for place, times in resource_times.items() if word.UNPROTECTED in times),
        undisturbed=frozenset((cluster,) if status.disruption == word.PROTECTED else ()),
    )
