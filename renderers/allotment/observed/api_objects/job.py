"""Jobs: the attempts to prepare a storage."""

from __future__ import annotations

import re

from allotment.manifests import names
from allotment.observed.api_objects.base import (
    ApiObject,
    Metadata,
    ObjectCondition,
    find_condition,
    normalize_time,
    parse_count,
)
from allotment.observed.objects import Job
from allotment.programs import ending

# Kubernetes' Job controller writes this message (pkg/controller/job/pod_failure_policy.go) when the pod failure policy
# ends a preparation because the volume is already complete. The pod may be gone, so the message is the only evidence.
# Allotment's program runs in the container `check`; a tenant's own program runs in the container `prepare`.
_ALREADY_COMPLETE_MESSAGE = re.compile(
    r"Container check for pod ([a-z0-9.-]+)/[a-z0-9.-]+ failed with"
    rf" exit code {ending.ALREADY_COMPLETE} matching FailJob rule at index 0"
)


class _JobStatus(ApiObject, frozen=True):
    active: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[ObjectCondition, ...] = ()


class RawJob(ApiObject, frozen=True):
    """A Job."""

    metadata: Metadata
    status: _JobStatus = _JobStatus()


def summarize_job(raw: RawJob) -> Job:
    """Return the summary of a Job."""
    metadata, status = raw.metadata, raw.status
    complete, failed = find_condition(status.conditions, "Complete"), find_condition(status.conditions, "Failed")
    return Job(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.get_label(names.STORAGE),
        input_hash=metadata.annotations.input_hash,
        attempt=parse_count(metadata.annotations.attempt),
        created=metadata.created,
        started_at=normalize_time(status.start_time),
        completed_at=normalize_time(status.completion_time) or normalize_time(failed.last_transition_time),
        active=status.active,
        succeeded=complete.status == "True",
        failure=(failed.reason or "Failed") if failed.status == "True" else "",
        already_complete=_was_already_complete(metadata, failed),
        log=metadata.annotations.log,
        prune_protected="Prune=false" in metadata.annotations.sync_options,
    )


def _was_already_complete(metadata: Metadata, failed: ObjectCondition) -> bool:
    match = _ALREADY_COMPLETE_MESSAGE.fullmatch(failed.message)
    ended = (failed.status, failed.reason) == ("True", "PodFailurePolicy")
    return ended and match is not None and match[1] == metadata.namespace
