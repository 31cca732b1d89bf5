"""Derives the status of a live snapshot."""

from __future__ import annotations

from allotment import conditions as word
from allotment.observed.conditions import ConditionBuilder, ConditionValue, add_deletion_conditions
from allotment.observed.objects import VolumeSnapshot
from allotment.observed.status import Snapshot


def derive_snapshot(live: VolumeSnapshot, synced: ConditionValue, now: str, previous: Snapshot | None) -> Snapshot:
    """Return the status of a snapshot. Unchanged states and conditions keep their times from `previous`."""
    predecessor = previous if previous is not None and previous.uid == live.uid else None
    state, reason, message = _derive_state(live)
    conditions = ConditionBuilder(predecessor.conditions if predecessor else (), now)
    conditions.add(word.SYNCED, *synced)
    add_deletion_conditions(conditions, live.marked_for_deletion, live.unprotected)
    return Snapshot(
        name=live.snapshot,
        observed_blob=live.blob,
        state=state,
        reason=reason,
        message=message,
        since=predecessor.since if predecessor and predecessor.state == state else now,
        uid=live.uid,
        storage=live.source_claim,
        restore_size=live.restore_size,
        creation_time=live.taken_at,
        conditions=conditions.build(),
    )


def derive_waiting_snapshot(name: str, source: str, now: str, previous: Snapshot | None) -> Snapshot:
    """Return the status of a snapshot that waits for the preparation of its storage."""
    same = previous is not None and previous.reason == word.SOURCE_UNPREPARED
    since = previous.since if previous is not None and same else now
    blob = previous.observed_blob if previous is not None else ""
    message = f"waits for storage {source} to be prepared"
    return Snapshot(name, blob, word.PENDING, word.SOURCE_UNPREPARED, message, since, storage=source)


def _derive_state(live: VolumeSnapshot) -> tuple[str, str, str]:
    if live.ready:
        return word.STORAGE_READY, word.SNAPSHOT_TAKEN, ""
    if live.failed:
        return word.FAILED, word.SNAPSHOT_FAILED, "the storage driver can't create the snapshot: ask the platform team"
    return word.PENDING, word.SNAPSHOT_PENDING, "the snapshot is being created"
