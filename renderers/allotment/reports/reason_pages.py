"""Describe the conditions and reasons of a status, with remedies: the manual pages of `allot explain REASON`.

The tables of the operator's guide have the same text.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions as word


class Reason(NamedTuple):
    """The meaning of a reason, and its remedy."""

    meaning: str
    remedy: str


class ConditionPage(NamedTuple):
    """The meaning of a condition's status True, and the resources that have the condition."""

    true_when: str
    subject: str


CONDITIONS: dict[str, ConditionPage] = {
    word.ADMITTED: ConditionPage("a publish has given it its units", "an instance"),
    word.STORAGES_PREPARED: ConditionPage(
        "the storages that it mounts are prepared, or need no preparation", "an instance"
    ),
    word.SYNCED: ConditionPage("Argo CD has applied it as it is published", "all"),
    word.SCHEDULED: ConditionPage("its pods have nodes", "an instance"),
    word.STARTED: ConditionPage("its containers have started", "an instance"),
    word.AVAILABLE: ConditionPage("its probes were answered", "an instance"),
    word.EXPOSED: ConditionPage("the Gateway has accepted its routes", "an instance"),
    word.BOUND: ConditionPage("it has a volume, or a bucket", "a storage"),
    word.PREPARED: ConditionPage("its preparation was seen to succeed", "a storage"),
    word.RESIZED: ConditionPage("its volume is as large as declared", "a storage"),
    word.ACCESSOR_AVAILABLE: ConditionPage("its web page answers", "a storage"),
    word.MARKED_FOR_DELETION: ConditionPage(
        "the cluster has `deletionPolicy: Delete`; the hour counts from here", "what holds data"
    ),
    word.UNPROTECTED: ConditionPage("it is released, and may be deleted", "what holds data"),
    word.PROTECTED: ConditionPage("its namespace can't be deleted", "a tenant"),
    word.DECLARED: ConditionPage(
        "never: it is `False` for a resource that is removed from Git and still in the cluster", "all"
    ),
    word.AS_PUBLISHED: ConditionPage("never: it is `False` of an object that somebody edited by hand", "all"),
    word.ONLY_PUBLISHED: ConditionPage(
        "never: it is `False` of a namespace that has an object which isn't published", "a tenant"
    ),
    word.STOPPED_DECLARED: ConditionPage(
        "never: it is `False` for an instance that is declared stopped and still runs", "an instance"
    ),
}
REASONS: dict[str, Reason] = {
    word.EDITED_BY_HAND: Reason(
        "somebody edited an object by hand, and Argo CD says Synced: the message names each field",
        "if the edit is an attack, look at the audit log first. Run the command that the message names, and remove the field; or declare it in Git. A Deployment may be deleted instead: Argo CD makes it again",
    ),
    word.FOREIGN_OBJECT: Reason(
        "somebody added an object to a tenant's namespace by hand",
        "if it is an attack, look at the audit log first. Run the command that the message names",
    ),
    word.NO_FREE_UNIT: Reason(
        "no unit of its GPUSpec is free in the cluster",
        "wait, stop something, or choose another GPUSpec or cluster (`allot catalog`). Where nodes come when needed, `allot stock list` says how long that takes. A platform admin adds nodes and stock. If units should be free, see which nodes are not Ready",
    ),
    word.RESIZE_PENDING: Reason(
        "it was changed to another GPUSpec, of which no unit is free; it runs as it was published, with the units that it has",
        "wait, stop something, or choose another GPUSpec (`allot catalog`); or undo the change. All other changes of its pods wait, too; who may open it changes at once",
    ),
    word.STORAGE_UNPREPARED: Reason(
        "a storage that it mounts isn't prepared; it holds no unit meanwhile",
        "look at that storage's reason",
    ),
    word.SOURCE_UNPREPARED: Reason(
        "what a storage or snapshot is made from isn't prepared itself",
        "look at the source's reason",
    ),
    word.NODE_LOST: Reason(
        "its node doesn't answer, and nobody knows whether it runs there",
        "wait: if the node stays away it starts on another in 6 minutes, or 12 where it mounts a storage that one node has at a time; a unit must be free. Look at the node",
    ),
    word.VERSION_REVOKED: Reason(
        "the app's version was revoked",
        "choose another version; `allot catalog` lists them",
    ),
    word.TENANT_SUSPENDED: Reason(
        "the tenant is suspended",
        "the platform team lifts it, in `tenant.yaml`",
    ),
    word.STOPPED_AS_DECLARED: Reason(
        "it is declared `Stopped`",
        "write `state: Running`",
    ),
    word.NOT_PUBLISHED: Reason(
        "it is merged, and no publish had it yet",
        "after minutes: the publisher",
    ),
    word.TENANT_KEPT: Reason(
        "its tenant is retained at its last published manifests: invalid, or stopped by the brake or a deletion that loses data",
        "the message has the reason of the retention and the first problem. If it is `Invalid`, run `allot validate tenants/TENANT` and correct the problems by a pull request; else follow the message",
    ),
    word.REMOVAL_PENDING: Reason(
        "it is removed from Git, and no publish has taken that yet",
        "read the reason that stands beside it: Publishing has stopped",
    ),
    word.CLONE_BEHIND: Reason(
        "a later commit is published than this clone knows",
        "`git pull`, then ask again",
    ),
    word.NOT_APPLIED: Reason(
        "it is published, and its cluster doesn't show it",
        "is its Application Synced? does its cluster report?",
    ),
    word.ROLLOUT_PENDING: Reason(
        "its pods are being made",
        "wait",
    ),
    word.SCHEDULING: Reason(
        "a unit is handed over: its placeholder goes, its pod comes",
        "wait; after minutes look at the pod's events",
    ),
    word.STARTING: Reason(
        "its image is pulled, its volumes are mounted; the state Starting follows: its container has started and hasn't"
        " answered its probe yet",
        "wait; large images take long. `kubectl describe pod` says which of the two it is",
    ),
    word.PROBE_PENDING: Reason(
        "the container runs and hasn't answered its probe yet",
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
        "it was removed from Git, and goes",
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
        "it is being taken",
        "wait; then look at the snapshot controller",
    ),
    word.PREPARATION_PENDING: Reason(
        "its Job has no pod yet, or fills the volume",
        "wait until `timeout`; its log is linked",
    ),
    word.PREPARATION_RUNNING: Reason(
        "its Job has no pod yet, or fills the volume",
        "wait until `timeout`; its log is linked",
    ),
    word.ROUTE_PENDING: Reason(
        "no gateway has accepted its route yet",
        "does the Gateway take routes of this namespace? `kubectl -n edge describe gateway`",
    ),
    word.OUT_OF_SYNC: Reason(
        "the cluster doesn't have it as it is published yet",
        "look at its Application",
    ),
    word.NOT_OBSERVED: Reason(
        "Argo CD says nothing of it",
        "is there its Application? is the controller running?",
    ),
    word.CREATION_REFUSED: Reason(
        "the cluster lets no pod of it be made: quota, Pod Security, an admission policy",
        "the message says which. Somebody changed the namespace, or has a policy of their own",
    ),
    word.ADMISSION_FAILED: Reason(
        "its node didn't take the pod",
        "mostly the device plugin: it restarted, or its configuration is another. Look at the node",
    ),
    word.EVICTED: Reason(
        "its node threw it out",
        "the node lacked memory, disk or processes, was shut down, or needed room for a critical pod: the message says which. It starts again",
    ),
    word.IMAGE_PULL_FAILED: Reason(
        "its image can't be pulled",
        "the message says why: not found, no access, no room. Check the digest and the registry",
    ),
    word.CONFIG_FAILED: Reason(
        "the container can't be made",
        "the message says why: a Secret that is missing, a command that isn't in the image. Else `kubectl describe pod`",
    ),
    word.CRASH_LOOP: Reason(
        "the container ended, again and again or once",
        "look at its log; the exit code stands in the message",
    ),
    word.CONTAINER_ENDED: Reason(
        "the container ended, again and again or once",
        "look at its log; the exit code stands in the message",
    ),
    word.OUT_OF_MEMORY: Reason(
        "it used up its unit's memory",
        "a larger GPUSpec, or less in memory. GPU memory isn't meant",
    ),
    word.PROBE_FAILED: Reason(
        "it runs, and doesn't answer its probe now; or it was ended because it didn't within `startTimeout`",
        "look at its log; it gets no traffic meanwhile. If its start takes that long, declare a longer `startTimeout`",
    ),
    word.GPU_UNHEALTHY: Reason(
        "it runs, and the device plugin says that its GPU went bad",
        "stop it and start it again: it gets another GPU, because the device plugin withdraws the faulty GPU. Check the GPU",
    ),
    word.SYNC_FAILED: Reason(
        "Argo CD couldn't apply it",
        "its dashboard says why, under the Application's conditions",
    ),
    word.ROUTE_REFUSED: Reason(
        "the gateway refused its route",
        "`kubectl describe httproute`",
    ),
    word.VOLUME_LOST: Reason(
        "the volume is gone from under its claim",
        "ask the owners of the storage; restore it from a snapshot",
    ),
    word.BUCKET_FAILED: Reason(
        "the object store, or the driver, can't make it",
        "look at its controller's log",
    ),
    word.SNAPSHOT_FAILED: Reason(
        "the object store, or the driver, can't make it",
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
        "another preparation still holds the volume",
        "wait for it to end, then `allot recover`",
    ),
    word.CHECKSUM_MISMATCH: Reason(
        "what was fetched has another SHA-256",
        "has the file changed? Declare the hash that you trust",
    ),
    word.ADDRESS_REFUSED: Reason(
        "the source isn't an https address of the internet",
        "declare such an address; private addresses are refused",
    ),
    word.SOURCE_UNAVAILABLE: Reason(
        "the source is not available, or has unexpected content",
        "look at it from elsewhere, then `allot recover`",
    ),
    word.SOURCE_UNREADABLE: Reason(
        "the source is not available, or has unexpected content",
        "look at it from elsewhere, then `allot recover`",
    ),
    word.ACCESS_DENIED: Reason(
        "the source isn't open to it",
        "check the Secret with the credentials, and their permissions",
    ),
    word.NO_SPACE: Reason(
        "the storage is full",
        "raise `size`, then `allot recover`",
    ),
    word.SUPERSEDED: Reason(
        "another preparation has begun on the volume since",
        "raise `spec.prepare.attempt` to overwrite it",
    ),
    word.OF_ANOTHER_VOLUME: Reason(
        "the attempt prepared a volume that is gone",
        "`allot recover`",
    ),
    word.REMOVED_STILL_RUNNING: Reason(
        "it was removed two minutes ago or longer, and runs",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.REMOVED_STILL_THERE: Reason(
        "it is there, and doesn't run",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.REMOVED_STILL_OPEN: Reason(
        "its address still answers",
        "at once, refresh the Application that the message names: `argocd app get NAME --hard-refresh`",
    ),
    word.STOPPED_STILL_RUNNING: Reason(
        "it was stopped ten minutes ago or longer, and runs; its unit stays held",
        "refresh the Application that the message names: `argocd app get NAME --hard-refresh`; then look for a finalizer on its pods",
    ),
}
# Reasons for a condition that holds. No remedy is needed.
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
        for name, reason in REASONS.items()
    }
    pages |= dict.fromkeys(GOOD_REASONS, "It says why a condition holds: all is well.")
    return dict(sorted(pages.items()))
