"""What a year of one cluster's status weighs: `python -m tests.bench.year [TENANTS [DAYS]]`, for docs/decisions/0007.

Every tenant has two instances and two storages. On a working day each instance starts once and stops once, spread over ten
hours; status commits come a minute apart, as long as there is something to say, and otherwise hourly.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.branches.status_branches import CLUSTER, SUMMARY, reported_ref, tenant_path
from allotment.branches.status_reader import read_history, read_reported_status
from allotment.declared.inventory import compute_blob_id
from allotment.manifests.names import status_branch
from allotment.observed.status import (
    ClusterStatus,
    Condition,
    Instance,
    Stock,
    Storage,
    TenantStatus,
    Transition,
    dump_status,
)
from allotment.reports.cluster_page import render_summary

MINUTES, HOURS, WORKING_DAYS = 600, 14, 250
WAY = ("Init", "Ready", "Running", "Stopped")


def at(day: int, minute: int, second: int) -> str:
    return f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T{8 + minute // 60:02d}:{minute % 60:02d}:{second:02d}Z"


def instance(name: str, state: str, time: str) -> Instance:
    kinds = ("Admitted", "StoragesPrepared", "Synced", "Scheduled", "Started", "Available", "Exposed")
    held = state == "Running"
    return Instance(
        name=name,
        observed_blob=compute_blob_id(name.encode()),
        state=state,
        reason="ProbesAnswered" if held else "StoppedAsDeclared",
        since=time,
        gpu_spec="l4-quarter",
        units=int(held),
        replicas=int(held),
        ready_replicas=int(held),
        nodes=(f"node-{random.randrange(300)}",) if held else (),
        start_time=time if held else "",
        url=f"https://{name}--team.eu-1.gpu.example.com/",
        conditions=tuple(Condition(kind, str(held), "OnNode", "", time) for kind in kinds[: 7 if held else 3]),
    )


def storage(name: str) -> Storage:
    kinds = ("Synced", "Bound", "Prepared", "Resized")
    conditions = tuple(Condition(kind, "True", "VolumeBound", "", at(0, 0, 0)) for kind in kinds)
    return Storage(
        name,
        compute_blob_id(name.encode()),
        "Ready",
        "VolumeBound",
        since=at(0, 0, 0),
        claim="u" * 36,
        size="200Gi",
        conditions=conditions,
    )


def main() -> None:
    """Write the days, and say what they weigh."""
    tenants, days = [int(word) for word in sys.argv[1:]] or (1000, 3)
    for key, value in (("NAME", "reporter"), ("EMAIL", "reporter@localhost")):
        os.environ[f"GIT_COMMITTER_{key}"] = value
    random.seed(7)
    with tempfile.TemporaryDirectory(prefix="allot-year-") as folder:
        root = Path(folder)
        repository = Repository.open_or_create(root / "data")
        weighed = write(repository, tenants, days)
        git(root / "data", "repack", "-adq", "--depth=50", "--window=10")
        size = sum(file.stat().st_size for file in (root / "data/objects").rglob("*")) / 1e6
        commits = weighed["commits"]
        a_day = (size - weighed["first"]) / days
        print(
            f"{tenants:,} tenants, {days} working days: {commits:,} commits, {size:.1f} MB packed, {weighed['first']:.1f} MB of them the first"
        )
        quiet = (365 - WORKING_DAYS) * 24 * a_day / commits * days
        print(f"a year: {commits // days * WORKING_DAYS:,} commits, {a_day * WORKING_DAYS + quiet:,.0f} MB")
        remote = Remote(repository, str(root / "data"))
        for what in ("status", "history"):
            begun = time.perf_counter()
            if what == "status":
                read_reported_status(repository, remote, [("eu-1", None)], None)
            else:
                read_history(repository, remote, [("eu-1", None)], "team-7x", None, 200)
            print(f"allot {what}: {time.perf_counter() - begun:.2f} s")


def write(repository: Repository, tenants: int, days: int) -> dict[str, float]:
    """Write the days to a repository; return the number of commits, and the MB of the first."""
    now = {
        f"team-{number}x": TenantStatus(
            f"team-{number}x",
            "eu-1",
            instances=tuple(instance(f"lab-{letter}", "Stopped", at(0, 0, 0)) for letter in "ab"),
            storages=tuple(storage(f"data-{letter}") for letter in "ab"),
        )
        for number in range(tenants)
    }
    remote = Remote(repository, str(repository.folder))
    branch = Branch(repository, "eu-1", None, None, None)
    branch = commit(repository, remote, branch, now, list(now), at(0, 0, 0))
    git(repository.folder, "repack", "-adq")
    first = sum(file.stat().st_size for file in (repository.folder / "objects").rglob("*")) / 1e6
    count = 0
    for day in range(1, days + 1):
        due: dict[int, list[tuple[str, int, bool]]] = {}
        for tenant in now:
            for index in (0, 1):
                start, stop = sorted(random.sample(range(MINUTES), 2))
                due.setdefault(start, []).append((tenant, index, True))
                due.setdefault(stop, []).append((tenant, index, False))
        for minute in range(MINUTES + HOURS * 60):
            changes = due.get(minute, [])
            if not changes and minute % 60:
                continue
            for tenant, index, starts in changes:
                moment = at(day, minute % MINUTES, random.randrange(60))
                before = now[tenant]
                states = WAY[:3] if starts else WAY[3:]
                steps = tuple(
                    Transition("GPUInstance", before.instances[index].name, "", state, "", moment) for state in states
                )
                both = list(before.instances)
                both[index] = instance(both[index].name, states[-1], moment)
                transitions = (*before.transitions, *steps) if before.previous == branch.published_commit else steps
                now[tenant] = msgspec.structs.replace(
                    before, instances=tuple(both), transitions=transitions, previous=branch.published_commit
                )
            branch = commit(
                repository, remote, branch, now, sorted({change[0] for change in changes}), at(day, minute % MINUTES, 0)
            )
            count += 1
    return {"commits": count, "first": first}


def commit(
    repository: Repository, remote: Remote, branch: Branch, now: dict[str, TenantStatus], changed: list[str], time: str
) -> Branch:
    held = sum(status_instance.units for status in now.values() for status_instance in status.instances)
    cluster = ClusterStatus("eu-1", time, (Stock("l4-quarter", "l4-quarter", 4000, held, 4000 - held, 200),))
    data = {tenant_path(tenant): dump_status(now[tenant]) for tenant in changed}
    data |= {CLUSTER: dump_status(cluster), SUMMARY: render_summary(cluster, list(now.values()))}
    files = {**branch.files, **{path: compute_blob_id(text) for path, text in data.items()}}
    message = CommitMessage(
        "\n".join(f"{tenant}: Running → Stopped" for tenant in changed) or "eu-1: seen", repository.committer()
    )
    status_commit = branch.create_commit(files, branch.compare_files(files), data, message)
    remote.push({status_branch("eu-1"): status_commit, reported_ref("eu-1"): status_commit})
    following = Branch(repository, "eu-1", status_commit, status_commit, None)
    vars(following)["files"] = files
    return following


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


if __name__ == "__main__":
    main()
