"""Builds the calendar files (iCalendar, RFC 5545) with the planned maintenance of a tenant's instances, or of all nodes."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from allotment.capacity.cordons import PlannedCordon
from allotment.portal.pages.tenant_area import TenantArea

if TYPE_CHECKING:
    from icalendar import Event

CALENDAR = "maintenance.ics"  # in the folder of a tenant, and in that of the platform
_PRODUCT = "-//Allotment//Maintenance//EN"


def build_tenant_calendar(area: TenantArea) -> bytes:
    """Return a calendar with an all-day event for each cordon of a node on which an instance of the tenant runs."""
    return _build_calendar(_list_tenant_events(area))


def build_platform_calendar(cordons: Iterable[PlannedCordon]) -> bytes:
    """Return a calendar with an all-day event for each cordon. Its text names the node, or the node pool."""
    return _build_calendar(
        _build_event(cordon, f"Maintenance of {cordon.target} in {cordon.cluster}", _describe_drain(cordon))
        for cordon in cordons
    )


def _list_tenant_events(area: TenantArea) -> Iterator[Event]:
    for cordon in area.cordons:
        names = [
            instance.row.name
            for instance in area.instances
            if cordon.covers_instance(instance.row.cluster or "", instance.row.gpu_spec or "", instance.nodes)
        ]
        if names:
            yield _build_event(cordon, f"Maintenance of {', '.join(names)}", cordon.effect)


def _describe_drain(cordon: PlannedCordon) -> str:
    if cordon.moves_instances:
        return "instances move to other nodes on the first day"
    return "instances stay until they stop, and no instance starts there"


def _build_calendar(events: Iterable[Event]) -> bytes:
    from icalendar import Calendar

    calendar = Calendar()
    calendar.add("prodid", _PRODUCT)
    calendar.add("version", "2.0")
    for event in events:
        calendar.add_component(event)
    content: bytes = calendar.to_ical()
    return content


def _build_event(cordon: PlannedCordon, title: str, effect: str) -> Event:
    """Return the event of a cordon. Without a declared end, the event is its first day.

    The file is a function of the declarations and the status, so the time stamp is the start of the cordon.
    """
    from icalendar import Event

    event = Event()
    event.add("uid", f"{cordon.cluster}.{cordon.name}.cordon.allotment.dev")
    event.add("dtstamp", datetime.datetime.combine(cordon.start, datetime.time(), datetime.UTC))
    event.add("dtstart", cordon.start)
    if cordon.until is not None:
        event.add("dtend", cordon.until)
    end = "" if cordon.until is not None else " No end is declared."
    event.add("summary", title)
    event.add("description", f"{cordon.reason}; {effect}.{end}")
    event.add("transp", "TRANSPARENT")
    return event
