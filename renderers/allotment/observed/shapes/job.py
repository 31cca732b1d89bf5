"""Jobs: the attempts to prepare a storage."""

from __future__ import annotations

from allotment.observed.objects import Job
from allotment.observed.shapes.base import Condition, Metadata, Shape, named, number


class _JobStatus(Shape, frozen=True):
    active: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class RawJob(Shape, frozen=True):
    """A Job."""

    metadata: Metadata
    status: _JobStatus = _JobStatus()


def job(raw: RawJob) -> Job:
    """Return what is kept of a Job."""
    metadata, status = raw.metadata, raw.status
    complete, failed = named(status.conditions, "Complete"), named(status.conditions, "Failed")
    return Job(
        metadata.uid,
        metadata.name,
        metadata.tenant,
        metadata.labels.storage,
        metadata.annotations.input_hash,
        number(metadata.annotations.attempt),
        metadata.creation_timestamp,
        status.start_time or "",
        status.completion_time or failed.last_transition_time or "",
        status.active,
        complete.status == "True",
        (failed.reason or "Failed") if failed.status == "True" else "",
        metadata.annotations.log,
    )
