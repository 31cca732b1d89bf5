"""HTTPRoutes: where instances and files are reached."""

from __future__ import annotations

from allotment.observed.objects import Route
from allotment.observed.shapes.base import Metadata, ObjectCondition, Shape, named


class _Parent(Shape, frozen=True):
    conditions: tuple[ObjectCondition, ...] = ()


class _RouteStatus(Shape, frozen=True):
    parents: tuple[_Parent, ...] = ()


class RawRoute(Shape, frozen=True):
    """An HTTPRoute."""

    metadata: Metadata
    status: _RouteStatus = _RouteStatus()


def route(raw: RawRoute) -> Route:
    """Return what is kept of an HTTPRoute."""
    metadata = raw.metadata
    statuses = [named(parent.conditions, "Accepted").status for parent in raw.status.parents]
    return Route(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        instance=metadata.labels.instance,
        storage=metadata.labels.storage,
        created=metadata.created,
        url=metadata.annotations.link,
        accepted=bool(statuses) and all(status == "True" for status in statuses),
        refused="False" in statuses,
    )
