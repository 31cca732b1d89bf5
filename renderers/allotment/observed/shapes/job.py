"""Jobs: the attempts to prepare a storage."""

from __future__ import annotations

import re

from allotment.observed.objects import Job
from allotment.observed.shapes.base import Metadata, ObjectCondition, Shape, named, number, time_of
from allotment.programs import ending

# What Kubernetes' Job controller says (pkg/controller/job/pod_failure_policy.go) when the rule of a preparation's
# Job ends it. The pod may be gone by then, so its words are all there is. `check` is ours; a tenant's own program
# is called `prepare`.
_CHECKED = re.compile(
    r"Container check for pod ([a-z0-9.-]+)/[a-z0-9.-]+ failed with"
    rf" exit code {ending.ALREADY_COMPLETE} matching FailJob rule at index 0"
)


class _JobStatus(Shape, frozen=True):
    active: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[ObjectCondition, ...] = ()


class RawJob(Shape, frozen=True):
    """A Job."""

    metadata: Metadata
    status: _JobStatus = _JobStatus()


def job(raw: RawJob) -> Job:
    """Return what is kept of a Job."""
    metadata, status = raw.metadata, raw.status
    complete, failed = named(status.conditions, "Complete"), named(status.conditions, "Failed")
    return Job(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.labels.storage,
        input_hash=metadata.annotations.input_hash,
        attempt=number(metadata.annotations.attempt),
        created=metadata.created,
        started=time_of(status.start_time),
        ended=time_of(status.completion_time) or time_of(failed.last_transition_time),
        active=status.active,
        succeeded=complete.status == "True",
        failure=(failed.reason or "Failed") if failed.status == "True" else "",
        was_complete=_was_complete(metadata, failed),
        log=metadata.annotations.log,
        kept="Prune=false" in metadata.annotations.sync_options,
    )


def _was_complete(metadata: Metadata, failed: ObjectCondition) -> bool:
    match = _CHECKED.fullmatch(failed.message)
    ended = (failed.status, failed.reason) == ("True", "PodFailurePolicy")
    return ended and match is not None and match[1] == metadata.namespace
