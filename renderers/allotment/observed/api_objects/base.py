"""What every live object has, as the API writes it."""

from __future__ import annotations

import msgspec

from allotment.manifests import names
from allotment.observed.status import parse_time

MAX_MESSAGE_LENGTH = 300  # characters kept of what a kubelet or controller says; only fixed words of it are ever shown


def normalize_time(text: str | None) -> str:
    """Return a time of an object as Kubernetes writes it, such as 2026-11-21T10:00:00Z; empty where it is none, or absent.

    Every time of a live object passes here. Times are compared as texts, so no other form counts.
    """
    if not text or len(text) != len("2026-11-21T10:00:00Z") or (text[7], text[10], text[-1]) != ("-", "T", "Z"):
        return ""
    return text if parse_time(text) is not None else ""


class ApiObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of an object as the API has it."""


class Labels(
    ApiObject,
    frozen=True,
    rename={
        "tenant": names.TENANT,
        "instance": names.INSTANCE,
        "storage": names.STORAGE,
        "snapshot": names.SNAPSHOT,
        "stock": names.STOCK,
        "gpu_spec": names.GPU_SPEC,
        "role": names.ROLE,
        "cluster": names.CLUSTER,
    },
):
    """Our labels."""

    tenant: str = ""
    instance: str = ""
    storage: str = ""
    snapshot: str = ""
    stock: str = ""
    gpu_spec: str = ""
    role: str = ""
    cluster: str = ""


class Annotations(
    ApiObject,
    frozen=True,
    rename={
        "blob": names.BLOB,
        "waits_for": names.WAITS_FOR,
        "waits_reason": names.WAITS_REASON,
        "units": names.UNITS,
        "reserved_for": names.RESERVED_FOR,
        "input_hash": names.INPUT_HASH,
        "attempt": names.ATTEMPT,
        "link": names.EXTERNAL_LINK,
        "log": names.LOG,
        "prepares": names.PREPARES,
        "deletion_policy": names.DELETION_POLICY,
        "protected": names.PROTECTED,
        "sync_options": names.SYNC_OPTIONS,
        "revision": "deployment.kubernetes.io/revision",
    },
):
    """Our annotations, what Argo CD may do to it, and how a Deployment numbers its rollouts."""

    blob: str = ""
    waits_for: str = ""
    waits_reason: str = ""
    units: str = ""
    reserved_for: str = ""
    input_hash: str = ""
    attempt: str = ""
    link: str = ""
    log: str = ""
    prepares: str = ""
    deletion_policy: str = ""
    protected: str = ""
    sync_options: str = ""
    revision: str = ""


class OwnerReference(ApiObject, frozen=True):
    """What an object belongs to."""

    uid: str = ""


class Metadata(ApiObject, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    generation: int = 0
    labels: Labels = Labels()
    annotations: Annotations = Annotations()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def tenant(self) -> str:
        """The tenant whose it is; empty where its label claims another's namespace."""
        tenant = self.labels.tenant
        return tenant if tenant and self.namespace == names.namespace(tenant) else ""

    @property
    def created(self) -> str:
        """When it was created; empty where that isn't known."""
        return normalize_time(self.creation_timestamp)

    @property
    def marked_for_deletion(self) -> bool:
        """Whether it is declared to be deleted once its file is removed."""
        return self.annotations.deletion_policy == "Delete"

    @property
    def unprotected(self) -> bool:
        """Whether it was let go: it may be pruned, and the admission policy lets it be deleted."""
        return self.annotations.protected == "false" and "Prune=false" not in self.annotations.sync_options

    @property
    def stock(self) -> str:
        """The stock that it is a placeholder of."""
        return self.labels.stock if self.namespace == names.STOCK_NAMESPACE else ""

    @property
    def owner(self) -> str:
        """The uid of what it belongs to; empty where it belongs to nothing."""
        return self.owner_references[0].uid if self.owner_references else ""


class ObjectCondition(ApiObject, frozen=True):
    """A condition of a live object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


NO_CONDITION = ObjectCondition()


def find_condition(conditions: tuple[ObjectCondition, ...], kind: str) -> ObjectCondition:
    """Return the condition of a kind; an empty one where there is none."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return NO_CONDITION


def parse_count(text: str) -> int:
    """Return a count that an annotation says; 0 where it says none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
