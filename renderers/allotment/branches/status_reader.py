"""Reads the clusters' status branches for people: the current status, and its history."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import (
    CAPACITY,
    CLUSTER,
    list_fetched_commits,
    read_status_branches,
    tenant_of,
    tenant_path,
)
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.tenant_resources import SNAPSHOT, STORAGE
from allotment.diff.cold_starts import ColdStartTime
from allotment.manifests.yaml_text import Malformed
from allotment.observed.cold_starts import summarize_cold_starts
from allotment.observed.deletion_point import find_marked_since
from allotment.observed.status import (
    ClusterStatus,
    ColdStart,
    ImplausibleStatus,
    Instance,
    Storage,
    TenantStatus,
    Transition,
    parse_capacity_usage,
    parse_cluster_status,
    parse_tenant_status,
)
from allotment.problems import OperationRefused

NEVER_REPORTED = "no reporter has reported it yet"


class ReportedStatus(NamedTuple):
    """The status of all clusters and tenants, sorted.

    `troubles` maps a cluster to the fault of its status branch, and `commits` to the commit with its status.
    """

    clusters: list[ClusterStatus]
    tenants: list[TenantStatus]
    troubles: dict[str, str]
    commits: dict[str, str]

    def find_silent_clusters(self, now: datetime.datetime) -> set[str]:
        """Return the clusters with an old, an unusable or no last report. Their current state is unknown."""
        return {status.cluster for status in self.clusters if status.is_stale(now)} | self.troubles.keys()


def read_reported_status(
    repository: Repository,
    remote: Remote,
    clusters: Iterable[tuple[str, str | None]],
    tenants: Collection[str] | None,
) -> ReportedStatus:
    """Return the status of some tenants, or of all tenants if `tenants` is None.

    `clusters` has the name of each cluster and the declared public key of its reporter. Raises OperationRefused if the
    remote can't be reached.
    """
    reported_status = ReportedStatus([], [], {}, {})
    for cluster, look in read_status_branches(repository, remote, dict(clusters)).items():
        if look.distrust_reason or look.trusted_commit is None:
            reported_status.troubles[cluster] = look.distrust_reason or NEVER_REPORTED
        if look.trusted_commit is None:
            continue
        reported_status.commits[cluster] = look.trusted_commit
        paths = [path for path in look.branch.files if path == CLUSTER or _is_tenant_file(path, tenants)]
        for path, data in zip(paths, look.branch.read_all(paths), strict=True):
            try:
                # The cluster comes from the name of the branch, and the tenant from the path. The names in the file
                # are ignored.
                if (owner := tenant_of(path)) is None:
                    reported_status.clusters.append(
                        msgspec.structs.replace(parse_cluster_status(data), cluster=cluster)
                    )
                else:
                    reported_status.tenants.append(
                        msgspec.structs.replace(parse_tenant_status(data), cluster=cluster, tenant=owner)
                    )
            except ImplausibleStatus as error:
                reported_status.troubles[cluster] = f"{path} is rejected: {error}; no reporter writes such a status"
            except Malformed:
                reported_status.troubles[cluster] = f"{path} was written by another version of Allotment"
    reported_status.tenants.sort(key=lambda status: (status.tenant, status.cluster))
    return reported_status


def _is_tenant_file(path: str, tenants: Collection[str] | None) -> bool:
    owner = tenant_of(path)
    return owner is not None and (tenants is None or owner in tenants)


def read_history(
    repository: Repository,
    remote: Remote,
    clusters: Sequence[tuple[str, str | None]],
    tenant: str,
    name: str | None,
    most: int,
) -> list[tuple[str, Transition]]:
    """Return the newest transitions of a tenant or of one of its resources, with their clusters, in the order of time.

    Each status file names the commit of its previous version, so commits without a change of the tenant are not read.
    """
    rows: list[tuple[str, Transition]] = []
    for cluster, look in read_status_branches(repository, remote, dict(clusters)).items():
        commit = look.trusted_commit
        newest: list[tuple[str, Transition]] = []
        for status in walk_history(repository, commit, tenant):
            newest += [(cluster, step) for step in reversed(status.transitions) if name in (None, step.name)]
            if len(newest) >= most:
                break
        rows += reversed(newest[:most])
    rows.sort(key=lambda row: row[1].time)  # a stable sort keeps the order of transitions within one second
    return rows[-most:]


def walk_history(repository: Repository, commit: str | None, tenant: str) -> Iterator[TenantStatus]:
    """Yield the versions of a tenant's status that the clone has, the newest first."""
    path = tenant_path(tenant)
    while commit:
        try:
            data = repository.read_at(commit, path)
            status = parse_tenant_status(data) if data is not None else None
        except (Malformed, OperationRefused):
            return
        if status is None:
            return
        yield status
        commit = status.previous


