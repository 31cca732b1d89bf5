"""Live objects of an instance in each state, and the status that they give."""

from __future__ import annotations

from typing import Any

from allotment.observed.status import TenantStatus
from allotment.observed.tenants import TenantObjects, derive_tenant_status
from tests.support import live

NOW = live.AT.format(59)
Objects = tuple[dict[str, Any], ...]


def look(*objects: dict[str, Any], before: TenantStatus | None = None, now: str = NOW) -> TenantStatus:
    return derive_tenant_status(
        live.TENANT, "eu-1", TenantObjects.from_objects(live.seen(*objects)), previous=before, now=now
    )


def started(*pods: dict[str, Any], **deployment: Any) -> Objects:
    return (live.deployment(**deployment), live.replica_set(), *pods)


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
RUNS = started(live.pod(node="n1", container=live.started(3, ready=True), ready=4))
STOPPED = (live.deployment(replicas=0, units="", waits_for="state: Stopped", waits_reason="StoppedAsDeclared"),)
CRASHED = started(live.pod(node="n1", container=live.waiting("CrashLoopBackOff", restarts=1, ended={"exitCode": 1})))
