"""Reports and recorded usage of the sample cloud, as reporters would have written them until a time."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from allotment.branches.status_branches import CAPACITY, usage_path
from allotment.declared.inventory import compute_blob_id
from allotment.declared.kinds.gpu_storage import Prepare
from allotment.observed.status import (
    CapacityUsage,
    ClusterStatus,
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
from allotment.preparation.job_names import input_hash, job_name
from tests.support.cluster_report import write_report

PROJECT = Path(__file__).parents[2]  # the demo installs no pytest, which tests.conftest needs
CLUSTERS = ("eu-1", "us-1")
USED_DAYS = 17  # before the day since which everything has its state
Troubles = Mapping[tuple[str, str], tuple[str, str, str]]
# The state, the reason and the message of the resources that are not as declared.
TROUBLES: Troubles = MappingProxyType(
    {
        ("studio-kite", "webui-next"): ("Waiting", "NoFreeUnit", "no unit of l4-whole is free: ml-orbit/chat holds 1"),
        ("ml-orbit", "lab"): ("Failed", "CrashLoop", "the container ended with exit code 1 (7 restarts)"),
        ("studio-kite", "comfy-trial"): ("Preparing", "PreparationRunning", ""),
        ("solo-ada", "styles"): ("Failed", "PreparationFailed", "attempt 1 failed: HTTP 404"),
    }
)


class SampleReports(NamedTuple):
    """The reports at `now`. `troubles` has the resources that are not as declared."""

    now: datetime.datetime
    troubles: Troubles = TROUBLES

    @property
    def since(self) -> str:
        """When the resources got their states: on the third day before `now`."""
        return self.moment(0, "07:12:00")

    @property
    def start(self) -> datetime.date:
        """The day of `since`."""
        return self.now.date() - datetime.timedelta(days=3)

    def moment(self, days: int, clock: str) -> str:
        """Return the time on a day, counted from the day of `since`."""
        return f"{self.start + datetime.timedelta(days=days)}T{clock}Z"

    def write(self, root: Path, url: str, more_usage: Mapping[str, UsageInterval] = MappingProxyType({})) -> None:
        """Write the reports of all clusters about the declarations in a clone, and push them to a repository.

        `more_usage` has an interval for the usage logs of a tenant.
        """
        for cluster in CLUSTERS:
            statuses, logs = [], {}
            for folder in sorted((root / "tenants").iterdir()):
                status, usage = self.describe_tenant(folder, cluster)
                if status.instances or status.storages or status.snapshots:
                    statuses.append(status)
                    header = UsageLogHeader(cluster, folder.name, self.moment(-USED_DAYS, "00:00:00"))
                    usage += [more_usage[folder.name]] if folder.name in more_usage else []
                    logs[usage_path(folder.name)] = append_usage(None, header, usage)
            start = self.moment(-48, "00:00:00")
            capacity = dump_status(CapacityUsage(cluster, start, tuple(list_capacity(root, cluster, start))))
            observed = f"{self.now - datetime.timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
            write_report(root, url, ClusterStatus(cluster, observed), statuses, {**logs, CAPACITY: capacity})

    def describe_tenant(self, folder: Path, cluster: str) -> tuple[TenantStatus, list[UsageInterval]]:
        """Return the status of a tenant in a cluster, and its uses that have ended."""
        tenant = folder.name
        declared = [
            (path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*/*.yaml"))
        ]
        here = [
            (compute_blob_id(path.read_bytes()), file)
            for path, file in declared
            if file["spec"].get("cluster") == cluster
        ]
        instances = [(blob, file) for blob, file in here if file["kind"] == "GPUInstance"]
        storages = [(blob, file) for blob, file in here if file["kind"] == "GPUStorage"]
        names = {file["metadata"]["name"] for _, file in storages}
        snapshots = [
            self.describe_snapshot(compute_blob_id(path.read_bytes()), file)
            for path, file in declared
            if file["kind"] == "GPUStorageSnapshot" and file["spec"]["storage"] in names
        ]
        usage = [interval for _, file in instances for interval in self.list_uses(tenant, file)]
        status = TenantStatus(
            tenant,
            cluster,
            instances=tuple(self.describe_instance(tenant, blob, file) for blob, file in instances),
            storages=tuple(self.describe_storage(tenant, blob, file) for blob, file in storages),
            snapshots=tuple(snapshots),
            transitions=tuple(step for _, file in instances for step in self.list_steps(tenant, file)),
            usage=tuple(
                self.open_use(tenant, file) for _, file in [*instances, *storages] if self.is_used(tenant, file)
            ),
        )
        return status, usage

    def describe_instance(self, tenant: str, blob: str, file: dict[str, Any]) -> Instance:
        name, spec = file["metadata"]["name"], file["spec"]
        replicas = 0 if spec.get("state") == "Stopped" else spec.get("replicas", 1)
        state, reason, message = self.troubles.get((tenant, name), ("Running" if replicas else "Stopped", "", ""))
        is_running = state == "Running"
        return Instance(
            name,
            blob,
            state,
            reason or ("" if replicas else "StoppedAsDeclared"),
            message,
            self.since,
            gpu_spec=spec["gpuSpec"],
            units=replicas,
            replicas=replicas,
            ready_replicas=replicas if is_running else 0,
            nodes=tuple(name_node(spec, number + 1) for number in range(min(replicas, 2))) if is_running else (),
            pods=replicas if is_running or state == "Failed" else 0,
            restarts=7 if reason == "CrashLoop" else 0,
            running_pod=f"{name}-5d8f7c9b4-x2x7q" if is_running else "",
            start_time=self.since if is_running else "",
            url=f"https://{name}--{tenant}.{spec['cluster']}.gpu.northlight.example/",
            ssh_command=f"ssh {name}--{tenant}@ssh.{spec['cluster']}.gpu.northlight.example"
            if spec.get("access")
            else "",
        )

    def describe_storage(self, tenant: str, blob: str, file: dict[str, Any]) -> Storage:
        name, spec = file["metadata"]["name"], file["spec"]
        state, reason, message = self.troubles.get((tenant, name), ("Ready", "", ""))
        prepare = None
        if "prepare" in spec:
            job = {"Ready": "Succeeded", "Preparing": "Running"}.get(state, state)
            declared = Prepare.model_validate(spec["prepare"])
            digest = input_hash(declared)
            prepare = Preparation(job_name(name, declared), declared.attempt, digest, job, self.since)
        return Storage(
            name, blob, state, reason, message, self.since, f"pvc-{name}", spec["size"], spec["size"], prepare=prepare
        )

    def describe_snapshot(self, blob: str, file: dict[str, Any]) -> Snapshot:
        name = file["metadata"]["name"]
        return Snapshot(
            name,
            blob,
            "Ready",
            "",
            "",
            self.since,
            storage=file["spec"]["storage"],
            creation_time=self.since,
            uid=f"snap-{name}",
        )

    def open_use(self, tenant: str, file: dict[str, Any]) -> UsageInterval:
        """Return the use that continues."""
        name, spec, labels = file["metadata"]["name"], file["spec"], file["metadata"].get("labels", {})
        if file["kind"] == "GPUInstance":
            node = name_node(spec, 1)
            return UsageInterval(
                "GPUInstance",
                name,
                f"{tenant}-{name}-now",
                self.since,
                gpu_spec=spec["gpuSpec"],
                node=node,
                labels=labels,
            )
        start = self.moment(-37, "08:00:00")
        return UsageInterval(
            "GPUStorage",
            name,
            f"{tenant}-{name}",
            start,
            size=spec["size"],
            storage_spec=spec["storageSpec"],
            labels=labels,
        )

    def list_uses(self, tenant: str, file: dict[str, Any]) -> Iterator[UsageInterval]:
        """Yield a use on most days, of another length each day."""
        name, spec, labels = file["metadata"]["name"], file["spec"], file["metadata"].get("labels", {})
        for days in range(-USED_DAYS, 0):
            day = (self.start + datetime.timedelta(days=days)).day
            if day % 7 not in (1, 0):
                yield UsageInterval(
                    "GPUInstance",
                    name,
                    f"{tenant}-{name}-{day}",
                    self.moment(days, "07:00:00"),
                    self.moment(days, f"{11 + (day * 5 + len(name)) % 9:02}:30:00"),
                    gpu_spec=spec["gpuSpec"],
                    node=name_node(spec, 1),
                    labels=labels,
                )

    def list_steps(self, tenant: str, file: dict[str, Any]) -> Iterator[Transition]:
        """Yield the changes of an instance's state."""
        name = file["metadata"]["name"]
        yield Transition("GPUInstance", name, "", "Running", "", self.moment(-16, "07:00:00"))
        yield Transition("GPUInstance", name, "Running", "Failed", "NodeLost", self.moment(-7, "03:10:00"))
        yield Transition("GPUInstance", name, "Failed", "Running", "", self.moment(-7, "09:40:00"))
        state, reason, _ = self.troubles.get((tenant, name), ("", "", ""))
        if state:
            yield Transition("GPUInstance", name, "Running", state, reason, self.since)

    def is_used(self, tenant: str, file: dict[str, Any]) -> bool:
        """Return whether a resource has a pod or a volume. Other troubles change no usage, because usage never disappears."""
        if file["kind"] == "GPUInstance":
            return file["spec"].get("state") != "Stopped" and (tenant, file["metadata"]["name"]) not in TROUBLES
        return True


