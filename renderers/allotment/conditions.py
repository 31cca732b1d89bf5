"""The words of a status: states, conditions and their reasons, each in one place and as people and programs read them."""

from __future__ import annotations

# States of an instance, the first three in the order in which it gets there.
INIT = "Init"  # its units are locked
READY = "Ready"  # its container has started; people read it as STARTING
RUNNING = "Running"  # its probe was answered
STOPPED = "Stopped"
WAITING = "Waiting"
FAILED = "Failed"

# States of what is declared and not seen in its cluster yet, in the order in which it gets there.
MERGED = "Merged"
KEPT = "Kept"  # its tenant is retained at its last published manifests
PUBLISHED = "Published"
REMOVING = "Removing"  # nothing declares it any more, and it is still published
OVERTAKEN = "Overtaken"  # a later commit is published than this clone knows

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
    """Return the state as people read it. `Ready` of an instance hasn't answered its probe: that is Starting."""
    return STARTING if of_instance and state == READY else state


# Conditions of an instance.
ADMITTED = "Admitted"
STORAGES_PREPARED = "StoragesPrepared"
SYNCED = "Synced"
SCHEDULED = "Scheduled"
STARTED = "Started"
AVAILABLE = "Available"
EXPOSED = "Exposed"

# Conditions of a storage, beside Synced.
BOUND = "Bound"
PREPARED = "Prepared"
RESIZED = "Resized"
ACCESSOR_AVAILABLE = "AccessorAvailable"

# Conditions of what is on its way out, in the order of its steps; nothing else has them. Publish reads their times.
MARKED_FOR_DELETION = "MarkedForDeletion"
UNPROTECTED = "Unprotected"

# A tenant's namespace in a cluster.
PROTECTED = "Protected"

# Condition of what is removed from the rendered branch and still there; nothing else has it.
DECLARED = "Declared"

# Conditions of objects that aren't as they are published, though Argo CD says Synced; nothing else has them.
AS_PUBLISHED = "AsPublished"
ONLY_PUBLISHED = "OnlyPublished"
EDITED_BY_HAND = "EditedByHand"
FOREIGN_OBJECT = "ForeignObject"

# Condition of an instance that is published without replicas and still has pods; nothing else has it.
STOPPED_DECLARED = "Stopped"
STOPPING = "Stopping"
STOPPED_STILL_RUNNING = "StoppedStillRunning"

# Why it isn't declared: it may be going just now, or it stays.
REMOVED = "Removed"
REMOVED_STILL_RUNNING = "RemovedStillRunning"
REMOVED_STILL_THERE = "RemovedStillThere"
REMOVED_STILL_OPEN = "RemovedStillOpen"

# Why an instance has no replicas: publish knows.
STOPPED_AS_DECLARED = "StoppedAsDeclared"
TENANT_SUSPENDED = "TenantSuspended"
VERSION_REVOKED = "VersionRevoked"
NO_FREE_UNIT = "NoFreeUnit"
RESIZE_PENDING = "ResizePending"  # of an instance with replicas: it runs as it was published
STORAGE_UNPREPARED = "StorageUnprepared"
SOURCE_UNPREPARED = "SourceUnprepared"  # of a storage or snapshot: what it is made from

# Why one with replicas isn't where it should be.
ROLLOUT_PENDING = "RolloutPending"
SCHEDULING = "Scheduling"
STARTING = "Starting"
TERMINATING = "Terminating"
CREATION_REFUSED = "CreationRefused"
ADMISSION_FAILED = "AdmissionFailed"
EVICTED = "Evicted"
NODE_LOST = "NodeLost"
IMAGE_PULL_FAILED = "ImagePullFailed"
CONFIG_FAILED = "ConfigFailed"
CRASH_LOOP = "CrashLoop"
OUT_OF_MEMORY = "OutOfMemory"
CONTAINER_ENDED = "ContainerEnded"
PROBE_PENDING = "ProbePending"
PROBE_FAILED = "ProbeFailed"
GPU_UNHEALTHY = "GPUUnhealthy"  # it still runs, but its device failed

# Why what is declared isn't seen in its cluster.
NOT_PUBLISHED = "NotPublished"
TENANT_KEPT = "TenantKept"
NOT_APPLIED = "NotApplied"
REMOVAL_PENDING = "RemovalPending"
CLONE_BEHIND = "CloneBehind"

# Why a volume or its preparation isn't.
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
SUPERSEDED = "Superseded"  # another preparation has begun on the volume since
OF_ANOTHER_VOLUME = "OfAnotherVolume"

# Why Argo CD hasn't applied it, or a gateway hasn't taken it.
OUT_OF_SYNC = "OutOfSync"
SYNC_FAILED = "SyncFailed"
NOT_OBSERVED = "NotObserved"
ROUTE_PENDING = "RoutePending"
ROUTE_REFUSED = "RouteRefused"

# Why a condition holds.
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
ALREADY_PREPARED = "AlreadyPrepared"  # its Job was made again, and found the volume complete
AS_DECLARED = "AsDeclared"
