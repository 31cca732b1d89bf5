"""The usage of October 2026 in the sample, as a reporter of eu-1 would have recorded it."""

from __future__ import annotations

import datetime
from pathlib import Path

from tests.support.published import git

from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import CAPACITY, CLUSTER, reported_ref, tenant_path, usage_path
from allotment.manifests.names import status_branch
from allotment.observed.status import CapacityUsage, ClusterStatus, TenantStatus, UsageInterval, dump_status
from allotment.observed.usage_log import UsageLogHeader, append_usage

EU = "eu-1"
AUTHOR = b"reporter <reporter@northlight.example> 1 +0000"


def at(text: str) -> str:
    """Return a time of 2026 from `MM-DD HH:MM`, in UTC."""
    day, time = text.split()
    return f"2026-{day}T{time}:00Z"


def now() -> str:
    """Return the present time, in UTC. A forecast needs a cluster that was observed in the present month."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run(uid: str, start: str, end: str, certain: str = "") -> UsageInterval:
    """Return the time in which a pod of the WebUI had a unit."""
    return UsageInterval(
        "GPUInstance",
        "webui",
        uid,
        at(start),
        at(end),
        at(certain) if certain else "",
        gpu_spec="l4-quarter",
        node="eu-1-l4-7",
        labels={"project": "pictures"},
    )


def store(name: str, start: str, end: str = "", size: str = "200Gi") -> UsageInterval:
    """Return the time in which a storage had a size."""
    interval = UsageInterval("GPUStorage", name, f"{name}-1", at(start), size=size, storage_spec="shared-files")
    return interval.end(at(end)) if end else interval


SEPTEMBER = [run("webui-a", "09-30 07:00", "09-30 16:00")]
OCTOBER = [
    run("webui-b", "10-05 07:12", "10-05 16:03"),
    run("webui-c", "10-12 07:00", "10-12 15:30"),
    run("webui-d", "10-24 20:00", "10-25 06:00"),
    store("model-cache", "09-20 08:00", "10-16 09:30", size="100Gi"),
    run("webui-e", "10-29 08:00", "10-30 06:00", certain="10-29 18:00"),
]
GAP = UsageInterval("Gap", EU, "", at("10-29 18:00"), at("10-30 06:00"))


def record_october(remote: Path, observed_at: str = at("11-01 01:00")) -> None:
    """Write the status branch of eu-1 to the repository of the sample: two tenants, with usage in October 2026.

    The reporter observed the cluster for the last time at `observed_at`.
    """
    repository = Repository.open_or_create(remote)
    first = write_files(repository, [], at("09-30 16:01"), {"studio-kite": SEPTEMBER}, "")
    logs = {"studio-kite": OCTOBER, "solo-ada": [run("ada-a", "10-02 06:00", "10-02 10:00")], "": [GAP]}
    second = write_files(repository, [first], observed_at, logs, first)
    for ref in (status_branch(EU), reported_ref(EU)):
        git(remote, "update-ref", ref, second)


def write_files(
    repository: Repository, parents: list[str], observed_at: str, logs: dict[str, list[UsageInterval]], previous: str
) -> str:
    """Write a commit of the reporter with these intervals that have ended, and return it."""
    usage = (store("model-cache", "10-16 09:30"), store("outputs", "09-20 08:00", size="500Gi"))
    data: dict[str, bytes | None] = {
        CLUSTER: dump_status(ClusterStatus(EU, observed_at)),
        CAPACITY: dump_status(CapacityUsage(EU, at("09-01 06:00"))),
        tenant_path("studio-kite"): dump_status(TenantStatus("studio-kite", EU, usage=usage)),
    }
    for owner, intervals in logs.items():
        header = UsageLogHeader(EU, owner, observed_at, previous if owner == "studio-kite" else "")
        data[usage_path(owner)] = append_usage(None, header, intervals)
    return write_commit(repository, parents, data, CommitMessage("Report the usage", AUTHOR))