def read_cached_cold_times(
    repository: Repository, cluster: str, key: str | None, *, is_at_origin: bool
) -> dict[str, ColdStartTime]:
    """Return the durations of cold starts, by GPUSpec, from the last fetched state of a cluster's status branch.

    This function fetches nothing: `git fetch origin`, and every command that shows a status, fetches the branch. If
    `key` is given, a commit that this key did not sign is ignored. `is_at_origin` says whether the status branches are at
    origin.
    """
    starts: list[ColdStart] = []
    for data in _read_cached_versions(repository, cluster, key, CLUSTER, is_at_origin=is_at_origin):
        with contextlib.suppress(Malformed):
            starts += parse_cluster_status(data).cold_starts
    return summarize_cold_starts(starts)


def read_cached_deletion_marks(
    repository: Repository, cluster: str, key: str | None, tenant: str, *, is_at_origin: bool
) -> dict[tuple[str, str], str]:
    """Return, by kind and name, the time when each volume of a tenant was first seen as marked for deletion.

    The time is empty if the volume has no mark. The data comes from the last fetch, as in `read_cached_cold_times`.
    """
    marks: dict[tuple[str, str], str] = {}
    for data in _read_cached_versions(repository, cluster, key, tenant_path(tenant), is_at_origin=is_at_origin):
        with contextlib.suppress(Malformed):
            status = parse_tenant_status(data)
            for kind in (STORAGE, SNAPSHOT):
                for volume in getattr(status, kind.plural):
                    key_of = kind.word, volume.name
                    marks[key_of] = max(marks.get(key_of, ""), find_marked_since(volume.conditions))
    return marks


def read_cached_storages(
    repository: Repository, cluster: str, key: str | None, tenant: str, *, is_at_origin: bool
) -> dict[str, list[Storage]]:
    """Return the versions of each storage that a cluster has of a tenant. The data comes from the last fetch."""
    storages: dict[str, list[Storage]] = {}
    for data in _read_cached_versions(repository, cluster, key, tenant_path(tenant), is_at_origin=is_at_origin):
        with contextlib.suppress(Malformed):
            for storage in parse_tenant_status(data).storages:
                storages.setdefault(storage.name, []).append(storage)
    return storages


class CachedNodes(NamedTuple):
    """The nodes of a cluster: the instances on each as `<tenant>/<name>`, and the node pool of each recorded node."""

    instances: Mapping[str, frozenset[str]]
    pools: Mapping[str, str]

    def list_nodes(self, pool: str) -> set[str]:
        """Return the recorded nodes of a node pool."""
        return {node for node, name in self.pools.items() if name == pool}


def read_cached_nodes(
    repository: Repository, cluster: str, key: str | None, tenants: Iterable[str], *, is_at_origin: bool
) -> CachedNodes:
    """Return the nodes of a cluster with the instances of `tenants`. The data comes from the last fetch."""
    instances: dict[str, set[str]] = {}
    pools: dict[str, str] = {}
    for commit in list_fetched_commits(repository, cluster, key, is_at_origin=is_at_origin):
        pools |= _read_pools(repository, commit)
        for tenant in tenants:
            for instance in _read_instances(repository, commit, tenant):
                for node in instance.nodes:
                    instances.setdefault(node, set()).add(f"{tenant}/{instance.name}")
    return CachedNodes({node: frozenset(names) for node, names in instances.items()}, pools)


def _read_pools(repository: Repository, commit: str) -> dict[str, str]:
    """Return the node pool of each node in the record of a commit; empty if the record can't be read."""
    with contextlib.suppress(OperationRefused, Malformed):
        if (data := repository.read_at(commit, CAPACITY)) is not None:
            usage = parse_capacity_usage(data).usage
            return {interval.node: interval.name for interval in usage if interval.kind == NodePool.__name__}
    return {}


def _read_instances(repository: Repository, commit: str, tenant: str) -> tuple[Instance, ...]:
    """Return the instances of a tenant in the status of a commit; empty if the status can't be read."""
    with contextlib.suppress(OperationRefused, Malformed):
        if (data := repository.read_at(commit, tenant_path(tenant))) is not None:
            return tuple(parse_tenant_status(data).instances)
    return ()


def _read_cached_versions(
    repository: Repository, cluster: str, key: str | None, path: str, *, is_at_origin: bool
) -> Iterator[bytes]:
    """Yield the valid versions of a file that earlier fetches of a cluster's status branch left in the clone."""
    for commit in list_fetched_commits(repository, cluster, key, is_at_origin=is_at_origin):
        with contextlib.suppress(OperationRefused):
            if (data := repository.read_at(commit, path)) is not None:
                yield data
