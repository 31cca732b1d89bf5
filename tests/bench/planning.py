"""Planning one changed tenant of many, against rendering that tenant as a whole process."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from tests.bench.generate import write_tenant
from tests.bench.measure import Run, Say, pairs, run
from tests.bench.publishing import git, merge


def planning(repo: Path, work: Path, allot: list[str], say: Say) -> None:
    """Measure, on a repository of Git's; the tenant's change lies on a branch of its own."""
    git(repo, "checkout", "-q", "-B", "feature")
    write_tenant(repo, 0, theme="planned")
    merge(repo)
    git(repo, "checkout", "-q", "-")
    name = next((repo / "tenants").glob("ateam-0*")).name
    turn = 0
    cache = work / "cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)

    def ours() -> Run:
        return run([*allot, "plan", "--repo", str(repo), "--base", "HEAD", "--head", "feature", "--diffs"])

    def cold() -> Run:
        shutil.rmtree(cache, ignore_errors=True)
        return ours()

    def theirs(*more: str) -> Run:
        nonlocal turn
        turn += 1
        out = work / f"planned-{turn}"
        return run([*allot, "render", "--repo", str(repo), *more, "--tenant", name, "--out", str(out)])

    for what, mine, other in (
        ("allot plan, the base never read before", cold, ["--commit", "feature"]),
        ("allot plan, the base fine before", ours, ["--commit", "feature"]),
        ("allot plan, the base never read before", cold, []),
    ):
        pair = pairs(mine, partial(theirs, *other), 3)
        where = "its commit" if other else "the folder"
        say(
            what,
            f"{pair.ours.seconds:6.2f} s   {pair.ratio} of allot render --tenant of {where} ({pair.theirs.seconds:.2f} s); goal 1.5",
        )
