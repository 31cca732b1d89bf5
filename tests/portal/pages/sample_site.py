"""The portal of the sample cloud on a day of November 2026, with reports and usage as reporters would have written them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from tests.conftest import copy_sample
from tests.support.published import Place

from allotment.adapters.page_folder import PageFolder
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.status_branches import CAPACITY, usage_path
from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import (
    CapacityUsage,
    Instance,
    Preparation,
    Snapshot,
    Storage,
    TenantStatus,
    Transition,
    UsageInterval,
    dump_status,
)
from allotment.observed.usage_log import UsageLogHeader, append_usage
from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import TenantArea
from allotment.portal.pages.tenant_pages import build_tenant_pages
from allotment.portal.site.site_builder import BuildResult, SiteBuilder

NOW = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)
OBSERVED = "2026-11-21T12:29:00Z"
SINCE = "2026-11-18T07:12:00Z"
BUILD_TENANT_PAGES = "allotment.portal.site.tenant_writer.build_tenant_pages"  # where a build finds it
Troubles = Mapping[tuple[str, str], tuple[str, str, str]]
# The state, the reason and the message of the resources that are not as declared.
TROUBLES: Troubles = {
    ("studio-kite", "webui-next"): ("Waiting", "NoFreeUnit", "no unit of l4-whole is free: ml-orbit/chat holds 1"),
    ("ml-orbit", "lab"): ("Failed", "CrashLoop", "the container ended 7 times, with exit code 1"),
    ("studio-kite", "comfy-trial"): ("Preparing", "PreparationRunning", ""),
    ("acme-robotics", "old-frames"): ("Failed", "PreparationFailed", "attempt 2 failed: HTTP 404"),
}


def create_place(folder: Path) -> Place:
    """Return a clone of the sample with a remote, and with the reports of all clusters."""
    copy_sample(folder / "repo")
    place = Place(folder / "repo", folder / "remote.git", mock.Mock(), mock.Mock())
    place.begin()
    report_all(place)
    return place


def build(place: Place, out: Path, tenant: str | None = None) -> BuildResult:
    """Build the portal of a clone into a folder."""
    return SiteBuilder(DeclarationsClone(place.root), PageFolder(out), tenant=tenant).build(NOW)


def fail_on(tenant: str, message: str = "a bug") -> Callable[..., Iterator[Page]]:
    """Return a replacement of `build_tenant_pages` that fails on a tenant."""

    def build_or_fail(site: SiteFacts, area: TenantArea, **options: Any) -> Iterator[Page]:
        if area.name == tenant:
            raise ValueError(message)
        return build_tenant_pages(site, area, **options)

    return build_or_fail


def report_all(
    place: Place, troubles: Troubles = TROUBLES, more_usage: Mapping[str, UsageInterval] | None = None
) -> None:
    """Write the reports of all clusters about the declared resources.

    `troubles` are those that are not as declared. `more_usage` has an interval for the usage logs of a tenant.
    """
    for cluster in ("eu-1", "us-1"):
        statuses, logs = [], {}
        for folder in sorted((place.root / "tenants").iterdir()):
            status, usage = describe_tenant(folder, cluster, troubles)
            if status.instances or status.storages or status.snapshots:
                statuses.append(status)
                header = UsageLogHeader(cluster, folder.name, "2026-11-01T00:00:00Z")
                usage += [more_usage[folder.name]] if more_usage and folder.name in more_usage else []
                logs[usage_path(folder.name)] = append_usage(None, header, usage)
        capacity = dump_status(CapacityUsage(cluster, "2026-10-01T00:00:00Z", tuple(list_capacity(place, cluster))))
        place.report(cluster, *statuses, observed=OBSERVED, also={**logs, CAPACITY: capacity})


def list_capacity(place: Place, cluster: str) -> Iterator[UsageInterval]:
    """Yield the stocks and nodes of a cluster."""
    for path in sorted((place.root / f"clusters/{cluster}/stocks").iterdir()):
        stock = yaml.safe_load(path.read_text(encoding="utf-8"))
        name, spec = stock["metadata"]["name"], stock["spec"]
        yield UsageInterval(
            "Stock",
            name,
            f"stock-{name}",
            "2026-10-01T00:00:00Z",
            gpu_spec=spec["gpuSpec"],
            units=spec["count"],
            tenant=spec.get("tenant", ""),
        )
    for path in sorted((place.root / f"clusters/{cluster}/node-pools").iterdir()):
        for number in (1, 2):
            node = f"{cluster}-{path.stem}-{number}"
            yield UsageInterval("NodePool", path.stem, f"uid-{node}", "2026-10-01T00:00:00Z", node=node)


def describe_tenant(folder: Path, cluster: str, troubles: Troubles) -> tuple[TenantStatus, list[UsageInterval]]:
    """Return the status of a tenant in a cluster, and its uses of November that have ended."""
    tenant = folder.name
    declared = [(path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*/*.yaml"))]
    here = [
        (compute_blob_id(path.read_bytes()), file) for path, file in declared if file["spec"].get("cluster") == cluster
    ]
    instances = [(blob, file) for blob, file in here if file["kind"] == "GPUInstance"]
    storages = [(blob, file) for blob, file in here if file["kind"] == "GPUStorage"]
    names = {file["metadata"]["name"] for _, file in storages}
    snapshots = [
        describe_snapshot(compute_blob_id(path.read_bytes()), file)
        for path, file in declared
        if file["kind"] == "GPUStorageSnapshot" and file["spec"]["storage"] in names
    ]
    usage = [interval for _, file in instances for interval in list_uses(tenant, file)]
    status = TenantStatus(
        tenant,
        cluster,
        instances=tuple(describe_instance(tenant, blob, file, troubles) for blob, file in instances),
        storages=tuple(describe_storage(tenant, blob, file) for blob, file in storages),
        snapshots=tuple(snapshots),
        transitions=tuple(step for _, file in instances for step in list_steps(tenant, file)),
        usage=tuple(open_use(tenant, file) for _, file in [*instances, *storages] if is_used(tenant, file)),
    )
    return status, usage


def describe_instance(tenant: str, blob: str, file: dict[str, Any], troubles: Troubles) -> Instance:
    name, spec = file["metadata"]["name"], file["spec"]
    replicas = 0 if spec.get("state") == "Stopped" else spec.get("replicas", 1)
    state, reason, message = troubles.get((tenant, name), ("Running" if replicas else "Stopped", "", ""))
    is_running = state == "Running"
    return Instance(
        name,
        blob,
        state,
        reason or ("" if replicas else "StoppedAsDeclared"),
        message,
        SINCE,
        gpu_spec=spec["gpuSpec"],
        units=replicas,
        replicas=replicas,
        ready_replicas=replicas if is_running else 0,
        nodes=tuple(f"{spec['cluster']}-l4-{number + 1}" for number in range(min(replicas, 2))) if is_running else (),
        pods=replicas if is_running else 0,
        running_pod=f"{name}-5d8f7c9b4-x2x7q" if is_running else "",
        start_time=SINCE if is_running else "",
        url=f"https://{name}--{tenant}.{spec['cluster']}.gpu.northlight.example/",
        ssh_command=f"ssh {name}--{tenant}@ssh.{spec['cluster']}.gpu.northlight.example" if spec.get("access") else "",
    )


def describe_storage(tenant: str, blob: str, file: dict[str, Any]) -> Storage:
    name, spec = file["metadata"]["name"], file["spec"]
    state, reason, message = TROUBLES.get((tenant, name), ("Ready", "", ""))
    prepare = None
    if "prepare" in spec:
        job = {"Ready": "Succeeded", "Preparing": "Running"}.get(state, state)
        prepare = Preparation(f"job-{name}", 1, "hash", job, SINCE)
    return Storage(
        name, blob, state, reason, message, SINCE, f"pvc-{name}", spec["size"], spec["size"], prepare=prepare
    )


def describe_snapshot(blob: str, file: dict[str, Any]) -> Snapshot:
    name = file["metadata"]["name"]
    return Snapshot(
        name, blob, "Ready", "", "", SINCE, storage=file["spec"]["storage"], creation_time=SINCE, uid=f"snap-{name}"
    )


def is_used(tenant: str, file: dict[str, Any]) -> bool:
    """Return whether a resource has a pod or a volume."""
    if file["kind"] == "GPUInstance":
        return file["spec"].get("state") != "Stopped" and (tenant, file["metadata"]["name"]) not in TROUBLES
    return True


def open_use(tenant: str, file: dict[str, Any]) -> UsageInterval:
    """Return the use that continues."""
    name, spec, labels = file["metadata"]["name"], file["spec"], file["metadata"].get("labels", {})
    if file["kind"] == "GPUInstance":
        node = f"{spec['cluster']}-l4-1"
        return UsageInterval(
            "GPUInstance", name, f"{tenant}-{name}-now", SINCE, gpu_spec=spec["gpuSpec"], node=node, labels=labels
        )
    start = "2026-10-12T08:00:00Z"
    return UsageInterval(
        "GPUStorage",
        name,
        f"{tenant}-{name}",
        start,
        size=spec["size"],
        storage_spec=spec["storageSpec"],
        labels=labels,
    )


def list_uses(tenant: str, file: dict[str, Any]) -> Iterator[UsageInterval]:
    """Yield a use on most days of November until the 17th, of another length each day."""
    name, spec, labels = file["metadata"]["name"], file["spec"], file["metadata"].get("labels", {})
    for day in range(1, 18):
        if day % 7 not in (1, 0):
            yield UsageInterval(
                "GPUInstance",
                name,
                f"{tenant}-{name}-{day}",
                f"2026-11-{day:02}T07:00:00Z",
                f"2026-11-{day:02}T{11 + (day * 5 + len(name)) % 9:02}:30:00Z",
                gpu_spec=spec["gpuSpec"],
                node=f"{spec['cluster']}-l4-1",
                labels=labels,
            )


def list_steps(tenant: str, file: dict[str, Any]) -> Iterator[Transition]:
    """Yield the changes of an instance's state in November."""
    name = file["metadata"]["name"]
    yield Transition("GPUInstance", name, "", "Running", "", "2026-11-02T07:00:00Z")
    yield Transition("GPUInstance", name, "Running", "Failed", "NodeLost", "2026-11-11T03:10:00Z")
    yield Transition("GPUInstance", name, "Failed", "Running", "", "2026-11-11T09:40:00Z")
    state, reason, _ = TROUBLES.get((tenant, name), ("", "", ""))
    if state:
        yield Transition("GPUInstance", name, "Running", state, reason, SINCE)
