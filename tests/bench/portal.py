"""The portal of 5,000 tenants with a month of usage: all pages, and then those of one tenant that changed."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

from allotment.adapters.page_folder import PageFolder
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.portal.site.site_builder import SiteBuilder
from tests.bench.billing import write_record
from tests.bench.generate import generate
from tests.bench.measure import Run, Say, median, pairs, run, timed
from tests.bench.publishing import git, merge

TENANTS, CHANGES = 5_000, 3
GOAL_SECONDS, GOAL_MEGABYTES, GOAL_CHANGE_SECONDS = 60, 500, 1
NOW = datetime.datetime(2026, 11, 29, 12, 5, tzinfo=datetime.UTC)


def portal(work: Path, allot: list[str], say: Say) -> None:
    """Measure a build of all pages against a copy of the same files, and builds after a change of one tenant."""
    repo, remote, site = work / "portal", work / "portal.git", work / "site"
    generate(repo, TENANTS)
    git(work, "init", "-q", "-b", "main", str(repo))
    git(work, "init", "-q", "-b", "main", "--bare", str(remote))
    merge(repo)
    git(repo, "remote", "add", "origin", str(remote))
    git(repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    write_record(remote, sorted(path.name for path in (repo / "tenants").iterdir()))
    words = [*allot, "portal", "build", "--repo", str(repo), "--out", str(site)]
    copy = ["cp", "-r", str(site), str(work / "copy")]
    pair = pairs(lambda: run(words, memory=True), lambda: run(copy), 1)
    say(
        f"allot portal build, {TENANTS:,} tenants, against a copy of its pages",
        f"{pair.ours.seconds:6.2f} s  {pair.ours.megabytes:4.0f} MB  {pair.ratio};"
        f" goal {GOAL_SECONDS} s, {GOAL_MEGABYTES} MB",
    )
    middle = measure_changes(repo, site)
    say(
        "one tenant changed, in the process of allot run --portal",
        f"{middle.seconds:6.2f} s; goal {GOAL_CHANGE_SECONDS} s",
    )


def measure_changes(repo: Path, site: Path) -> Run:
    """Return the median of builds after a change of one tenant each."""
    builder = SiteBuilder(DeclarationsClone(repo), PageFolder(site))
    builder.build(NOW)
    tenant = min((repo / "tenants").iterdir())
    runs = []
    for _ in range(CHANGES):
        with (tenant / "tenant.yaml").open("a", encoding="utf-8") as file:
            file.write(f"# {time.monotonic()}\n")
        merge(repo)
        git(repo, "push", "-q", "origin", "HEAD:refs/heads/main")
        runs.append(timed(lambda: builder.build(NOW)))
    return median(runs)
