"""HTTPRoutes, through which users reach instances and files."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata, ObjectCondition, find_condition
from allotment.observed.objects import Route


class _Parent(ApiObject, frozen=True):
    conditions: tuple[ObjectCondition, ...] = ()


class _RouteStatus(ApiObject, frozen=True):
    parents: tuple[_Parent, ...] = ()


class RawRoute(ApiObject, frozen=True):
    """An HTTPRoute."""

    metadata: Metadata
    status: _RouteStatus = _RouteStatus()


def summarize_route(raw: RawRoute) -> Route:
    """Return the summary of an HTTPRoute."""
    metadata = raw.metadata
    statuses = [find_condition(parent.conditions, "Accepted").status for parent in raw.status.parents]
    return Route(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        instance=metadata.get_label(names.INSTANCE),
        storage=metadata.get_label(names.STORAGE),
        created=metadata.created,
        url=metadata.annotations.link,
        accepted=bool(statuses) and all(status == "True" for status in statuses),
        refused="False" in statuses,
    )
