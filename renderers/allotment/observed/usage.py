"""Derives the usage of tenants, and the stocks and nodes of a cluster, with their times.

- A pod of an instance uses a unit from the time when it gets its node until it has ended or is gone. A pod that waits for
  a node uses nothing. A terminating pod may stay forever if its node is lost, so its use ends STUCK_SECONDS after its grace
  period. No terminating pod begins an interval, so no pod is counted twice.
- A storage uses its size while its volume or bucket is bound. Another size, StorageSpec or label begins another interval.
- A snapshot uses the size that a volume needs to be restored from it, from the time when it was taken.
- A node counts from its creation until it is gone, also if it isn't ready.
- A stock has its units from the time when its placeholders are declared in the cluster. Other units begin another interval.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.objects import BucketClaim, Deployment, Node, Pod, VolumeClaim, VolumeSnapshot
from allotment.observed.status import STOCK, CapacityUsage, UsageInterval, parse_time
from allotment.observed.tenants import TenantObjects

STUCK_SECONDS = 300
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


class Usage(NamedTuple):
    """The intervals that continue, sorted, and the intervals that have ended since the previous status."""

    current: tuple[UsageInterval, ...]
    ended: tuple[UsageInterval, ...]


def derive_usage(live: TenantObjects, previous: Sequence[UsageInterval], now: str, last_observed_at: str = "") -> Usage:
    """Return the usage of a tenant at the time `now`. `previous` are the current intervals of the previous status.

    `last_observed_at` is the time until which the cluster was observed, if there is a gap before `now`; else it is empty.
    An interval without an observed end gets this time. An object with the same uid has lasted through the gap.
    """
    by_uid = {interval.uid: interval for interval in previous}
    observed = [
        *_find_pod_usage(live, by_uid, now),
        *_find_volume_usage(live, now),
        *_find_snapshot_usage(live.snapshots, by_uid, now),
    ]
    end_times = {pod.uid: _find_end_time(pod) for pod in live.pods}
    return _compare(observed, previous, end_times, now, last_observed_at)


def derive_capacity_usage(
    nodes: Iterable[Node],
    placeholders: Sequence[Deployment],
    previous: CapacityUsage,
    now: str,
    last_observed_at: str = "",
) -> Usage:
    """Return the stocks, and the nodes of the NodePools.

    A stock counts from the time when the reporter sees its placeholder Deployment, a node from its creation, but not from
    before the recording began. A node belongs to the pool of the first stock with matching labels, and stays in it.
    """
    by_uid = {interval.uid: interval for interval in previous.usage}
    sorted_placeholders = sorted(placeholders, key=lambda each: each.stock)
    observed = [
        UsageInterval(
            STOCK, each.stock, each.uid, now, gpu_spec=each.gpu_spec, units=each.units, tenant=each.reserved_for
        )
        for each in sorted_placeholders
        if each.stock
    ]
    pools = [(each.pool_labels, each.pool) for each in sorted_placeholders if each.pool]
    for node in nodes:
        pool = next((pool for labels, pool in pools if labels and labels <= node.labels), "")
        if node.uid in by_uid:
            observed.append(by_uid[node.uid])
        elif pool:
            start_time = max(node.created or now, previous.since or now)
            observed.append(UsageInterval("NodePool", pool, node.uid, start_time, node=node.name))
    return _compare(observed, previous.usage, {}, now, last_observed_at)


def merge_ended(
    derived: Iterable[UsageInterval], observed: Iterable[UsageInterval], recorded: Iterable[UsageInterval]
) -> tuple[UsageInterval, ...]:
    """Return the intervals to record: those `derived` from the last status, and those `observed` since, with exact ends.

    Leaves out the intervals that are already `recorded`.
    """
    intervals = {_order(interval): interval for interval in (*derived, *observed)}
    for interval in recorded:
        intervals.pop(_order(interval), None)
    return tuple(intervals[key] for key in sorted(intervals))


def restore_starts(
    derived: Iterable[UsageInterval], observed: Iterable[UsageInterval], recorded: Iterable[UsageInterval]
) -> tuple[UsageInterval, ...]:
    """Return the current intervals, `derived` from the last status. Those that it lacks have their `observed` starts."""
    starts = {_key(interval): interval for interval in observed}
    recorded_keys = {_key(interval) for interval in recorded}
    intervals = [each if _key(each) in recorded_keys else starts.get(_key(each), each) for each in derived]
    return tuple(sorted(intervals, key=_order))


def has_terminating_pod(pods: Iterable[Pod], usage: Iterable[UsageInterval]) -> bool:
    """Return whether the passing of time may end an interval, because its pod is terminating."""
    uids = {interval.uid for interval in usage}
    return any(pod.terminating and pod.uid in uids for pod in pods)


def _compare(
    observed: Sequence[UsageInterval],
    previous: Sequence[UsageInterval],
    end_times: Mapping[str, str],
    now: str,
    last_observed_at: str,
) -> Usage:
    """Return the usage after an observation. `end_times` are the known times of ends, by uid."""
    by_key = {_key(interval): interval for interval in previous}
    current = {_key(interval): by_key.get(_key(interval), interval) for interval in observed}
    ended = [
        _end(interval, end_times.get(interval.uid, ""), now, last_observed_at)
        for key, interval in by_key.items()
        if key not in current
    ]
    return Usage(tuple(sorted(current.values(), key=_order)), tuple(sorted(ended, key=_order)))


def _key(interval: UsageInterval) -> tuple[Hashable, ...]:
    """Return the identity of the use. An object with another use begins another interval."""
    return (
        interval.kind,
        interval.uid,
        interval.size,
        interval.storage_spec,
        interval.units,
        interval.gpu_spec,
        interval.tenant,
        tuple(sorted(interval.labels.items())),
    )


def _order(interval: UsageInterval) -> tuple[Hashable, ...]:
    return interval.kind, interval.name, interval.start_time, _key(interval)


def _end(interval: UsageInterval, end_time: str, now: str, last_observed_at: str) -> UsageInterval:
    """Return an interval with its end, which is neither before its start nor after `now`.

    The clock of the cluster may be set back, and a node may have another clock.
    """
    is_observed = bool(end_time) or not last_observed_at
    return interval.end(
        max(min(end_time or now, now), interval.start_time),
        "" if is_observed else max(last_observed_at, interval.start_time),
    )


def _find_end_time(pod: Pod) -> str:
    """Return the time when a live pod ended, or when its node should have ended it; empty if the time is not known."""
    if pod.phase in _ENDED_PHASES:
        return pod.terminated_at
    deletion_time = parse_time(pod.deletion_time)
    if deletion_time is None:
        return ""
    return (deletion_time + datetime.timedelta(seconds=STUCK_SECONDS)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _find_pod_usage(live: TenantObjects, by_uid: Mapping[str, UsageInterval], now: str) -> Iterator[UsageInterval]:
    """Yield the usage of pods. An interval begins only once the GPUSpec is known; its start is exact also then."""
    specs = _find_gpu_specs(live)
    for pod in live.pods:
        if not (pod.instance and pod.node) or pod.phase in _ENDED_PHASES:
            continue
        if pod.uid in by_uid:
            if not pod.terminating or _find_end_time(pod) > now or not pod.deletion_time:
                yield by_uid[pod.uid]
        elif not pod.terminating and (gpu_spec := specs.get(pod.owner)):
            yield UsageInterval(
                INSTANCE.kind.name,
                pod.instance,
                pod.uid,
                pod.scheduled_at or now,
                gpu_spec=gpu_spec,
                node=pod.node,
                labels=dict(pod.bill_labels),
            )


def _find_gpu_specs(live: TenantObjects) -> dict[str, str]:
    """Return the GPUSpec of the pods of each Deployment's newest ReplicaSet, by the uid of the ReplicaSet.

    Each kind has its own watch, so a pod may arrive before its Deployment, or before the Deployment's new GPUSpec.
    """
    deployments = {each.uid: each for each in live.deployments if each.instance and each.generation_observed}
    return {
        replica_set.uid: deployments[replica_set.owner].gpu_spec
        for replica_set in live.replica_sets
        if replica_set.owner in deployments and replica_set.revision == deployments[replica_set.owner].revision
    }


def _find_volume_usage(live: TenantObjects, now: str) -> Iterator[UsageInterval]:
    for claim in live.claims:
        if claim.storage and claim.phase == "Bound":
            yield _build_volume_interval(claim, claim.requested, now)
    for bucket in live.buckets:
        if bucket.storage and bucket.phase == "Bound":
            yield _build_volume_interval(bucket, bucket.size, now)


def _build_volume_interval(claim: VolumeClaim | BucketClaim, size: str, now: str) -> UsageInterval:
    return UsageInterval(
        STORAGE.kind.name,
        claim.storage,
        claim.uid,
        now,
        size=size,
        storage_spec=claim.storage_spec,
        labels=dict(claim.bill_labels),
    )


def _find_snapshot_usage(
    snapshots: Sequence[VolumeSnapshot], by_uid: Mapping[str, UsageInterval], now: str
) -> Iterator[UsageInterval]:
    """Yield the usage of snapshots. A snapshot that was ready uses its size until it is gone."""
    for snapshot in snapshots:
        previous = by_uid.get(snapshot.uid)
        if previous is not None or (snapshot.snapshot and snapshot.ready):
            yield UsageInterval(
                SNAPSHOT.kind.name,
                previous.name if previous else snapshot.snapshot,
                snapshot.uid,
                now if previous else snapshot.taken_at or now,
                size=(previous.size if previous else "") or snapshot.restore_size,
                storage_spec=snapshot.storage_spec,
                labels=dict(snapshot.bill_labels),
            )
