"""Computes the next file of a storage or snapshot from its published file and its rendered file.

The next file ensures that no volume shrinks or changes its kind, that no Job runs twice, and that no Job starts before
the last Job of the storage has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from allotment.lifecycle.published_manifests import (
    PublishedVolume,
    has_kept_jobs,
    read_job_names,
    read_predecessor,
    read_volume,
    waits_for_job,
    with_data_source_of,
    with_deletion_policy_of,
    with_jobs_of,
    with_predecessor,
    with_prunable_jobs,
)
from allotment.problems import Finding
from allotment.rules import immutability, preparation


class StorageUsers(NamedTuple):
    """The instances and Jobs that may delay the new preparation of a storage.

    - `running_instances` are the instances that use the storage and continue to run.
    - `stopping_instances` are the instances that have to stop or have stopped, and that may still have pods.
    - `finished_jobs` are the Jobs that have ended according to the status.
    - `protected_jobs` are the Jobs that Argo CD must not prune according to the status.
    """

    running_instances: Collection[str] = ()
    stopping_instances: Collection[str] = ()
    finished_jobs: Collection[str] = ()
    protected_jobs: Collection[str] = ()


class VolumeTransition(NamedTuple):
    """The next file of a storage, and the findings about refused changes.

    `pending_reason` is the reason why the new preparation has to wait; empty if it does not wait.
    """

    data: bytes
    findings: list[Finding]
    pending_reason: str


def next_file(path: str, before: bytes, after: bytes, ask: Callable[[], StorageUsers]) -> VolumeTransition:
    """Return the next file of a storage or snapshot; `path` is the path of its declaration.

    `before` is the published file, and `after` is the rendered file. `ask` returns the users of the storage; it is
    called only if a published Job is no longer rendered. If the published file no longer waits for its source, the
    next file does not wait again, even if a later status does not show the source as prepared. It is then the published file with
    the new deletion policy.
    """
    old, new, awaited = read_volume(before), read_volume(after), waits_for_job(after)
    old_jobs = read_job_names(before)
    if (
        awaited is not None
        and waits_for_job(before) is None
        and (awaited in old_jobs or (old is not None and not awaited))
    ):
        return VolumeTransition(with_deletion_policy_of(before, after), [], "")
    findings = list(_immutable_changes(path, old, new)) if old is not None and new is not None else []
    required_jobs = read_job_names(after) | ({awaited} if awaited else frozenset())
    pending, let_go = "", False
    if old_jobs and old_jobs - required_jobs:
        users = ask()
        if required_jobs - old_jobs:
            if users.running_instances:
                findings.append(preparation.preparation_change_finding(path, users.running_instances))
            elif users.stopping_instances:
                pending = f"its new preparation waits until {', '.join(sorted(users.stopping_instances))} has stopped"
            elif not old_jobs <= frozenset(users.finished_jobs):
                pending = "its new preparation waits until the status shows the end of the previous preparation"
        if not findings and not pending and (has_kept_jobs(before) or old_jobs & frozenset(users.protected_jobs)):
            pending, let_go = "its last preparation is let go first", True
    data = with_jobs_of(with_data_source_of(after, before), before, is_pending=bool(pending))
    data = with_prunable_jobs(data) if let_go else data
    if noted := read_predecessor(before):
        data = with_predecessor(data, noted)
    return VolumeTransition(data, findings, pending)


def _immutable_changes(path: str, old: PublishedVolume, new: PublishedVolume) -> Iterator[Finding]:
    if old.kind == new.kind == "VolumeSnapshot":
        if old.source_volume != new.source_volume:
            message = f"'{new.source_volume}' was '{old.source_volume}', and a snapshot stays that of its storage: declare another snapshot"
            yield Finding(path, ("spec", "storage"), message, immutability.RULE)
        return
    if old.kind != new.kind:
        message = "a volume stays a volume, a bucket a bucket: declare another storage"
        yield Finding(path, ("spec", "storageSpec"), message, immutability.RULE)
        return
    if new.size < old.size:
        yield immutability.shrink_finding(path, old.size, new.size)
    for field, before, after in (
        ("storage class", old.storage_class, new.storage_class),
        ("access mode", ", ".join(old.access_modes), ", ".join(new.access_modes)),
    ):
        if before != after:
            message = f"its volume has {field} '{before}' and can't change to '{after}': declare another storage"
            yield Finding(path, ("spec", "storageSpec"), message, immutability.RULE)
