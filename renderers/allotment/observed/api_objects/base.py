"""Defines the parts that all live objects have in common, as the API server sends them."""

from __future__ import annotations

import msgspec

from allotment.manifests import names
from allotment.observed.status import parse_time

MAX_MESSAGE_LENGTH = 300  # a summary has at most this many characters of a kubelet's or controller's message


def normalize_time(text: str | None) -> str:
    """Return a time in Kubernetes' form, such as 2026-11-21T10:00:00Z; empty if the text is absent or has another form.

    All timestamps of live objects pass through this function. Allotment compares timestamps as text, so all of them
    must have the same form.
    """
    if not text or len(text) != len("2026-11-21T10:00:00Z") or (text[7], text[10], text[-1]) != ("-", "T", "Z"):
        return ""
    return text if parse_time(text) is not None else ""


class ApiObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of an object, as the API server sends it."""


class Annotations(
    ApiObject,
    frozen=True,
    rename={
        "blob": names.BLOB,
        "waits_for": names.WAITS_FOR,
        "waits_reason": names.WAITS_REASON,
        "units": names.UNITS,
        "reserved_for": names.RESERVED_FOR,
        "node_pool": names.POOL,
        "ssh_command": names.SSH_COMMAND,
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
    """Allotment's annotations, Argo CD's sync options, and the revision of a Deployment's rollout."""

    blob: str = ""
    waits_for: str = ""
    waits_reason: str = ""
    units: str = ""
    reserved_for: str = ""
    node_pool: str = ""
    ssh_command: str = ""
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
    """The owner of an object."""

    uid: str = ""


class Metadata(ApiObject, frozen=True):
    """The identity of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: Annotations = Annotations()
    owner_references: tuple[OwnerReference, ...] = ()

    def get_label(self, key: str) -> str:
        """Return the value of a label; empty if the object doesn't have the label."""
        return self.labels.get(key, "")

    @property
    def bill_labels(self) -> tuple[tuple[str, str], ...]:
        """The labels of the declaration, sorted by key."""
        prefix = names.BILL_PREFIX
        return tuple(
            sorted((key.removeprefix(prefix), value) for key, value in self.labels.items() if key.startswith(prefix))
        )

    @property
    def tenant(self) -> str:
        """The tenant in the object's label; empty if the object isn't in the namespace of this tenant."""
        tenant = self.get_label(names.TENANT)
        return tenant if tenant and self.namespace == names.namespace(tenant) else ""

    @property
    def created(self) -> str:
        """The creation time; empty if it isn't known."""
        return normalize_time(self.creation_timestamp)

    @property
    def marked_for_deletion(self) -> bool:
        """Whether the object will be deleted after its declaration is removed."""
        return self.annotations.deletion_policy == "Delete"

    @property
    def unprotected(self) -> bool:
        """Whether the object is unprotected: Argo CD may prune it, and the admission policy allows its deletion."""
        return self.annotations.protected == "false" and "Prune=false" not in self.annotations.sync_options

    @property
    def stock(self) -> str:
        """The stock that a placeholder belongs to; empty for other objects."""
        return self.get_label(names.STOCK) if self.namespace == names.STOCK_NAMESPACE else ""

    @property
    def owner(self) -> str:
        """The uid of the object's first owner; empty if the object has no owner."""
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
    """Return the condition with the type `kind`, or NO_CONDITION."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return NO_CONDITION


def parse_count(text: str) -> int:
    """Return the count in an annotation; 0 if the annotation has no valid count."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
