"""Describe the conditions and reasons of a status, with remedies: the manual pages of `allot explain REASON`.

The tables of the operator's guide have the same text.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions as word
from allotment.observed.retention import WAYS_OUT, RetentionReason


class Reason(NamedTuple):
    """The meaning of a reason, and its remedy."""

    meaning: str
    remedy: str


class ConditionPage(NamedTuple):
    """A condition: what it means if its status is True, and which resources have it."""

    true_when: str
    subject: str


CONDITIONS: dict[str, ConditionPage] = {
    word.ADMITTED: ConditionPage("a publish has given it its units", "an instance"),
    word.STORAGES_PREPARED: ConditionPage(
        "the storages that it mounts are prepared, or need no preparation", "an instance"
    ),
    word.SYNCED: ConditionPage("Argo CD has applied its published version", "all"),
    word.SCHEDULED: ConditionPage("its pods have nodes", "an instance"),
    word.STARTED: ConditionPage("its containers have started", "an instance"),
    word.AVAILABLE: ConditionPage("its probes succeed", "an instance"),
    word.EXPOSED: ConditionPage("the Gateway has accepted its routes", "an instance"),
    word.BOUND: ConditionPage("it has a volume, or a bucket", "a storage"),
    word.PREPARED: ConditionPage("its preparation has succeeded", "a storage"),
    word.RESIZED: ConditionPage("its volume is as large as declared", "a storage"),
    word.ACCESSOR_AVAILABLE: ConditionPage("its web page responds", "a storage"),
    word.MARKED_FOR_DELETION: ConditionPage(
        "the cluster has `deletionPolicy: Delete`; the hour counts from here", "a resource with data"
    ),
    word.UNPROTECTED: ConditionPage("it is released, and may be deleted", "a resource with data"),
    word.PROTECTED: ConditionPage("its namespace can't be deleted", "a tenant"),
    word.DECLARED: ConditionPage(
        "never: it is `False` for a resource that is removed from Git and still in the cluster", "all"
    ),
    word.AS_PUBLISHED: ConditionPage("never: it is `False` for an object that was edited by hand", "all"),
    word.ONLY_PUBLISHED: ConditionPage(
        "never: it is `False` for a namespace with an object that isn't published", "a tenant"
    ),
    word.STOPPED_DECLARED: ConditionPage(
        "never: it is `False` for an instance that is declared stopped and still runs", "an instance"
    ),
}
REASONS: dict[str, Reason] = {
    word.EDITED_BY_HAND: Reason(
        "an object was edited by hand, and Argo CD reports Synced: the message names each field",
        "if the edit is an attack, look at the audit log first. Run the command that the message names, and remove the field; or declare it in Git. Instead, you can delete a Deployment: Argo CD creates it again",
    ),
    word.FOREIGN_OBJECT: Reason(
        "an object was added to a tenant's namespace by hand",
        "if it is an attack, look at the audit log first. Run the command that the message names",
    ),
    word.NO_FREE_UNIT: Reason(
        "no unit of its GPUSpec is free in the cluster",
        "wait, stop an instance, or choose another GPUSpec or cluster (`allot catalog`). If nodes are added on demand, `allot stock list` shows how long that takes. A platform admin adds nodes and stock. If units should be free, see which nodes are not Ready",
    ),
    word.RESIZE_PENDING: Reason(
        "its GPUSpec was changed, and no unit of the new GPUSpec is free; its published version runs on its current units",
        "wait, stop an instance, or choose another GPUSpec (`allot catalog`); or undo the change. Other changes of its pods wait too; a change of access applies at once",
    ),
    word.STORAGE_UNPREPARED: Reason(
        "a storage that it mounts isn't prepared; it holds no unit until then",
        "look at that storage's reason",
    ),
    word.SOURCE_UNPREPARED: Reason(
        "the source of the storage or snapshot isn't prepared",
        "look at the source's reason",
    ),
    word.NODE_LOST: Reason(
        "its node doesn't respond, so the state of its pod is unknown",
        "wait: it starts on another node after 6 minutes, or after 12 if it mounts a ReadWriteOnce storage, once a unit is free. After that time, stop it, so that it costs nothing, and look at the node",
    ),
    word.VERSION_REVOKED: Reason(
        "the app's version was revoked",
        "choose another version; `allot catalog` lists them",
    ),
    word.TENANT_SUSPENDED: Reason(
        "the tenant is suspended",
        "the platform team lifts it, in `tenant.yaml`",
    ),
    word.ON_HOLD: Reason(
        "the platform team put it on hold; the message has the reason. Its storages stay, and it costs nothing",
        "ask the platform team, which runs `allot instance release TENANT/NAME`",
    ),
    word.STOPPED_AS_DECLARED: Reason(
        "it is declared `Stopped`",
        "write `state: Running`",
    ),
    word.NOT_PUBLISHED: Reason(
        "it is merged and not published yet",
        "wait a few minutes, then send the platform team the output of `allot status TENANT/NAME`, because publishing has stopped",
    ),
    word.TENANT_KEPT: Reason(
        "its tenant is retained at its last published manifests: it is invalid, or the brake or a refused deletion stopped it",
        "the message has the reason of the retention and the first problem. If it is `Invalid`, run `allot validate tenants/TENANT` and correct the problems in a pull request; otherwise follow the message",
    ),
    word.REMOVAL_PENDING: Reason(
        "it is removed from Git, and the removal is not published yet",
        "read the reason next to it: publishing has stopped",
    ),
    word.CLONE_BEHIND: Reason(
        "the published commit is newer than this clone",
        "run `git pull`, then repeat the command",
    ),
    word.NOT_APPLIED: Reason(
        "it is published, and its cluster doesn't report it yet",
        "check that its Application is Synced, and that its cluster reports",
    ),
    word.ROLLOUT_PENDING: Reason(
        "its pods are being created",
        "wait",
    ),
    word.SCHEDULING: Reason(
        "its pod is replacing the placeholder of a unit",
        "wait; after a few minutes, look at the pod's events",
    ),
    word.STARTING: Reason(
        "its image is being pulled, or its volumes are being mounted. In the following state Starting, its container "
        "has started and its probe has not succeeded yet",
        "wait; large images take long. `kubectl describe pod` shows the current step",
    ),
    word.PROBE_PENDING: Reason(
        "the container runs, and its probe has not succeeded yet",
        "wait as long as the app's `startTimeout`; look at its log",
    ),
    word.TERMINATING: Reason(
        "its pods are ending",
        "wait",
    ),
    word.STOPPING: Reason(
        "its pods are ending",
        "wait",
    ),
    word.REMOVED: Reason(
        "it was removed from Git, and is being deleted",
        "wait two minutes",
    ),
    word.BINDING: Reason(
        "its volume, or bucket, isn't there yet",
        "look at the storage class, its driver, and `kubectl describe pvc`",
    ),
    word.RESIZING: Reason(
        "its volume is growing",
        "wait; some drivers finish when it is mounted next",
    ),
    word.SNAPSHOT_PENDING: Reason(
        "the snapshot is being created",
        "wait; then look at the log of the snapshot controller",
    ),
    word.PREPARATION_PENDING: Reason(
        "its Job has no pod yet, or fills the volume",
        "wait until `timeout`; `allot logs` prints its log",
    ),
    word.PREPARATION_RUNNING: Reason(
        "its Job has no pod yet, or fills the volume",
        "wait until `timeout`; `allot logs` prints its log",
    ),
    word.ROUTE_PENDING: Reason(
        "no gateway has accepted its route yet",
        "check with `kubectl -n edge describe gateway` that the Gateway accepts routes of this namespace",
    ),
    word.OUT_OF_SYNC: Reason(
        "the cluster doesn't have the published version yet",
        "look at its Application",
    ),
    word.COMPARISON_FAILED: Reason(
        "Argo CD can't compare the Application with the published version, so it applies no change of any of its objects",
        "`argocd app get` shows the comparison error. An object that somebody edited by hand can be the cause: `allot doctor` names"
        " it, and Argo CD creates it again after `kubectl delete`",
    ),
    word.NOT_OBSERVED: Reason(
        "Argo CD has no status for it",
        "check that its Application exists and that the controller runs",
    ),
    word.CREATION_REFUSED: Reason(
        "the cluster rejects its pods: quota, Pod Security, an admission policy",
        "the message names the cause. The namespace was changed, or the cluster has an additional policy",
    ),
    word.ADMISSION_FAILED: Reason(
        "its node rejected the pod",
        "the usual cause is the device plugin: it restarted, or its configuration changed. Look at the node",
    ),
    word.EVICTED: Reason(
        "its node evicted the pod",
        "the node lacked memory, disk or processes, was shut down, or needed room for a critical pod, or the files of the container outside of volumes exceeded their limit: the message names the cause. It starts again",
    ),
    word.IMAGE_PULL_FAILED: Reason(
        "its image can't be pulled",
        "the message names the cause: not found, no disk space. Check the digest and the registry",
    ),
    word.IMAGE_PULL_UNAUTHORIZED: Reason(
        "the registry of its image demands a credential, or rejects the credential",
        "declare a SecretReference with `type: ImagePull` for the registry, then stop the instance and start it again, because only a new pod gets a credential. Or correct the credential in the secret store, and wait until the cluster has read it",
    ),
    word.CONFIG_FAILED: Reason(
        "the container can't be created",
        "the message names the cause, such as a missing Secret, or a command that isn't in the image. For other causes, run `kubectl describe pod`",
    ),
    word.SECRET_NOT_READY: Reason(
        "the Secret of a SecretReference is missing, or lacks a key",
        "check that the secret store has the declared path and property. The ExternalSecret in Argo CD, or `kubectl describe externalsecret`, shows the operator's error. The instance starts by itself once the Secret has the key",
    ),
    word.CRASH_LOOP: Reason(
        "the container ended, once or repeatedly",
        "look at its log; the message has the exit code",
    ),
    word.CONTAINER_ENDED: Reason(
        "the container ended, once or repeatedly",
        "look at its log; the message has the exit code",
    ),
    word.OUT_OF_MEMORY: Reason(
        "it exceeded the memory of its unit",
        "choose a larger GPUSpec, or reduce its memory use. The limit is about main memory, not GPU memory",
    ),
    word.PROBE_FAILED: Reason(
        "it runs and its probe fails, or it was killed because its probe did not succeed within `startTimeout`",
        "look at its log; it gets no traffic until its probe succeeds. If its start takes that long, declare a longer `startTimeout`",
    ),
    word.GPU_UNHEALTHY: Reason(
        "it runs, and the device plugin reports its GPU as unhealthy",
        "stop it and start it again: it gets another GPU, because the device plugin withdraws the faulty GPU. Check the GPU",
    ),
    word.SYNC_FAILED: Reason(
        "Argo CD couldn't apply it",
        "its dashboard shows the error under the Application's conditions",
    ),
    word.ROUTE_REFUSED: Reason(
        "the gateway rejected its route",
        "`kubectl describe httproute`",
    ),
    word.VOLUME_LOST: Reason(
        "the volume of its claim no longer exists",
        "ask the owners of the storage; restore it from a snapshot",
    ),
    word.BUCKET_FAILED: Reason(
        "the object store, or the driver, can't create it",
        "look at its controller's log",
    ),
    word.SNAPSHOT_FAILED: Reason(
        "the object store, or the driver, can't create it",
        "look at its controller's log",
    ),
    word.PREPARATION_FAILED: Reason(
        "the preparation ended with an error",
        "read its log; then `allot recover TENANT/STORAGE --reason TEXT`",
    ),
    word.DEADLINE_EXCEEDED: Reason(
        "the preparation took longer than `timeout`",
        "a longer `timeout`, then `allot recover`",
    ),
    word.LOCKED: Reason(
        "another preparation still uses the volume",
        "wait for it to end, then `allot recover`",
    ),
    word.CHECKSUM_MISMATCH: Reason(
        "the SHA-256 of the download differs from the declaration",
        "check whether the file has changed, and declare the hash that you trust",
    ),
    word.ADDRESS_REFUSED: Reason(
        "the source isn't an https address on the internet",
        "declare an https address on the internet; private addresses are rejected",
    ),
    word.SOURCE_UNAVAILABLE: Reason(
        "the source is not available, or has unexpected content",
        "check the source from another machine, then `allot recover`",
    ),
    word.SOURCE_UNREADABLE: Reason(
        "the source is not available, or has unexpected content",
        "check the source from another machine, then `allot recover`",
    ),
    word.ACCESS_DENIED: Reason(
        "the source denies access",
        "check the Secret with the credentials, and their permissions",
    ),
    word.NO_SPACE: Reason(
        "the storage is full",
        "raise `size`, then `allot recover`",
    ),
    word.SUPERSEDED: Reason(
        "another preparation has started on the volume since",
        "raise `spec.prepare.attempt` to overwrite it",
    ),
    word.OF_ANOTHER_VOLUME: Reason(
        "the attempt prepared a volume that is gone",
        "`allot recover`",
    ),
    word.REMOVED_STILL_RUNNING: Reason(
        "it was removed at least two minutes ago, and still runs",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.REMOVED_STILL_THERE: Reason(
        "it exists, and doesn't run",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.REMOVED_STILL_OPEN: Reason(
        "its address still responds",
        "at once, refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.STOPPED_STILL_RUNNING: Reason(
        "it was stopped at least ten minutes ago, and still runs; it still holds its unit",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`; then look for a finalizer on its pods",
    ),
}
# Why a publish retains a tenant. The table in docs/operate/publishing.md has the same causes.
RETENTION_REASONS: dict[str, Reason] = {
    reason.value: Reason(f"a publish retains the tenant, because {cause}", WAYS_OUT[reason])
    for reason, cause in {
        RetentionReason.INVALID: "its declarations have errors",
        RetentionReason.REFUSED_TRANSITION: "a transition would lose or corrupt data",
        RetentionReason.ISOLATION_GATE: "the isolation gate refuses its manifests: a bug of Allotment",
        RetentionReason.TIME_BUDGET: "its folder takes more processor time, files or bytes than a tenant may use",
        RetentionReason.BRAKE: "it deletes more of its own resources than the brake allows",
        RetentionReason.INVALID_CLUSTER: "the declarations of a cluster that it uses have errors",
        RetentionReason.PROGRAM_ERROR: "Allotment failed on this tenant: a bug",
    }.items()
}
# A condition with one of these reasons is as it should be, so the reasons need no remedy.
GOOD_REASONS = (
    word.UNITS_HELD,
    word.ALL_PREPARED,
    word.NOTHING_TO_PREPARE,
    word.APPLIED,
    word.ON_NODE,
    word.CONTAINERS_STARTED,
    word.PROBES_ANSWERED,
    word.ROUTES_ACCEPTED,
    word.VOLUME_BOUND,
    word.BUCKET_BOUND,
    word.SNAPSHOT_TAKEN,
    word.PREPARATION_SUCCEEDED,
    word.ALREADY_PREPARED,
    word.AS_DECLARED,
    word.DELETION_DECLARED,
    word.LET_GO,
)
AS_DECLARED_REASONS = (*GOOD_REASONS, word.STOPPED_AS_DECLARED)


def _to_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def reason_pages() -> dict[str, str]:
    """Return the pages of all conditions and reasons by name, sorted."""
    pages = {
        name: f"A condition of {'everything' if condition.subject == 'all' else condition.subject}, which is True when: {condition.true_when}."
        for name, condition in CONDITIONS.items()
    }
    pages |= {
        name: f"{_to_sentence(reason.meaning)}\n\nWhat to do: {_to_sentence(reason.remedy)}"
        for name, reason in (REASONS | RETENTION_REASONS).items()
    }
    pages |= dict.fromkeys(GOOD_REASONS, "The reason of a condition that holds. No action is needed.")
    return dict(sorted(pages.items()))
