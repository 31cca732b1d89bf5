"""Classify the change of a file by the kinds of change that a tariff plan can leave to self service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.plan import SelfService, SelfServiceChange
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.rules.ownership import FileChange

_RESOURCES = frozenset(kind.__name__ for kind in (GPUInstance, GPUStorage, GPUStorageSnapshot, SecretReference))


class SelfServiceFacts(NamedTuple):
    """The policy of the base for a merge without a second person, and the facts about the change.

    `tenants` are the tenants with changed files. `lifecycle` is that of a single tenant. `policy` is the policy of the tariff
    plan `plan`, which the tenant has at the base; None if there is none. `changes` are the kinds of change, sorted. `other_paths` are the changed files
    that no self service covers. `excluded` are the paths and fields that the Ownership excludes. `approvals` are the missing
    approvals of other people. `is_reviewed` says that the author and the pushers are known.
    """

    tenants: tuple[str, ...]
    lifecycle: str
    plan: str
    policy: SelfService | None
    changes: tuple[SelfServiceChange, ...]
    other_paths: tuple[str, ...]
    excluded: tuple[str, ...]
    approvals: tuple[str, ...]
    is_reviewed: bool


def classify_change(change: FileChange) -> frozenset[SelfServiceChange]:
    """Return the kinds of the change of a file; empty if no self service covers the change."""
    if change.is_unreadable:
        return frozenset()
    if change.kind == Members.__name__ and change.after is not None:
        return frozenset(("Members",))
    if change.kind not in _RESOURCES:
        return frozenset()
    if change.before is None:
        return frozenset(("Snapshot" if change.kind == GPUStorageSnapshot.__name__ else "Create",))
    if change.after is None:
        return frozenset(("Delete",))
    (before, before_rest), (after, after_rest) = map(_split_spec, (change.before, change.after))
    fields = [field for field in before.keys() | after.keys() if before.get(field) != after.get(field)]
    changes = {_classify_field(change.kind, field, after.get(field)) for field in fields}
    if before_rest != after_rest or not changes:
        changes.add("Change")
    return frozenset(changes)


def _split_spec(document: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the spec of a document, and the rest of the document; empty mappings if it is malformed."""
    fields = document if isinstance(document, dict) else {}
    spec = fields.get("spec")
    rest = {key: value for key, value in fields.items() if key != "spec"}
    if isinstance(metadata := rest.get("metadata"), dict):
        rest["metadata"] = {key: value for key, value in metadata.items() if key != "operationID"}  # it has no effect
    return spec if isinstance(spec, dict) else {}, rest


def _classify_field(kind: str, field: str, value: Any) -> SelfServiceChange:
    if (kind, field) == (GPUInstance.__name__, "state"):
        return "Stop" if value == "Stopped" else "Start"
    if (kind, field) == (GPUStorage.__name__, "size"):
        return "Grow"
    return "Delete" if (field, value) == ("deletionPolicy", "Delete") else "Change"
