"""What a storage was published as limits what it may become: no volume shrinks or changes its kind, no Job runs
twice, and none begins before the last one has ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from allotment.manifests.published import (
    PublishedVolume,
    awaits,
    job_names,
    keeps_jobs,
    predecessor_of,
    volume_of,
    with_jobs_let_go,
    with_jobs_of,
    with_origin_of,
    with_predecessor,
)
from allotment.problems import Finding
from allotment.rules import immutability, preparation


class Users(NamedTuple):
    """Who keeps a storage from being prepared anew.

    `running` are the instances that run on it and go on, `stopping` those that were stopped and still have pods;
    `over` are the Jobs that are known to have ended, `kept` those that the cluster was seen to have as ones that
    aren't pruned.
    """

    running: Collection[str] = ()
    stopping: Collection[str] = ()
    over: Collection[str] = ()
    kept: Collection[str] = ()


class Successor(NamedTuple):
    """A storage's next file, what is wrong with it, and in words what it waits for, empty where it waits for nothing."""

    data: bytes
    findings: list[Finding]
    pending: str


def succeeded(path: str, before: bytes, after: bytes, ask: Callable[[], Users]) -> Successor:
    """Return what follows a storage's or snapshot's file; `path` is its declaration's. Who uses it is asked only
    where that counts.

    What was published waits no more, whatever is known today: a gate that has opened stays open.
    """
    old, new, awaited = volume_of(before), volume_of(after), awaits(after)
    was = job_names(before)
    if awaited is not None and awaits(before) is None and (awaited in was or (old is not None and not awaited)):
        return Successor(before, [], "")
    findings = list(_broken(path, old, new)) if old is not None and new is not None else []
    wanted = job_names(after) | ({awaited} if awaited else frozenset())
    pending, let_go = "", False
    if was and was - wanted:
        users = ask()
        if wanted - was:
            if users.running:
                findings.append(preparation.changed_under(path, users.running))
            elif users.stopping:
                pending = f"its new preparation waits until {', '.join(sorted(users.stopping))} has stopped"
            elif not was <= frozenset(users.over):
                pending = "its new preparation waits until the last one was seen to have ended"
        if not findings and not pending and (keeps_jobs(before) or was & frozenset(users.kept)):
            pending, let_go = "its last preparation is let go first", True
    data = with_jobs_of(with_origin_of(after, before), before, held=bool(pending))
    data = with_jobs_let_go(data) if let_go else data
    if noted := predecessor_of(before):
        data = with_predecessor(data, noted)
    return Successor(data, findings, pending)


def _broken(path: str, old: PublishedVolume, new: PublishedVolume) -> Iterator[Finding]:
    if old.kind == new.kind == "VolumeSnapshot":
        if old.of != new.of:
            message = f"'{new.of}' was '{old.of}', and a snapshot stays that of its storage: declare another snapshot"
            yield Finding(path, ("spec", "storage"), message, immutability.RULE)
        return
    if old.kind != new.kind:
        message = "a volume stays a volume, a bucket a bucket: declare another storage"
        yield Finding(path, ("spec", "storageSpec"), message, immutability.RULE)
        return
    if new.size < old.size:
        yield immutability.shrunk(path, old.size, new.size)
    for field, was, is_now in (
        ("storage class", old.storage_class, new.storage_class),
        ("access mode", ", ".join(old.access_modes), ", ".join(new.access_modes)),
    ):
        if was != is_now:
            message = f"its volume has {field} '{was}' and can't change to '{is_now}': declare another storage"
            yield Finding(path, ("spec", "storageSpec"), message, immutability.RULE)
