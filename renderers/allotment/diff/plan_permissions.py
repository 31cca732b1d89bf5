"""Report the permissions that a tenant gains when it changes to another tariff plan."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from allotment.declared.kinds.plan import Allow
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.tenant_side import TenantSide
from allotment.rules.limits import plan_of

_PLAN_FIELD = "spec.plan"


def with_plan_permissions(changes: list[DeclaredChange], before: TenantSide, after: TenantSide) -> list[DeclaredChange]:
    """Return the declared changes of a tenant. A change of the tariff plan gets a note with the new permissions.

    If the new plan allows more exposures or image registries, the change also gets the topic `access`.
    """
    old, new = plan_of(before.catalog, before.folder), plan_of(after.catalog, after.folder)
    if old is None or new is None or old.model.name == new.model.name:
        return changes
    old_allow, new_allow = old.model.spec.allow, new.model.spec.allow
    opened = list(_new_permissions(old_allow, new_allow))
    shared = [f"sharing {mode}" for mode in new_allow.sharing if mode not in old_allow.sharing]
    if not opened and not shared:
        return changes
    note = f"newly allows {', '.join([*opened, *shared])}"
    plan_changes = [change for change in changes if change.field == _PLAN_FIELD]
    opening = [
        msgspec.structs.replace(change, topic="access" if opened else change.topic, note=note)
        for change in plan_changes
    ]
    return [*(change for change in changes if change.field != _PLAN_FIELD), *opening]


def _new_permissions(old: Allow, new: Allow) -> Iterator[str]:
    """Yield the exposures and image registries that are newly allowed."""
    yield from (f"exposure {exposure}" for exposure in new.exposure if exposure not in old.exposure)
    for registry in new.image_registries:
        if not registry.startswith(tuple(old.image_registries)):
            yield f"images of {registry}"
