"""Adds conditions to a tenant's status about objects that a person edited or added by hand.

A condition belongs to the instance, storage or snapshot of the edited object, or else to the tenant. The conditions do
not change the state of an instance. For example, an instance stays Running if a person adds a container to its pods.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from allotment import conditions as word
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.manifests import names
from allotment.observed.drift import Difference
from allotment.observed.objects import PLATFORM_OWNER
from allotment.observed.status import Condition, Instance, Snapshot, Storage, TenantStatus
from allotment.problems import escape_unprintable

MAX_NAMED_OBJECTS = 5  # the most objects that one message names
EDIT_CONDITION_TYPES = (word.AS_PUBLISHED, word.ONLY_PUBLISHED)
T = TypeVar("T", Instance, Storage, Snapshot)


class ManualEdit(NamedTuple):
    """An object that differs from its published version, or that isn't published.

    An object that isn't published has no `differences`. `resource` is the kind and the name of the instance, storage or
    snapshot that the object belongs to; both are empty if the object belongs to the tenant itself. `since` is the time
    when the edit was first seen.
    """

    tenant: str
    kind: str
    name: str
    resource: tuple[str, str]
    differences: tuple[Difference, ...]
    since: str

    @property
    def is_foreign(self) -> bool:
        """Whether no object of this kind and name is published."""
        return not self.differences

    @property
    def label(self) -> str:
        """The kind and the name of the object."""
        return f"{self.kind} {self._printable_name}"

    @property
    def qualified_label(self) -> str:
        """The kind, the namespace and the name of the object."""
        return f"{self.kind} {self._qualified_name}"

    @property
    def _printable_name(self) -> str:
        return escape_unprintable(self.name, 320)

    @property
    def _qualified_name(self) -> str:
        is_qualified = self.tenant == PLATFORM_OWNER or self.kind == "Namespace" or "/" in self.name
        return self._printable_name if is_qualified else f"{names.namespace(self.tenant)}/{self._printable_name}"

    @property
    def description(self) -> str:
        """The differences in words, without the object's name."""
        return f"was edited by hand: {', '.join(map(str, self.differences))}" if self.differences else "isn't published"

    @property
    def message(self) -> str:
        """The object and its differences in words."""
        return f"{self.label} {self.description}"

    @property
    def remedy(self) -> str:
        """The command that undoes the edit.

        If the object isn't published, the command deletes the object. A published object or a Namespace is opened in an
        editor instead. If the command deletes a volume, the text first asks for a copy of the volume's data.
        """
        namespace, _, name = self._qualified_name.rpartition("/")
        place = f"-n {namespace} " if namespace else ""
        # The name of a RoleBinding may have spaces and characters of a shell, or look like an option.
        argument = f"{'-- ' if name.startswith('-') else ''}{shlex.quote(name)}"
        command = f"kubectl {place}{'delete' if self.is_foreign else 'edit'} {self.kind.lower()} {argument}"
        is_volume = self.is_foreign and self.kind == "PersistentVolumeClaim"
        return f"copy its data, then {command}" if is_volume else command

    @property
    def key(self) -> tuple[str, str, str]:
        """The object's tenant, kind and name."""
        return self.tenant, self.kind, self.name


def with_edits(status: TenantStatus, edits: Iterable[ManualEdit]) -> TenantStatus:
    """Return a status with conditions that describe the edits."""
    by_thing: dict[tuple[str, str], list[ManualEdit]] = defaultdict(list)
    reported = {
        (kind.word, resource.name)
        for kind in RESOURCE_KINDS.values()
        if kind.reported
        for resource in getattr(status, kind.plural)
    }
    for edit in edits:
        by_thing[edit.resource if edit.resource in reported else ("", "")].append(edit)

    def edited(kind: str, resources: Sequence[T]) -> tuple[T, ...]:
        return tuple(
            _with_conditions(resource, describe_edits(by_thing.get((kind, resource.name), ())))
            for resource in resources
        )

    return msgspec.structs.replace(
        status,
        instances=edited("instance", status.instances),
        storages=edited("storage", status.storages),
        snapshots=edited("snapshot", status.snapshots),
        conditions=describe_edits(by_thing["", ""]),
    )


def with_edits_of(status: TenantStatus, previous: TenantStatus | None) -> TenantStatus:
    """Return a status with the edit conditions of the `previous` status.

    The reporter calls this function while it can't determine the current edits.
    """
    if previous is None:
        return status

    def same(resources: Sequence[T], previous_resources: Sequence[T]) -> tuple[T, ...]:
        conditions = {
            resource.name: [each for each in resource.conditions if each.type in EDIT_CONDITION_TYPES]
            for resource in previous_resources
        }
        return tuple(_with_conditions(resource, conditions.get(resource.name, ())) for resource in resources)

    return msgspec.structs.replace(
        status,
        instances=same(status.instances, previous.instances),
        storages=same(status.storages, previous.storages),
        snapshots=same(status.snapshots, previous.snapshots),
        conditions=previous.conditions,
    )


def _with_conditions(resource: T, conditions: Iterable[Condition]) -> T:
    """Return a resource with additional conditions, and with their messages after the resource's own message."""
    edit_conditions: tuple[Condition, ...] = tuple(conditions)
    if not edit_conditions:
        return resource
    message = "; ".join(
        part for part in (resource.message, *(condition.message for condition in edit_conditions)) if part
    )
    return msgspec.structs.replace(resource, message=message, conditions=(*resource.conditions, *edit_conditions))


def describe_edits(edits: Iterable[ManualEdit]) -> tuple[Condition, ...]:
    """Return the conditions that describe edits of one resource, of one tenant or of the platform."""
    conditions = []
    sorted_edits = sorted(edits)
    for kind, reason, is_foreign in (
        (word.AS_PUBLISHED, word.EDITED_BY_HAND, False),
        (word.ONLY_PUBLISHED, word.FOREIGN_OBJECT, True),
    ):
        own = [edit for edit in sorted_edits if edit.is_foreign == is_foreign]
        if own:
            words = [f"{edit.message} (undo: {edit.remedy})" for edit in own[:MAX_NAMED_OBJECTS]]
            more = [f"and {len(own) - MAX_NAMED_OBJECTS} more objects"] if len(own) > MAX_NAMED_OBJECTS else []
            since = min(edit.since for edit in own)
            conditions.append(Condition(kind, "False", reason, "; ".join([*words, *more]), since))
    return tuple(conditions)


def edit_condition_times(status: TenantStatus, resource_key: tuple[str, str]) -> dict[str, str]:
    """Return the times since which the edit conditions of a resource hold, by the type of the condition.

    An empty kind and name in `resource_key` stand for the tenant itself. So does a resource that the status lacks.
    """
    kind, name = resource_key
    resources = getattr(status, RESOURCE_KINDS[kind].plural) if kind else ()
    conditions = next((resource.conditions for resource in resources if resource.name == name), status.conditions)
    return {
        condition.type: condition.last_transition_time
        for condition in conditions
        if condition.type in EDIT_CONDITION_TYPES
    }
