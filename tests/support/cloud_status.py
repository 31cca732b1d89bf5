"""The reported status of the tenants of a cloud."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from allotment.observed.status import (
    Instance,
    Storage,
    TenantStatus,
    Transition,
    parse_tenant_status,
)
from tests.controlplane.client import Object
from tests.e2e.cloud import Cloud
from tests.support.published import git
from tests.support.waiting import eventually

TENANT = "solo-ada"
BRANCH, OURS = "refs/heads/status/eu-1", "refs/allotment/status/eu-1"
MOUNT = "  storages:\n    - name: {name}\n      mountPath: /workspace/data\n"


def file(cloud: Cloud, path: str, commit: str = BRANCH) -> bytes:
    """Return a file of the status branch."""
    return (git(cloud.forge, "show", f"{commit}:{path}") + "\n").encode()


def status(cloud: Cloud, tenant: str = TENANT) -> TenantStatus:
    return parse_tenant_status(file(cloud, f"tenants/{tenant}.yaml"))


def instance(cloud: Cloud, name: str, tenant: str = TENANT) -> Instance:
    return next(instance_status for instance_status in status(cloud, tenant).instances if instance_status.name == name)


def storage(cloud: Cloud, name: str, tenant: str = TENANT) -> Storage:
    return next(storage_status for storage_status in status(cloud, tenant).storages if storage_status.name == name)


def until(cloud: Cloud, name: str, state: str, tenant: str = TENANT, seconds: float = 120) -> Instance:
    """Return an instance's status once it is in a state."""

    def find_instance() -> Instance | None:
        instance_status = instance(cloud, name, tenant)
        assert instance_status.state == state, (instance_status.state, instance_status.reason, instance_status.message)
        return instance_status

    return eventually(find_instance, f"{tenant}/{name} to be {state}", seconds, pause=0.5)


def versions(cloud: Cloud, tenant: str = TENANT) -> Iterator[TenantStatus]:
    """Yield the versions of a tenant's status, newest first, by following the branch back."""
    tenant_status = status(cloud, tenant)
    while True:
        yield tenant_status
        if not tenant_status.previous:
            return
        try:
            tenant_status = parse_tenant_status(file(cloud, f"tenants/{tenant}.yaml", tenant_status.previous))
        except AssertionError:
            return


def steps(cloud: Cloud, name: str, tenant: str = TENANT) -> list[Transition]:
    """Return every change of state of an instance."""
    transitions: list[Transition] = []
    for tenant_status in versions(cloud, tenant):
        transitions[:0] = [
            step for step in tenant_status.transitions if (step.kind, step.name) == ("GPUInstance", name)
        ]
    return transitions


def allot(cloud: Cloud, *words: str) -> str:
    command = [sys.executable, "-m", "allotment", *words, "--repo", str(cloud.root), "--from", cloud.url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pods(cloud: Cloud, name: str) -> list[Object]:
    return cloud.clusters["eu-1"].client.list("v1", "Pod", f"t-{TENANT}", f"allotment.dev/instance={name}")
