"""Joins the declared, the published and the observed state of a resource into one status with a reason."""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions as word
from allotment.declared.tenant_resources import INSTANCE
from allotment.observed import orphans
from allotment.observed.rollout import Resource, ResourceRef, RolloutStage
from allotment.observed.status import Instance, TenantStatus

_STATES_BY_STAGE = {"merged": word.MERGED, "kept": word.KEPT, "published": word.PUBLISHED, "overtaken": word.OVERTAKEN}
_REASONS_BY_STATE = {word.MERGED: word.NOT_PUBLISHED, word.KEPT: word.TENANT_KEPT, word.PUBLISHED: word.NOT_APPLIED}
_REASONS_BY_STATE |= {word.REMOVING: word.REMOVAL_PENDING, word.OVERTAKEN: word.CLONE_BEHIND}


class ResourceStatus(NamedTuple):
    """An instance, storage or snapshot in one cluster.

    - `resource.blob` is the blob of its declaration; it is empty if the resource is not, or no longer, declared for
      this cluster.
    - `stage` is the rollout stage of the declaration.
    - `observed` is the status of the resource that the cluster reports, and `status` is the reported status of its
      tenant. Each is None if the cluster reports none.
    - `path` is the path of its declaration, and `gpu_spec` is the GPUSpec of an instance.
    - `replicas` is the number of declared replicas; 0 for a stopped instance, or if the number is not needed.
    - `storage` is the storage of a snapshot.
    - `is_marked_for_deletion` says whether the next merge that removes its file deletes its data.
    """

    resource: ResourceRef
    stage: RolloutStage
    observed: Resource | None
    status: TenantStatus | None
    path: str
    gpu_spec: str = ""
    replicas: int = 0
    storage: str = ""
    is_marked_for_deletion: bool = False

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.resource.tenant}/{self.resource.name}"

    @property
    def is_current(self) -> bool:
        """Whether the cluster has the declared version."""
        return self.observed is not None and self.observed.observed_blob == self.resource.blob != ""

    @property
    def is_removing(self) -> bool:
        """Whether the resource is no longer declared, but still published."""
        return not self.resource.blob and self.stage.state in ("merged", "kept", "removing")

    @property
    def state(self) -> str:
        """Removing if `is_removing`. Otherwise the state in the cluster, or the rollout stage if there is none."""
        if self.is_removing:
            return word.REMOVING
        if self.observed is not None:
            return self.observed.state
        return _STATES_BY_STAGE.get(self.stage.state, self.stage.state.capitalize())

    @property
    def displayed_state(self) -> str:
        """The state as it is shown to people."""
        return word.display_state(self.state, of_instance=self.resource.kind == INSTANCE.word)

    @property
    def ready_replicas(self) -> tuple[int, int] | None:
        """The number of ready replicas of an instance, and of all its replicas; None if no replica should run."""
        instance = self.observed if isinstance(self.observed, Instance) else None
        replicas = (instance.replicas if instance is not None else 0) or (
            0 if self.state == word.STOPPED else self.replicas
        )
        return (instance.ready_replicas if instance is not None else 0, replicas) if replicas else None

    @property
    def reason(self) -> str:
        """The reason of the state, as a fixed word for programs."""
        if self.observed is not None and not self.is_removing:
            return self.observed.reason
        return _REASONS_BY_STATE.get(self.state, "")

    @property
    def is_as_declared(self) -> bool:
        """Whether the resource has the state that its declaration requires; true if it is no longer declared."""
        if not self.resource.blob:
            return True
        revoked = isinstance(self.observed, Instance) and self.observed.reason == word.VERSION_REVOKED
        return self.is_current and self.stage.progress == "done" and not revoked

    @property
    def explanation(self) -> str:
        """The message about the state, and about a change that the cluster lacks; empty if there is neither."""
        if self.observed is None:
            return self.stage.message
        own = self.observed.message
        if not own and isinstance(self.observed, Instance) and self.observed.state != word.RUNNING:
            own = self.observed.reason
        return "; ".join(part for part in (own, self._describe_pending_change()) if part)

    def _describe_pending_change(self) -> str:
        """Return the rollout stage of a change that the cluster doesn't have yet, as text; empty without a change."""
        if self.observed is None or self.is_current or not self.observed.observed_blob:
            return ""
        state = "" if self.stage.state == "removing" else self.stage.state
        description = ", ".join(part for part in (state, self.stage.message) if part)
        if self.resource.blob:
            return f"changed since: {description}"
        return "" if orphans.stuck_conditions(self.observed) else f"removed: {description}"
