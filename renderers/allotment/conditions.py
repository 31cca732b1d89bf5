"""The vocabulary of a status: its states, its conditions, and their reasons."""

from __future__ import annotations

# States of an instance. It passes through the first three in this order.
INIT = "Init"  # the instance holds its units
READY = "Ready"  # its container has started; `display_state` shows this state as Starting
RUNNING = "Running"  # its probe succeeds
STOPPED = "Stopped"
WAITING = "Waiting"
FAILED = "Failed"

# States of a resource that the cluster doesn't report. These states come from Git.
MERGED = "Merged"
KEPT = "Kept"  # the tenant of the resource stays at its last published manifests
PUBLISHED = "Published"
REMOVING = "Removing"  # no longer declared, but still published
OVERTAKEN = "Overtaken"  # the clone that the status is read from lacks the published commit

# States of a storage, and of its preparation.
PENDING = "Pending"
PREPARING = "Preparing"
STORAGE_READY = "Ready"
LOST = "Lost"
JOB_RUNNING = "Running"
SUCCEEDED = "Succeeded"

STATES = (
    INIT,
    READY,
    RUNNING,
    STOPPED,
    WAITING,
    FAILED,
    MERGED,
    KEPT,
    PUBLISHED,
    REMOVING,
    OVERTAKEN,
    PENDING,
    PREPARING,
    LOST,
)


def display_state(state: str, *, of_instance: bool) -> str:
    """Return a state for people. An instance that is `Ready` hasn't answered its probe, so it is shown as Starting."""
    return STARTING if of_instance and state == READY else state


# Conditions of an instance.
ADMITTED = "Admitted"
STORAGES_PREPARED = "StoragesPrepared"
SYNCED = "Synced"
SCHEDULED = "Scheduled"
STARTED = "Started"
AVAILABLE = "Available"
EXPOSED = "Exposed"

# Conditions that only storages have. Storages also have the condition Synced.
BOUND = "Bound"
PREPARED = "Prepared"
RESIZED = "Resized"
ACCESSOR_AVAILABLE = "AccessorAvailable"

# Only a resource that is being deleted has these conditions. They are in the order of the deletion steps.
# `allot publish` reads the times of these conditions.
MARKED_FOR_DELETION = "MarkedForDeletion"
UNPROTECTED = "Unprotected"

# Condition of a tenant's namespace in a cluster.
PROTECTED = "Protected"

# Only an orphan has this condition: an object that was removed from the rendered branch, but is still in the cluster.
DECLARED = "Declared"

# Two conditions, and then their reasons. AsPublished is false if somebody edited an object by hand, and OnlyPublished
# is false if somebody added an object by hand. Argo CD may report Synced in both cases.
AS_PUBLISHED = "AsPublished"
ONLY_PUBLISHED = "OnlyPublished"
EDITED_BY_HAND = "EditedByHand"
FOREIGN_OBJECT = "ForeignObject"

# The condition Stopped, and then its reasons. An instance has this condition while it is published without replicas,
# but still has pods.
STOPPED_DECLARED = "Stopped"
STOPPING = "Stopping"
STOPPED_STILL_RUNNING = "StoppedStillRunning"

# Reasons why the condition Declared is false: the deletion of the object is in progress, or has not happened in time.
REMOVED = "Removed"
REMOVED_STILL_RUNNING = "RemovedStillRunning"
REMOVED_STILL_THERE = "RemovedStillThere"
REMOVED_STILL_OPEN = "RemovedStillOpen"

# Reasons why `allot publish` gives an instance no replicas.
STOPPED_AS_DECLARED = "StoppedAsDeclared"
ON_HOLD = "OnHold"
TENANT_SUSPENDED = "TenantSuspended"
VERSION_REVOKED = "VersionRevoked"
NO_FREE_UNIT = "NoFreeUnit"
RESIZE_PENDING = "ResizePending"  # an exception: the instance keeps its last published replicas
STORAGE_UNPREPARED = "StorageUnprepared"
SOURCE_UNPREPARED = "SourceUnprepared"  # the source of a storage or snapshot is not prepared

