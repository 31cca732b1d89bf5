"""Derives how far the rollout of a merged change has come: from the merge until the resource runs or fails."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from allotment import conditions as word
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.declared.values import NAME_PATTERN
from allotment.observed import orphans
from allotment.observed.conditions import COMPARISON_FAILED_TEXT, UNKNOWN_SYNC
from allotment.observed.deletion_point import DATA_LOST_TEXT, describe_data_deadline, find_marked_since
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import Condition, Instance, Snapshot, Storage, TenantStatus, parse_time

RolloutProgress = Literal["going", "done", "failed"]
Resource = Instance | Storage | Snapshot


class ResourceRef(NamedTuple):
    """A merged instance, storage or snapshot.

    `blob` is the Git blob of its declaration; it is empty if the merge removed the declaration.
    """

    kind: str
    tenant: str
    name: str
    cluster: str
    blob: str


class DeletingVolume(NamedTuple):
    """A published volume that is no longer declared.

    `protected` says whether the volume is still protected from deletion. The volume may be deleted `grace_seconds`
    after its cluster first reported that the volume is marked for deletion.
    """

    protected: bool
    grace_seconds: float


class BlobVersions(NamedTuple):
    """The published state of a resource.

    - `source` is the blob of the resource's declaration in the published source commit; it is empty if this commit
      doesn't declare the resource for this cluster.
    - `rendered` is the blob of the declaration from which the published manifests of the resource were rendered; it is
      empty if the resource has no published manifests.
    - `deleting_volume` is the volume of the resource if the volume is being deleted.
    - `wait_message` is set if an instance waits for units of another GPUSpec. Until the instance gets these units, it
      keeps its earlier Deployment.
    """

    source: str
    rendered: str
    deleting_volume: DeletingVolume | None = None
    wait_message: str = ""


class RolloutStage(NamedTuple):
    """The rollout stage of a resource: its progress, its state, the reason, the URL and the remedy."""

    progress: RolloutProgress
    state: str
    message: str = ""
    url: str = ""
    remedy: str = ""


_LOG_REMEDY = (
    "read its log with `allot logs`; report it to the platform team if it runs an app, otherwise correct its container"
)
# For each reason, the remedy. A reason is left out if its message already names the remedy.
_REMEDIES = {
    word.NO_FREE_UNIT: "stop another instance, or choose another GPUSpec or cluster",
    word.RESIZE_PENDING: "stop another instance, or choose another GPUSpec",
    word.IMAGE_PULL_FAILED: "correct the image's name and digest",
    word.IMAGE_PULL_UNAUTHORIZED: "declare a SecretReference with type ImagePull for its registry, then stop it and start it again; or correct the"
    " credential in the secret store",
    word.CRASH_LOOP: _LOG_REMEDY,
    word.CONTAINER_ENDED: _LOG_REMEDY,
    word.OUT_OF_MEMORY: "choose a GPUSpec with more memory",
    word.PROBE_FAILED: "read its log with `allot logs`; a longer startTimeout may help",
    word.CONFIG_FAILED: "correct its command or its bucket; otherwise report this to the platform team",
    word.SECRET_NOT_READY: "correct the path of its SecretReference, or ask the administrator of the secret store; it starts by itself",
    word.GPU_UNHEALTHY: "report this to the platform team",
    word.CREATION_REFUSED: "report this to the platform team",
    word.ADMISSION_FAILED: "report this to the platform team",
    word.SYNC_FAILED: "report this to the platform team",
    word.COMPARISON_FAILED: "report this to the platform team: `argocd app get` shows the error",
    word.ROUTE_REFUSED: "report this to the platform team",
    word.VOLUME_LOST: "report this to the platform team",
    word.PREPARATION_FAILED: "read its log with `allot logs`; correct the source, or try again with `allot recover`",
    word.CHECKSUM_MISMATCH: "correct the URL or its sha256",
    word.ADDRESS_REFUSED: "name an https address of the internet",
    word.SOURCE_UNAVAILABLE: "correct the source, or try again with `allot recover`",
    word.SOURCE_UNREADABLE: "correct the source, or try again with `allot recover`",
    word.ACCESS_DENIED: "correct the source's secretRef, or ask its owner",
    word.SUPERSEDED: "raise spec.prepare.attempt to overwrite the files of the other preparation",
    word.NO_SPACE: "raise spec.size, then try again with `allot recover`",
    word.DEADLINE_EXCEEDED: "raise spec.prepare.timeout, then try again with `allot recover`",
    word.SOURCE_UNPREPARED: "it continues once its source is prepared",
    word.STORAGE_UNPREPARED: "it starts by itself once the storage is prepared",
}
_NAME = re.compile(NAME_PATTERN)
_COMMAND = re.compile("`(allot (?:logs|status))`")  # a command that needs the name of the resource
_DEFAULT_REMEDY = "see `allot status`"
_RESTART_MINUTES = 12  # the longest time until the pod of a lost node starts on another node
_RESTART_REMEDY = "it continues without your action"
_LOST_NODE_REMEDY = "stop it, so that it costs nothing, or ask the platform team about the node"


def derive_stage(
    resource: ResourceRef,
    published: BlobVersions | None,
    statuses: Sequence[TenantStatus],
    silent: Mapping[str, str] = MappingProxyType({}),
    retained: RetainedTenant | None = None,
    now: datetime.datetime | None = None,
) -> RolloutStage:
    """Return the rollout stage of a resource. The commands in its remedy name the resource.

    `published` is None while the merge of the resource is not published. `silent` maps a cluster to the reason why the
    state of the cluster is unknown or uncertain. `retained` is the tenant's entry in the retention record; it is None
    if the record has no such entry. Without `now`, each state counts as new.
    """
    stage = _derive_stage(resource, published, statuses, silent, retained, now)
    name = f"{resource.tenant}/{resource.name}"
    has_valid_name = all(_NAME.fullmatch(part) for part in (resource.tenant, resource.name))
    return stage._replace(remedy=_COMMAND.sub(rf"`\1 {name}`", stage.remedy)) if has_valid_name else stage


def _derive_stage(
    resource: ResourceRef,
    published: BlobVersions | None,
    statuses: Sequence[TenantStatus],
    silent: Mapping[str, str],
    retained: RetainedTenant | None,
    now: datetime.datetime | None,
) -> RolloutStage:
    if published is None:
        return RolloutStage("going", "merged", "not published yet")
    if published.source != resource.blob:
        return RolloutStage("done", "overtaken", "a later change replaced this change")
    if published.rendered != resource.blob and published.wait_message and resource.blob:
        return RolloutStage("going", "waiting", published.wait_message, remedy=_REMEDIES[word.RESIZE_PENDING])
    if published.rendered != resource.blob:
        description = "the previous version is still published" if published.rendered else "not published"
        if retained is None:
            return RolloutStage(
                "failed", "kept", description, remedy="run `allot validate`, or `allot publish --dry-run`"
            )
        message = f"{description}: its tenant is retained: {retained.words}"
        return RolloutStage("failed", "kept", message, remedy=WAYS_OUT[retained.reason])
    observation = _find_observed(resource, statuses)
    if not resource.blob and published.deleting_volume is not None:
        mark = find_marked_since(observation.conditions) if observation is not None else ""
        message = (
            describe_data_deadline(mark, published.deleting_volume.grace_seconds)
            if published.deleting_volume.protected
            else DATA_LOST_TEXT
        )
        return (_orphan_stage(resource, observation, statuses) if observation is not None else None) or RolloutStage(
            "going", "removing", message
        )
    if not resource.blob:
        if observation is None:
            return RolloutStage("done", "gone")
        return _orphan_stage(resource, observation, statuses) or RolloutStage("going", "published", "being removed")
    if observation is None or observation.observed_blob != resource.blob:
        return _not_applied_stage(resource, observation, statuses, silent)
    if any(condition.type == word.DECLARED for condition in observation.conditions):
        return RolloutStage("going", "published", "the status of its cluster is from the time of its removal")
    runtime_stage = _instance_stage(observation, now) if isinstance(observation, Instance) else _data_stage(observation)
    going = orphans.removal_conditions(observation)
    if going and runtime_stage.progress == "done":
        runtime_stage = RolloutStage("going", runtime_stage.state, _join_messages(going), runtime_stage.url)
    if runtime_stage.state == "running" and not runtime_stage.url and _is_syncing(resource, statuses):
        # Its pods may run before its address exists. The last comment shows the address.
        runtime_stage = runtime_stage._replace(progress="going", message="Argo CD still applies its other objects")
    if runtime_stage.progress == "failed":
        return runtime_stage  # the message of this stage also names the orphans
    return _orphan_stage(resource, observation, statuses) or runtime_stage


def _orphan_stage(
    resource: ResourceRef, observation: Resource, statuses: Sequence[TenantStatus]
) -> RolloutStage | None:
    """Return the stage of a resource with orphans (removed objects that still exist); None if it has none."""
    stays = orphans.stuck_conditions(observation)
    if not stays:
        return None
    status = _find_tenant_status(resource, statuses)
    parts = [application.name for application in status.applications] if status is not None else []
    way_out = orphans.describe_remedy(observation, resource.tenant, resource.cluster, parts)
    return RolloutStage("failed", orphans.ORPHAN_STATES[stays[0].reason], _join_messages(stays), remedy=way_out)


def _join_messages(conditions: Sequence[Condition]) -> str:
    return "; ".join(condition.message for condition in conditions)


def _find_tenant_status(resource: ResourceRef, statuses: Sequence[TenantStatus]) -> TenantStatus | None:
    """Return the status of a resource's tenant in the cluster of the resource; None if there is none."""
    return next(
        (status for status in statuses if (status.tenant, status.cluster) == (resource.tenant, resource.cluster)), None
    )


