"""Publishing one changed tenant of many: the commit itself against Git's own way, and the whole of it."""

from __future__ import annotations

import datetime
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release_builder import ReleaseBuilder
from tests.bench.generate import write_tenant
from tests.bench.measure import pairs, run

IDENTITY = {"GIT_COMMITTER_NAME": "allotment", "GIT_COMMITTER_EMAIL": "allotment@localhost"}
AUTHOR = {"GIT_AUTHOR_NAME": "ada", "GIT_AUTHOR_EMAIL": "ada@localhost"}
Say = Callable[[str, str], None]


def publishing(repo: Path, work: Path, day: datetime.date, allot: list[str], say: Say) -> None:
    """Measure, on a repository that is generated; it becomes a Git repository with a remote."""
    os.environ.update(IDENTITY | AUTHOR)
    remote = work / "remote.git"
    git(repo, "init", "-q", "-b", "main")
    merge(repo)
    git(work, "init", "-q", "--bare", str(remote))
    first = time.perf_counter()
    run([*allot, "publish", "--repo", str(repo), "--to", str(remote)])
    say("allot publish, all of it the first time, as a process", f"{time.perf_counter() - first:6.2f} s")
    publisher = Publisher(
        repo, Remote(Repository(repo), str(remote)), ReleaseBuilder(processes=1), lambda _: day, find_tip=lambda: None
    )
    publisher.publish("HEAD")  # it has rendered all once
    tree = work / "tree"
    git(work, "clone", "-q", "-b", "rendered/eu-1", str(remote), str(tree))
    files = sum(len(names) for folder, _, names in os.walk(tree) if "/.git" not in folder)
    written, wholes = list[float](), list[float]()
    turn = 0

    def ours() -> float:
        nonlocal turn
        turn += 1
        write_tenant(repo, 0, theme=f"published{turn}")
        merge(repo)
        with timed(written):
            begun = time.perf_counter()
            outcome = publisher.publish("HEAD")
            wholes.append(time.perf_counter() - begun)
        if [cluster_commit.count_files("M") for cluster_commit in outcome.commits] != [1]:
            raise RuntimeError("the change was not published")
        return written[-1]

    def theirs() -> float:
        path = next(tree.glob("tenants/ateam-0x/compute/[!a]*.rendered.yaml"))
        path.write_text(path.read_text() + f"# {turn}\n")
        begun = time.perf_counter()
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "Publish")
        return time.perf_counter() - begun

    own_seconds, other = pairs(ours, theirs, 9)
    say(
        f"its commit, one tenant changed among {files:,} files",
        f"{own_seconds * 1000:6.0f} ms  1/{other / own_seconds:.0f} of git add -A && git commit ({other * 1000:.0f} ms); goal 1/15",
    )
    whole = sorted(wholes)[len(wholes) // 2]
    say(
        "checked, rendered, committed and pushed, in a process that runs",
        f"{whole * 1000:6.0f} ms  {whole / other:.2f} of git add -A && git commit, which doesn't push",
    )


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Note the seconds that writing commits takes meanwhile."""
    commit, seconds = Branch.create_commit, 0.0

    def measured(self: Branch, *words: Any) -> str:
        nonlocal seconds
        begun = time.perf_counter()
        try:
            return commit(self, *words)
        finally:
            seconds += time.perf_counter() - begun

    Branch.create_commit = measured  # type: ignore[method-assign,assignment]  # measured from outside
    try:
        yield
    finally:
        Branch.create_commit = commit  # type: ignore[method-assign]  # as it was
        into.append(seconds)


def merge(repo: Path) -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Merge")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