def name_node(instance: dict[str, Any], number: int) -> str:
    """Return the name of a node in the pool that has the unit of an instance. `instance` is its spec."""
    return f"{instance['cluster']}-{find_pool(instance['cluster'], instance['gpuSpec'])}-{number}"


@cache
def find_pool(cluster: str, gpu_spec: str) -> str:
    """Return the node pool of the first stock of a GPUSpec in a cluster of the sample."""
    stocks = (yaml.safe_load(path.read_bytes()) for path in sorted((PROJECT / f"clusters/{cluster}/stocks").iterdir()))
    return next(str(stock["spec"]["nodePool"]) for stock in stocks if stock["spec"]["gpuSpec"] == gpu_spec)


def list_capacity(root: Path, cluster: str, start: str) -> Iterator[UsageInterval]:
    """Yield the stocks and nodes of a cluster."""
    for path in sorted((root / f"clusters/{cluster}/stocks").iterdir()):
        stock = yaml.safe_load(path.read_text(encoding="utf-8"))
        name, spec = stock["metadata"]["name"], stock["spec"]
        yield UsageInterval(
            "Stock",
            name,
            f"stock-{name}",
            start,
            gpu_spec=spec["gpuSpec"],
            units=spec["count"],
            tenant=spec.get("tenant", ""),
        )
    for path in sorted((root / f"clusters/{cluster}/node-pools").iterdir()):
        for number in (1, 2):
            node = f"{cluster}-{path.stem}-{number}"
            yield UsageInterval("NodePool", path.stem, f"uid-{node}", start, node=node)