def _find_observed(resource: ResourceRef, statuses: Sequence[TenantStatus]) -> Resource | None:
    status = _find_tenant_status(resource, statuses)
    if status is None:
        return None
    resources: Sequence[Resource] = getattr(status, RESOURCE_KINDS[resource.kind].plural)
    return next((candidate for candidate in resources if candidate.name == resource.name), None)


def _is_syncing(resource: ResourceRef, statuses: Sequence[TenantStatus]) -> bool:
    """Return whether the Application of a resource differs from its published version."""
    status, part = _find_tenant_status(resource, statuses), RESOURCE_KINDS[resource.kind].tree_part
    applications = status.applications if status is not None else ()
    return any(application.name == part and application.sync == "OutOfSync" for application in applications)


def _not_applied_stage(
    resource: ResourceRef,
    observation: Resource | None,
    statuses: Sequence[TenantStatus],
    silent: Mapping[str, str],
) -> RolloutStage:
    """Return the stage of a resource that Argo CD hasn't applied yet, or can't apply.

    The stage is failed if Argo CD can't apply the resource. For a resource that no cluster has reported, only the health of its
    Application is known, which another failed resource can also degrade. If the state of the cluster is unknown, the message
    gives the reason.
    """
    part = RESOURCE_KINDS[resource.kind].tree_part
    status = _find_tenant_status(resource, statuses)
    if status is None and resource.cluster in silent:
        return RolloutStage(
            "going", "published", f"the state of {resource.cluster} is unknown: {silent[resource.cluster]}"
        )
    for application in status.applications if status is not None else ():
        if application.name == part and application.sync == UNKNOWN_SYNC and application.tree:
            return RolloutStage("going", "published", COMPARISON_FAILED_TEXT, remedy=_REMEDIES[word.COMPARISON_FAILED])
        is_degraded = application.name == part and application.health == "Degraded" and application.sync != "Synced"
        if is_degraded and _may_be_refused(resource, observation, statuses):
            return RolloutStage("failed", "published", "Argo CD can't apply it", remedy=_REMEDIES[word.SYNC_FAILED])
    return RolloutStage("going", "published", "Argo CD hasn't applied it yet")


