"""Derives the usage of a tenant in a cluster, with its times.

- A pod of an instance uses a unit from the time when it gets its node until it has ended or is gone. A pod that waits for
  a node uses nothing. The use also ends if the pod is terminating and its node doesn't respond, because such a pod may
  never go away. No terminating pod begins an interval, so no pod is counted twice.
- A storage uses its size while its volume or bucket is bound. Another size begins another interval.
- A snapshot uses the size that a volume needs to be restored from it, from the time when it was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.objects import BucketClaim, Pod, VolumeClaim, VolumeSnapshot
from allotment.observed.status import UsageInterval

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


class Usage(NamedTuple):
    """The intervals that continue, sorted, and the intervals that have ended since the previous status."""

    current: tuple[UsageInterval, ...]
    ended: tuple[UsageInterval, ...]


class UsageObjects(NamedTuple):
    """The live objects of a tenant that use capacity. `gpu_specs` maps the name of an instance to its GPUSpec."""

    pods: Sequence[Pod]
    gpu_specs: Mapping[str, str]
    claims: Sequence[VolumeClaim]
    buckets: Sequence[BucketClaim]
    snapshots: Sequence[VolumeSnapshot]


def derive_usage(live: UsageObjects, previous: Sequence[UsageInterval], now: str, last_observed_at: str = "") -> Usage:
    """Return the usage of a tenant at the time `now`. `previous` are the current intervals of the previous status.

    `last_observed_at` is the time until which the cluster was observed, if there is a gap before `now`; else it is empty.
    An interval without an observed end gets this time. An object with the same uid has lasted through the gap.
    """
    by_key = {_key(interval): interval for interval in previous}
    by_uid = {interval.uid: interval for interval in previous}
    observed = [
        *_find_pod_usage(live, by_uid, now),
        *_find_volume_usage(live, now),
        *_find_snapshot_usage(live.snapshots, by_uid, now),
    ]
    current = {_key(interval): by_key.get(_key(interval), interval) for interval in observed}
    end_times = {pod.uid: pod.terminated_at for pod in live.pods if pod.phase in _ENDED_PHASES}
    ended = [
        _end(interval, end_times.get(interval.uid, ""), now, last_observed_at)
        for key, interval in by_key.items()
        if key not in current
    ]
    return Usage(tuple(sorted(current.values(), key=_order)), tuple(sorted(ended, key=_order)))


def _key(interval: UsageInterval) -> tuple[str, str, str]:
    return interval.kind, interval.uid, interval.size


def _order(interval: UsageInterval) -> tuple[str, ...]:
    return interval.kind, interval.name, interval.start_time, interval.uid, interval.size


def _end(interval: UsageInterval, end_time: str, now: str, last_observed_at: str) -> UsageInterval:
    """Return an interval with its end. The clock of a cluster may be set back, but no interval ends before it starts."""
    is_observed = bool(end_time) or not last_observed_at
    return interval.end(
        max(end_time or now, interval.start_time),
        "" if is_observed else max(last_observed_at, interval.start_time),
    )


def _find_pod_usage(live: UsageObjects, by_uid: Mapping[str, UsageInterval], now: str) -> Iterator[UsageInterval]:
    """Yield the usage of pods. A pod retains the GPUSpec that it had when it was first observed."""
    for pod in live.pods:
        if not (pod.instance and pod.node) or pod.phase in _ENDED_PHASES:
            continue
        if pod.uid in by_uid and not (pod.terminating and pod.node_lost):
            yield by_uid[pod.uid]
        elif not pod.terminating:
            gpu_spec = live.gpu_specs.get(pod.instance, "")
            yield UsageInterval(INSTANCE.kind.name, pod.instance, pod.uid, pod.scheduled_at or now, gpu_spec=gpu_spec)


def _find_volume_usage(live: UsageObjects, now: str) -> Iterator[UsageInterval]:
    for claim in live.claims:
        if claim.storage and claim.phase == "Bound":
            yield UsageInterval(STORAGE.kind.name, claim.storage, claim.uid, now, size=claim.requested)
    for bucket in live.buckets:
        if bucket.storage and bucket.phase == "Bound":
            yield UsageInterval(STORAGE.kind.name, bucket.storage, bucket.uid, now, size=bucket.size)


def _find_snapshot_usage(
    snapshots: Sequence[VolumeSnapshot], by_uid: Mapping[str, UsageInterval], now: str
) -> Iterator[UsageInterval]:
    """Yield the usage of snapshots. A snapshot that was ready uses its size until it is gone."""
    for snapshot in snapshots:
        if snapshot.uid in by_uid:
            yield by_uid[snapshot.uid]
        elif snapshot.snapshot and snapshot.ready:
            yield UsageInterval(
                SNAPSHOT.kind.name,
                snapshot.snapshot,
                snapshot.uid,
                snapshot.taken_at or now,
                size=snapshot.restore_size,
            )
