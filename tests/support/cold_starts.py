"""Live objects of an instance that starts on a cold node."""

from __future__ import annotations

from typing import Any

from tests.support import live
from tests.support.instances import UNSCHEDULABLE, started

PENDING = started(live.pod(status={"conditions": [UNSCHEDULABLE]}))


def build_started_pod(at: int, **more: Any) -> tuple[dict[str, Any], ...]:
    return started(live.pod(node="n1", scheduled=at, container=live.waiting("ContainerCreating"), **more))