def _may_be_refused(resource: ResourceRef, observation: Resource | None, statuses: Sequence[TenantStatus]) -> bool:
    """Return whether an Application is degraded because Argo CD can't apply a resource."""
    if observation is not None:
        return any((each.type, each.reason) == (word.SYNCED, word.SYNC_FAILED) for each in observation.conditions)
    status, part = _find_tenant_status(resource, statuses), RESOURCE_KINDS[resource.kind].tree_part
    kinds = [kind for kind in RESOURCE_KINDS.values() if kind.reported and kind.tree_part == part]
    others = [other for kind in kinds for other in getattr(status, kind.plural, ())]
    return all(other.state != word.FAILED for other in others)


def _instance_stage(instance: Instance, now: datetime.datetime | None) -> RolloutStage:
    if instance.state == word.RUNNING:
        return RolloutStage("done", "running", instance.message, instance.url)
    if instance.state == word.FAILED:
        return _failed_stage(instance)
    if instance.state == word.STOPPED:
        finished = instance.reason != word.TERMINATING
        return RolloutStage("done" if finished else "going", "stopped", instance.message)
    if instance.state == word.WAITING:
        remedy = _REMEDIES.get(instance.reason, "")
        if instance.reason == word.NODE_LOST:
            remedy = _LOST_NODE_REMEDY if _is_restart_overdue(instance, now) else _RESTART_REMEDY
        return RolloutStage("going", "waiting", instance.message or instance.reason, remedy=remedy)
    message = "its units are held" if instance.state == word.INIT else "its container has started"
    state = "synced" if instance.state == word.INIT else word.display_state(instance.state, of_instance=True).lower()
    return RolloutStage("going", state, instance.message or message)


def _is_restart_overdue(instance: Instance, now: datetime.datetime | None) -> bool:
    """Return whether the pod of a lost node should have started on another node by now."""
    since = parse_time(instance.since)
    return now is not None and since is not None and now - since > datetime.timedelta(minutes=_RESTART_MINUTES)


def _data_stage(resource: Storage | Snapshot) -> RolloutStage:
    if resource.state == word.STORAGE_READY:
        return RolloutStage("done", "ready", resource.message, resource.url if isinstance(resource, Storage) else "")
    if resource.state in (word.FAILED, word.LOST):
        return _failed_stage(resource)
    message = {word.PENDING: "waits for its volume", word.PREPARING: "is being prepared"}.get(
        resource.state, resource.state
    )
    return RolloutStage("going", "synced", resource.message or message)


def _failed_stage(resource: Resource) -> RolloutStage:
    return RolloutStage(
        "failed", "failed", resource.message or resource.reason, remedy=_REMEDIES.get(resource.reason, _DEFAULT_REMEDY)
    )
