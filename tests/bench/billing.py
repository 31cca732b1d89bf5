"""The bill of a month of 1,000 tenants: two instances that start and stop on each working day, and two storages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import CAPACITY, CLUSTER, reported_ref, tenant_path, usage_path
from allotment.manifests.names import status_branch
from allotment.observed.status import CapacityUsage, ClusterStatus, TenantStatus, UsageInterval, dump_status
from allotment.observed.usage_log import UsageLogHeader, append_usage
from tests.bench.generate import generate
from tests.bench.measure import Say, pairs, run
from tests.bench.publishing import git, merge

TENANTS, TIMES = 1_000, 3
GOAL_SECONDS, GOAL_MEGABYTES = 10, 300
WORKING_DAYS = [day for day in range(1, 31) if day % 7 not in (0, 1)]  # of November 2026


def billing(work: Path, allot: list[str], say: Say) -> None:
    """Measure the bill of all tenants against Git's own reading of the same files."""
    repo, remote = work / "bill", work / "bill.git"
    generate(repo, TENANTS)
    git(work, "init", "-q", "-b", "main", str(repo))
    git(work, "init", "-q", "-b", "main", "--bare", str(remote))
    merge(repo)
    git(repo, "remote", "add", "origin", str(remote))
    git(repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    write_record(remote, sorted(path.name for path in (repo / "tenants").iterdir()))
    words = [*allot, "bill", "--repo", str(repo), "--month", "2026-11", "-o", "csv"]
    run(words)  # the first time also fetches
    archive = ["git", "-C", str(remote), "archive", "--format=tar", status_branch("eu-1")]
    pair = pairs(lambda: run(words, memory=True), lambda: run(archive), TIMES)
    say(
        f"allot bill, {TENANTS:,} tenants, against git archive of the record",
        f"{pair.ours.seconds:6.2f} s  {pair.ours.megabytes:4.0f} MB  {pair.ratio};"
        f" goal {GOAL_SECONDS} s, {GOAL_MEGABYTES} MB",
    )


def write_record(remote: Path, tenants: list[str]) -> None:
    """Write the status branch of a month."""
    repository = Repository.open_or_create(remote)
    now = "2026-12-01T00:00:00Z"
    data: dict[str, bytes | None] = {
        CLUSTER: dump_status(ClusterStatus("eu-1", now)),
        CAPACITY: dump_status(CapacityUsage("eu-1", "2026-01-01T00:00:00Z")),
    }
    for number, tenant in enumerate(tenants):
        storages = tuple(
            UsageInterval(
                "GPUStorage",
                name,
                f"{tenant}-{name}",
                "2026-10-01T08:00:00Z",
                size="200Gi",
                storage_spec="shared-files",
            )
            for name in ("models", "outputs")
        )
        data[tenant_path(tenant)] = dump_status(TenantStatus(tenant, "eu-1", usage=storages))
        header = UsageLogHeader("eu-1", tenant, "2026-11-01T00:00:10Z")
        data[usage_path(tenant)] = append_usage(None, header, list_runs(tenant, number))
    commit = write_commit(repository, [], data, CommitMessage("Report", b"reporter <r@gpu.test> 1 +0000"))
    for ref in (status_branch("eu-1"), reported_ref("eu-1")):
        git(remote, "update-ref", ref, commit)


def list_runs(tenant: str, number: int) -> Iterator[UsageInterval]:
    """Yield two runs of each of two instances on each working day."""
    for day in WORKING_DAYS:
        for name in ("webui", "second"):
            for start, end in ((7, 11), (12, 16)):
                yield UsageInterval(
                    "GPUInstance",
                    name,
                    f"{tenant}-{name}-{day}-{start}-0b5c2a44-8f6e",
                    f"2026-11-{day:02d}T{start:02d}:{number % 60:02d}:07Z",
                    f"2026-11-{day:02d}T{end:02d}:{number % 60:02d}:41Z",
                    gpu_spec="l4-quarter",
                    node=f"eu-1-l4-{number % 300}",
                    labels={"project": f"p{day % 3}"},
                )
