"""Reads the recorded usage of clusters from their status branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.billing.periods import parse_moment
from allotment.billing.recorded_use import (
    USED_KINDS,
    ClusterRecord,
    StockTime,
    UsageRecord,
    Use,
    drop_overlaps,
    drop_stock_overlaps,
    merge_gaps,
    read_interval,
    read_stock,
)
from allotment.branches.status_branches import (
    CAPACITY,
    CLUSTER,
    StatusBranch,
    read_fetched_status_branches,
    read_status_branches,
    read_status_branches_at,
    tenant_of,
    usage_owner,
    usage_path,
)
from allotment.declared.tenant_resources import INSTANCE
from allotment.manifests.yaml_text import Malformed
from allotment.observed.status import (
    GAP,
    STOCK,
    CapacityUsage,
    UsageInterval,
    parse_capacity_usage,
    parse_cluster_status,
    parse_tenant_status,
)
from allotment.observed.usage_log import UsageLog, parse_usage_header, parse_usage_log
from allotment.problems import OperationRefused, quote_value

MAX_INTERVALS = 100_000  # of a tenant in a cluster that one reading has; they take 150 MB
# The clock of a cluster may be set back, so an interval may have ended after the time at which the next log began.
_CLOCK_TOLERANCE = 86_400


class _Reading(NamedTuple):
    """The record of a cluster, the uses of tenants and the times of stocks."""

    record: ClusterRecord
    uses: list[Use]
    stocks: list[StockTime]


class _Recorded(NamedTuple):
    """An interval of a tenant, or of the capacity if `owner` is empty, and the commit that has it."""

    owner: str
    interval: UsageInterval
    commit: str


def read_usage_record(
    repository: Repository,
    remote: Remote,
    clusters: Iterable[tuple[str, str | None]],
    tenant: str | None,
    since: int,
) -> UsageRecord:
    """Return the uses of one tenant, or of all tenants if `tenant` is None, that ended after `since` or continue.

    `clusters` has the name of each cluster and the declared public key of its reporter. `since` is in seconds since 1970.
    Raises OperationRefused if the remote can't be reached.
    """
    keys = dict(clusters)
    readings, tenants = [], set[str]()
    for cluster, branch in read_status_branches(repository, remote, keys).items():
        reader = _ClusterReader(repository, cluster, branch, is_signed=keys[cluster] is not None)
        readings.append(reader.read(None if tenant is None else {tenant}, since))
        for path in branch.branch.files if branch.trusted_commit else ():
            tenants |= {owner for owner in (tenant_of(path), usage_owner(path)) if owner}
    return _join(readings)._replace(tenants=frozenset(tenants))


def read_fetched_record(
    repository: Repository,
    keys: Mapping[str, str | None],
    tenants: Collection[str],
    since: int,
    *,
    is_at_origin: bool,
) -> UsageRecord:
    """Return the uses of some tenants from the newest states of the status branches that earlier fetches left in the clone.

    `keys` maps each cluster to the declared public key of its reporter. A cluster without such a state has no record.
    `is_at_origin` says whether the status branches are at origin.
    """
    states = read_fetched_status_branches(repository, keys, is_at_origin=is_at_origin)
    return UsageReader(repository, keys, states).read(tenants, since)


class UsageReader:
    """Reads the uses of some tenants repeatedly from states of the status branches. Each cluster has any number of states."""

    def __init__(
        self,
        repository: Repository,
        keys: Mapping[str, str | None],
        states: Mapping[str, Sequence[StatusBranch]],
    ) -> None:
        self._repository, self._keys, self._states = repository, keys, states

    @staticmethod
    def at_commits(repository: Repository, keys: Mapping[str, str | None], commits: Mapping[str, str]) -> UsageReader:
        """Return the reader of the status branches at commits in the clone, by cluster."""
        states = read_status_branches_at(repository, commits, keys)
        return UsageReader(repository, keys, {cluster: [state] for cluster, state in states.items()})

    def read(self, tenants: Collection[str], since: int) -> UsageRecord:
        """Return the uses of some tenants that ended after `since` or continue, from the newest state of each cluster."""
        newest = []
        for cluster, states in self._states.items():
            is_signed = self._keys[cluster] is not None
            readings = [
                _ClusterReader(self._repository, cluster, state, is_signed=is_signed).read(tenants, since)
                for state in states
            ]
            if readings:
                newest.append(max(readings, key=lambda reading: reading.record.observed_until or 0))
        return _join(newest)


def read_record_at(
    repository: Repository, commits: Mapping[str, str], keys: Mapping[str, str | None], since: int
) -> UsageRecord:
    """Return the uses of all tenants from commits of the status branches, by cluster. Fetches nothing.

    `keys` maps each cluster to the declared public key of its reporter.
    """
    return _join(
        _ClusterReader(repository, cluster, state, is_signed=keys.get(cluster) is not None).read(None, since)
        for cluster, state in read_status_branches_at(repository, commits, keys).items()
    )


def _join(readings: Iterable[_Reading]) -> UsageRecord:
    """Return the record of all clusters, with the tenants that used something."""
    clusters = list(readings)
    uses = tuple(use for reading in clusters for use in reading.uses)
    return UsageRecord(
        clusters=tuple(reading.record for reading in clusters),
        uses=uses,
        tenants=frozenset(use.tenant for use in uses),
        stocks=tuple(stock for reading in clusters for stock in reading.stocks),
    )


class _ClusterReader:
    """Reads the record of one cluster."""

    def __init__(self, repository: Repository, cluster: str, branch: StatusBranch, *, is_signed: bool) -> None:
        self._repository = repository
        self._cluster = cluster
        self._branch = branch
        self._is_signed = is_signed
        self._problems: list[str] = []
        self._tenant_problems: dict[str, list[str]] = defaultdict(list)

    def read(self, tenants: Collection[str] | None, since: int) -> _Reading:
        """Return the record of the cluster, the uses of the tenants, or of all tenants, and the times of the stocks."""
        commit = self._branch.trusted_commit
        if self._branch.distrust_reason:
            self._add_problem(self._branch.distrust_reason)
        if commit is None:
            return _Reading(self._build_record(None, None, "", []), [], [])
        capacity = self._read_capacity(commit)
        observed_until = self._read_observation_time(commit)
        recorded_since = parse_moment(capacity.since) if capacity and capacity.since else None
        recorded = chain(self._read_open(commit, tenants), self._read_logs(commit, tenants, since))
        of_capacity = list(capacity.usage) if capacity else []
        uses = drop_overlaps(self._read_uses(recorded, observed_until or 0, of_capacity))
        gaps = merge_gaps(
            (parse_moment(interval.start_time), parse_moment(interval.end_time))
            for interval in of_capacity
            if interval.kind == GAP and interval.end_time
        )
        stocks = [
            read_stock(interval, self._cluster, observed_until or 0, commit)
            for interval in of_capacity
            if interval.kind == STOCK
        ]
        record = self._build_record(observed_until, recorded_since, commit, gaps)
        return _Reading(record, uses, drop_stock_overlaps(stocks))

    def _build_record(
        self,
        observed_until: int | None,
        recorded_since: int | None,
        commit: str,
        gaps: Iterable[tuple[int, int]],
    ) -> ClusterRecord:
        return ClusterRecord(
            cluster=self._cluster,
            observed_until=observed_until,
            recorded_since=recorded_since,
            is_signed=self._is_signed,
            commit=commit,
            problems=tuple(self._problems),
            gaps=tuple(gaps),
            tenant_problems=dict(self._tenant_problems),
        )

    def _read_uses(
        self, recorded: Iterable[_Recorded], observed_until: int, of_capacity: list[UsageInterval]
    ) -> Iterator[Use]:
        """Yield the uses that the intervals of tenants record. Add the other intervals to `of_capacity`."""
        for each in recorded:
            if not each.owner:
                of_capacity.append(each.interval)
            elif each.interval.kind not in USED_KINDS:
                kind = quote_value(each.interval.kind)
                self._add_problem(f"the usage of {each.owner} has the unknown kind {kind}", each.owner)
            else:
                use = read_interval(each.interval, self._cluster, each.owner, observed_until, each.commit)
                if use.kind != INSTANCE.kind.name and not use.size:
                    uid = quote_value(each.interval.uid)
                    message = f"the usage of {each.owner} has no valid size for {uid}: it counts as 0"
                    self._add_problem(message, each.owner)
                yield use

    def _read_observation_time(self, commit: str) -> int | None:
        """Return the time of the last observation."""
        if (data := self._read_or_complain(CLUSTER)) is None:
            return None
        try:
            observed_at = parse_cluster_status(data).observed_at
        except Malformed as error:
            self._complain(CLUSTER, commit, error)
            return None
        return parse_moment(observed_at) if observed_at else None

    def _read_capacity(self, commit: str) -> CapacityUsage | None:
        """Return the time since when the capacity is recorded, with the stocks and nodes that continue."""
        if (data := self._read_or_complain(CAPACITY)) is None:
            return None
        try:
            return parse_capacity_usage(data)
        except Malformed as error:
            self._complain(CAPACITY, commit, error)
            return None

    def _read_open(self, commit: str, tenants: Collection[str] | None) -> Iterator[_Recorded]:
        """Yield the intervals of tenants that continue."""
        files = self._branch.branch.files
        paths = [
            path for path in files if (owner := tenant_of(path)) is not None and (tenants is None or owner in tenants)
        ]
        for path, data in zip(paths, self._branch.branch.read_all(paths), strict=True):
            try:
                usage = parse_tenant_status(data).usage
            except Malformed as error:
                self._complain(path, commit, error)
                continue
            yield from (_Recorded(str(tenant_of(path)), interval, commit) for interval in usage)

    def _read_logs(self, commit: str, tenants: Collection[str] | None, since: int) -> Iterator[_Recorded]:
        """Yield the intervals that ended after `since`, and some that ended before."""
        files = self._branch.branch.files
        owners = [
            owner
            for path in files
            if (owner := usage_owner(path)) is not None and (tenants is None or owner in ("", *tenants))
        ]
        contents = self._branch.branch.read_all([usage_path(owner) for owner in owners])
        for owner, data in zip(owners, contents, strict=True):
            yield from self._follow_logs(owner, commit, data, since)

    def _follow_logs(self, owner: str, commit: str, data: bytes | None, since: int) -> Iterator[_Recorded]:
        """Yield the intervals of a log and of the logs before it."""
        path, count = usage_path(owner), 0
        while data is not None:
            count += data.count(b"\n") - 1  # without the header
            if count > MAX_INTERVALS:
                message = f"{owner} has more than {MAX_INTERVALS:,} intervals: those of {path} of commit {commit[:12]} and before are left out"
                self._add_problem(message, owner)
                return
            try:
                log = self._parse_log(owner, commit, data)
            except Malformed as error:
                self._complain(path, commit, error)
                return
            yield from (_Recorded(owner, interval, commit) for interval in log.intervals)
            if not log.header.previous or parse_moment(log.header.since) < since - _CLOCK_TOLERANCE:
                return
            commit = log.header.previous
            try:
                data = self._repository.read_at(commit, path)
            except OperationRefused as error:
                self._complain(path, commit, error)
                return
        self._complain(path, commit, "the clone doesn't have it; a shallow clone needs `git fetch --unshallow`")

    def _parse_log(self, owner: str, commit: str, data: bytes) -> UsageLog:
        """Return a log. If only its header can be read, it has no intervals. Raises Malformed if the header is invalid."""
        header = parse_usage_header(data)
        if (header.cluster, header.tenant) != (self._cluster, owner):
            raise Malformed("its header names another cluster or tenant")
        try:
            return parse_usage_log(data)
        except Malformed as error:
            self._complain(usage_path(owner), commit, error)
            return UsageLog(header, [])

    def _read_or_complain(self, path: str) -> bytes | None:
        if path in self._branch.branch.files:
            return self._branch.branch.read(path)
        self._add_problem(f"{path} is missing: no reporter of this version has reported the cluster")
        return None

    def _complain(self, path: str, commit: str, reason: object) -> None:
        message = f"{path} of commit {commit[:12]} can't be read: {reason}"
        self._add_problem(message, tenant_of(path) or usage_owner(path) or "")

    def _add_problem(self, message: str, tenant: str = "") -> None:
        """Note a problem. `tenant` is the only tenant that it concerns; empty if it concerns all tenants."""
        self._problems.append(message)
        if tenant:
            self._tenant_problems[tenant].append(message)
