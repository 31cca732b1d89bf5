"""Derives the state and the conditions of a live storage, and the result of its preparation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from allotment import conditions as word
from allotment.declared.values import parse_size
from allotment.manifests import names
from allotment.observed.conditions import ConditionBuilder, ConditionValue, add_deletion_conditions
from allotment.observed.objects import BucketClaim, Deployment, Job, Pod, Route, VolumeClaim
from allotment.observed.pod_state import CONFIG_REASONS, IMAGE_REASONS, image_pull_reason
from allotment.observed.status import Condition, Preparation, Storage
from allotment.preparation.job_names import format_job_name
from allotment.problems import escape_unprintable
from allotment.programs import ending

ALLOTMENT_CONTAINERS = ("check", "copy", "fetch", "seal", "hold")
_REASONS_BY_EXIT_CODE = {
    ending.LOCKED: word.LOCKED,
    ending.CHECKSUM_MISMATCH: word.CHECKSUM_MISMATCH,
    ending.ADDRESS_REFUSED: word.ADDRESS_REFUSED,
    ending.SOURCE_UNAVAILABLE: word.SOURCE_UNAVAILABLE,
    ending.NO_SPACE: word.NO_SPACE,
    ending.SOURCE_UNREADABLE: word.SOURCE_UNREADABLE,
    ending.ACCESS_DENIED: word.ACCESS_DENIED,
    ending.SUPERSEDED: word.SUPERSEDED,
}
_FAILURE_TEXTS = {
    word.LOCKED: "another preparation still uses the volume",
    word.CHECKSUM_MISMATCH: "the SHA-256 of the download differs from the declared SHA-256",
    word.ADDRESS_REFUSED: "its source isn't an https address on the internet",
    word.SOURCE_UNAVAILABLE: "its source is not available",
    word.NO_SPACE: "the storage is full: raise spec.size",
    word.SOURCE_UNREADABLE: "its source can't be read",
    word.ACCESS_DENIED: "its source denies access",
    word.OUT_OF_MEMORY: "it ran out of memory",
}


class StorageState(NamedTuple):
    """The state of a storage, and the reason."""

    state: str
    reason: str
    message: str = ""


class StorageView(NamedTuple):
    """The known facts of a storage: its objects, its condition Synced, and the time.

    `waits_for_storage` is another storage that must be prepared before this storage; it is empty if there is none.
    """

    claim: VolumeClaim
    jobs: Sequence[Job]
    pods: Sequence[Pod]
    accessor: Deployment | None
    routes: Sequence[Route]
    synced_condition: ConditionValue
    now: str
    waits_for_storage: str = ""


def derive_storage(view: StorageView, previous: Storage | None) -> Storage:
    """Return the status of a storage. Unchanged states and conditions keep their times from `previous`."""
    claim = view.claim
    predecessor = (
        previous if previous is not None and previous.claim == claim.uid else None
    )  # a recreated claim has another volume, so the previous status is not about this volume
    prepare = _derive_preparation(view)
    completed = _find_completed_attempt(view, prepare, predecessor)
    storage_state = _derive_state(view, completed or prepare)
    if completed is not None and storage_state.state == word.STORAGE_READY:
        storage_state = storage_state._replace(message=_rerun_message(completed))
    prepare = completed or prepare
    urls = sorted(route.url for route in view.routes if route.url)
    return Storage(
        name=claim.storage,
        observed_blob=claim.blob,
        state=storage_state.state,
        reason=storage_state.reason,
        message=storage_state.message,
        since=predecessor.since
        if predecessor and predecessor.state == storage_state.state
        else _reached_at(storage_state.state, prepare, view.now),
        claim=claim.uid,
        size=claim.requested,
        capacity=claim.capacity,
        url=urls[0] if urls else "",
        in_cluster_url=names.files_url(claim.storage, claim.tenant) if view.accessor is not None else "",
        prepare=prepare,
        conditions=_build_conditions(
            view, prepare, ConditionBuilder(predecessor.conditions if predecessor else (), view.now)
        ),
    )


def derive_bucket(live: BucketClaim, synced: ConditionValue, now: str, previous: Storage | None) -> Storage:
    """Return the status of a storage that is a bucket."""
    predecessor = previous if previous is not None and previous.claim == live.uid else None
    if live.phase == "Bound":
        storage_state = StorageState(word.STORAGE_READY, word.BUCKET_BOUND)
    elif live.phase == "Failed":
        storage_state = StorageState(
            word.FAILED, word.BUCKET_FAILED, "the object store can't create the bucket: ask the platform team"
        )
    else:
        storage_state = StorageState(word.PENDING, word.BINDING, "it has no bucket yet")
    conditions = ConditionBuilder(predecessor.conditions if predecessor else (), now)
    conditions.add(word.SYNCED, *synced)
    conditions.add(word.BOUND, "True" if live.phase == "Bound" else "False", storage_state.reason)
    add_deletion_conditions(conditions, live.marked_for_deletion, live.unprotected)
    return Storage(
        name=live.storage,
        observed_blob=live.blob,
        state=storage_state.state,
        reason=storage_state.reason,
        message=storage_state.message,
        since=predecessor.since if predecessor and predecessor.state == storage_state.state else now,
        claim=live.uid,
        size=live.size,
        conditions=conditions.build(),
    )


def derive_not_created(name: str, source: str, now: str, previous: Storage | None) -> Storage:
    """Return the status of a storage that has no volume yet.

    The volume is created only after the preparation of the storage `source` has succeeded.
    """
    storage_state = _waiting_state(source)
    same = previous is not None and previous.state == storage_state.state
    return Storage(
        name,
        previous.observed_blob if previous is not None else "",
        storage_state.state,
        storage_state.reason,
        storage_state.message,
        previous.since if previous is not None and same else now,
    )


def _waiting_state(source: str) -> StorageState:
    return StorageState(word.PENDING, word.SOURCE_UNPREPARED, f"waits for storage {source} to be prepared")


def _reached_at(state: str, prepare: Preparation | None, now: str) -> str:
    """Return the time when a storage reached a state.

    If the preparation of the storage caused the state, the result is the time that the preparation records. Otherwise
    the result is `now`.
    """
    if prepare is None:
        return now
    time = prepare.start_time if state == word.PREPARING else prepare.completion_time
    return min(time or now, now)


def _current_job(view: StorageView) -> Job | None:
    """Return the Job of the current preparation: the Job that the claim names, or else the newest Job, or None.

    The Job that the claim names isn't always the newest Job, because a branch that was reset to an earlier commit may
    have restored an earlier Job.
    """
    return max(
        view.jobs,
        key=lambda job: (job.name == view.claim.preparation_job, job.created, job.attempt, job.name),
        default=None,
    )


def _derive_preparation(view: StorageView) -> Preparation | None:
    job = _current_job(view)
    if job is None:
        return None
    state, reason = _derive_attempt_state(view, job)
    return Preparation(
        uid=job.uid,
        attempt=job.attempt,
        input_hash=job.input_hash,
        state=state,
        start_time=job.started_at,
        completion_time=job.completed_at if state in (word.SUCCEEDED, word.FAILED) else "",
        exit_code=_exit_code(view, job),
        reason=reason,
        log=job.log,
        is_prune_protected=job.prune_protected,
    )


def _find_completed_attempt(
    view: StorageView, prepare: Preparation | None, predecessor: Storage | None
) -> Preparation | None:
    """Return the succeeded attempt of a Job that was deleted after its success; None if there is no such Job.

    The Job runs again, or will run again. The second run writes nothing, because the first run left a marker on the
    volume.
    """
    if predecessor is None or predecessor.prepare is None or predecessor.prepare.state != word.SUCCEEDED:
        return None
    earlier = predecessor.prepare
    name = format_job_name(view.claim.storage, earlier.input_hash, earlier.attempt)
    if view.claim.preparation_job == name and all(job.name != name for job in view.jobs):
        return earlier
    if prepare is None or prepare.state in (word.SUCCEEDED, word.FAILED):
        return None
    same = (earlier.input_hash, earlier.attempt) == (prepare.input_hash, prepare.attempt)
    return msgspec.structs.replace(earlier, is_prune_protected=prepare.is_prune_protected) if same else None


def _exit_code(view: StorageView, job: Job) -> int | None:
    """Return the exit code of the Job's last pod that ended; None if it isn't known.

    If the pods are gone, the exit code follows from the result of the Job.
    """
    if job.already_complete:
        return ending.ALREADY_COMPLETE
    codes = sorted(
        (pod.created, pod.exit_code) for pod in view.pods if pod.owner == job.uid and pod.exit_code is not None
    )
    return codes[-1][1] if codes else 0 if job.succeeded else None


def _derive_attempt_state(view: StorageView, job: Job) -> tuple[str, str]:
    if job.created < view.claim.created and (job.succeeded or job.failure):
        return word.FAILED, word.OF_ANOTHER_VOLUME
    if job.succeeded:
        return word.SUCCEEDED, word.PREPARATION_SUCCEEDED
    if job.already_complete:
        return word.SUCCEEDED, word.ALREADY_PREPARED
    if job.failure:
        return word.FAILED, word.DEADLINE_EXCEEDED if job.failure == "DeadlineExceeded" else _failure_reason(view, job)
    own = [pod for pod in view.pods if pod.owner == job.uid]
    if any(pod.started_at for pod in own):
        return word.JOB_RUNNING, word.PREPARATION_RUNNING
    if own and all(pod.waiting_reason in IMAGE_REASONS for pod in own):
        return word.PENDING, image_pull_reason(own[0])
    if own and all(pod.waiting_reason in CONFIG_REASONS for pod in own):
        return word.PENDING, word.CONFIG_FAILED
    return word.PENDING, word.PREPARATION_PENDING


def _failure_reason(view: StorageView, job: Job) -> str:
    """Return the reason why the last failed pod of a Job failed.

    An exit code has a meaning only if it comes from one of ALLOTMENT_CONTAINERS, which run Allotment's own programs.
    """
    ends = [pod for pod in view.pods if pod.owner == job.uid and pod.exit_code]
    last = max(ends, key=lambda pod: (pod.created, pod.name), default=None)
    if last is None:
        return word.PREPARATION_FAILED
    if last.terminated_reason == "OOMKilled":
        return word.OUT_OF_MEMORY
    return (
        _REASONS_BY_EXIT_CODE.get(last.exit_code or 0, word.PREPARATION_FAILED)
        if last.container in ALLOTMENT_CONTAINERS
        else word.PREPARATION_FAILED
    )


def _derive_state(view: StorageView, prepare: Preparation | None) -> StorageState:
    if view.claim.phase == "Lost":
        return StorageState(word.LOST, word.VOLUME_LOST, "its volume is gone: ask the platform team")
    if prepare is not None and prepare.state == word.FAILED:
        return StorageState(word.FAILED, prepare.reason, _failure_message(prepare))
    if prepare is not None and prepare.state != word.SUCCEEDED:
        return StorageState(word.PREPARING, prepare.reason, _progress_message(prepare))
    if view.waits_for_storage and prepare is None:
        return _waiting_state(view.waits_for_storage)
    if view.claim.preparation_job and prepare is None:
        return StorageState(word.PREPARING, word.PREPARATION_PENDING, "its preparation hasn't begun yet")
    if view.claim.phase == "Bound":
        return StorageState(word.STORAGE_READY, word.VOLUME_BOUND)
    return StorageState(word.PENDING, word.BINDING, "it has no volume yet")


def _failure_message(prepare: Preparation) -> str:
    retry_hint = "`allot recover` tries again"
    if prepare.reason == word.OF_ANOTHER_VOLUME:
        return f"attempt {prepare.attempt} prepared a volume that is gone; {retry_hint}"
    if prepare.reason == word.DEADLINE_EXCEEDED:
        return f"preparation failed in attempt {prepare.attempt}: it took too long; {retry_hint}"
    if prepare.reason == word.SUPERSEDED:
        why = "another preparation has started on the volume since, and this attempt changed nothing"
        return f"preparation failed in attempt {prepare.attempt}: {why}; raise spec.prepare.attempt to overwrite it"
    if prepare.reason in _FAILURE_TEXTS:
        return f"preparation failed in attempt {prepare.attempt}: {_FAILURE_TEXTS[prepare.reason]}; {retry_hint}"
    code = f"exit {prepare.exit_code}" if prepare.exit_code is not None else "its pod never ran"
    return f"preparation failed in attempt {prepare.attempt}: {code}; {retry_hint}"


def _rerun_message(prepare: Preparation) -> str:
    return f"the Job of attempt {prepare.attempt} was deleted and runs again: it writes nothing on a complete volume"


def _progress_message(prepare: Preparation) -> str:
    if prepare.state == word.JOB_RUNNING:
        return f"preparation runs, attempt {prepare.attempt}"
    if prepare.reason == word.IMAGE_PULL_FAILED:
        return f"preparation can't start, attempt {prepare.attempt}: its image can't be pulled"
    if prepare.reason == word.IMAGE_PULL_UNAUTHORIZED:
        return f"preparation can't start, attempt {prepare.attempt}: the registry denies access to its image"
    if prepare.reason == word.CONFIG_FAILED:
        return f"preparation can't start, attempt {prepare.attempt}: its container can't be created"
    return f"preparation waits for its pod, attempt {prepare.attempt}"


def _build_conditions(
    view: StorageView, prepare: Preparation | None, conditions: ConditionBuilder
) -> tuple[Condition, ...]:
    claim = view.claim
    conditions.add(word.SYNCED, *view.synced_condition)
    if claim.phase == "Bound":
        conditions.add(word.BOUND, "True", word.VOLUME_BOUND)
    else:
        conditions.add(word.BOUND, "False", word.VOLUME_LOST if claim.phase == "Lost" else word.BINDING)
    if prepare is None and view.waits_for_storage:
        conditions.add(word.PREPARED, "False", word.SOURCE_UNPREPARED, _waiting_state(view.waits_for_storage).message)
    elif prepare is None and claim.preparation_job:
        conditions.add(word.PREPARED, "False", word.PREPARATION_PENDING)
    elif prepare is None:
        conditions.add(word.PREPARED, "True", word.NOTHING_TO_PREPARE)
    elif prepare.state == word.SUCCEEDED:
        conditions.add(word.PREPARED, "True", prepare.reason, "", prepare.completion_time)
    else:
        conditions.add(word.PREPARED, "False", prepare.reason, _derive_state(view, prepare).message)
    if claim.capacity and _parse_bytes(claim.capacity) >= _parse_bytes(claim.requested):
        conditions.add(word.RESIZED, "True", word.AS_DECLARED)
    elif claim.capacity:
        sizes = f"{escape_unprintable(claim.capacity, 20)} of {escape_unprintable(claim.requested, 20)}"
        conditions.add(word.RESIZED, "False", word.RESIZING, sizes)
    add_deletion_conditions(conditions, claim.marked_for_deletion, claim.unprotected)
    if view.accessor is not None:
        conditions.add(word.ACCESSOR_AVAILABLE, *_accessor_condition(view.accessor))
    return conditions.build()


def _parse_bytes(quantity: str) -> int:
    """Return a size in bytes; 0 if the text is neither a size as Allotment writes it nor a whole number."""
    try:
        return parse_size(quantity)
    except ValueError:
        return int(quantity) if quantity.isascii() and quantity.isdigit() else 0


def _accessor_condition(files: Deployment) -> ConditionValue:
    if files.replicas == 0:
        return ConditionValue("False", word.TENANT_SUSPENDED)
    if files.ready_replicas >= files.replicas:
        return ConditionValue("True", word.PROBES_ANSWERED)
    return ConditionValue("False", word.STARTING)
