"""Waits for resources and pull requests without their pauses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from allotment.observed.status import Instance, TenantStatus
from tests.support.published import Place
from tests.support.running_tenant import WEBUI, now, running

Event = Callable[[], object]
_MODULES = ("services.changes.change_wait", "services.status_view.resource_wait", "cli.wait_progress")


def simulate_pauses(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Return an empty list of events. Each pause of a wait ends at once, and removes and runs the first event."""
    events: list[Event] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if events:
            events.pop(0)()

    for module in _MODULES:
        monkeypatch.setattr(f"allotment.{module}.time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    return events


def report_later(place: Place, state: str, reason: str = "", message: str = "", url: str = "") -> Event:
    """Return an event: the cluster reports this state of the instance as it is declared now."""
    blob = running(place, WEBUI).instances[0].observed_blob
    instance = Instance("webui", blob, state, reason, message, url=url)
    return lambda: place.report("eu-1", TenantStatus("solo-ada", "eu-1", (), (instance,)), observed=now())