# Reasons why an instance with replicas isn't running as declared.
ROLLOUT_PENDING = "RolloutPending"
SCHEDULING = "Scheduling"
STARTING = "Starting"
TERMINATING = "Terminating"
CREATION_REFUSED = "CreationRefused"
ADMISSION_FAILED = "AdmissionFailed"
EVICTED = "Evicted"
NODE_LOST = "NodeLost"
IMAGE_PULL_FAILED = "ImagePullFailed"
IMAGE_PULL_UNAUTHORIZED = "ImagePullUnauthorized"
CONFIG_FAILED = "ConfigFailed"
SECRET_NOT_READY = "SecretNotReady"  # noqa: S105  # a reason, not a password
CRASH_LOOP = "CrashLoop"
OUT_OF_MEMORY = "OutOfMemory"
CONTAINER_ENDED = "ContainerEnded"
PROBE_PENDING = "ProbePending"
PROBE_FAILED = "ProbeFailed"
GPU_UNHEALTHY = "GPUUnhealthy"  # the instance still runs, but its device failed

# Reasons why a cluster doesn't report a declared resource.
NOT_PUBLISHED = "NotPublished"
TENANT_KEPT = "TenantKept"
NOT_APPLIED = "NotApplied"
REMOVAL_PENDING = "RemovalPending"
CLONE_BEHIND = "CloneBehind"

# Reasons why a volume or its preparation isn't complete.
BINDING = "Binding"
VOLUME_LOST = "VolumeLost"
BUCKET_FAILED = "BucketFailed"
SNAPSHOT_PENDING = "SnapshotPending"
SNAPSHOT_FAILED = "SnapshotFailed"
RESIZING = "Resizing"
PREPARATION_PENDING = "PreparationPending"
PREPARATION_RUNNING = "PreparationRunning"
PREPARATION_FAILED = "PreparationFailed"
DEADLINE_EXCEEDED = "DeadlineExceeded"
LOCKED = "Locked"
CHECKSUM_MISMATCH = "ChecksumMismatch"
ADDRESS_REFUSED = "AddressRefused"
SOURCE_UNAVAILABLE = "SourceUnavailable"
NO_SPACE = "NoSpace"
SOURCE_UNREADABLE = "SourceUnreadable"
ACCESS_DENIED = "AccessDenied"
SUPERSEDED = "Superseded"  # another preparation of the volume began later
OF_ANOTHER_VOLUME = "OfAnotherVolume"

# Reasons why Argo CD hasn't applied an object, or a gateway hasn't accepted it.
OUT_OF_SYNC = "OutOfSync"
SYNC_FAILED = "SyncFailed"
NOT_OBSERVED = "NotObserved"
COMPARISON_FAILED = "ComparisonFailed"
ROUTE_PENDING = "RoutePending"
ROUTE_REFUSED = "RouteRefused"

# Reasons why a condition is true.
DELETION_DECLARED = "DeletionDeclared"
LET_GO = "LetGo"
UNITS_HELD = "UnitsHeld"
ALL_PREPARED = "AllPrepared"
NOTHING_TO_PREPARE = "NothingToPrepare"
APPLIED = "Applied"
ON_NODE = "OnNode"
CONTAINERS_STARTED = "ContainersStarted"
PROBES_ANSWERED = "ProbesAnswered"
ROUTES_ACCEPTED = "RoutesAccepted"
VOLUME_BOUND = "VolumeBound"
BUCKET_BOUND = "BucketBound"
SNAPSHOT_TAKEN = "SnapshotTaken"
PREPARATION_SUCCEEDED = "PreparationSucceeded"
ALREADY_PREPARED = "AlreadyPrepared"  # a recreated Job found the volume complete
AS_DECLARED = "AsDeclared"
