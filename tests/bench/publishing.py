"""Publishing one changed tenant of many: the commit itself against Git's own way, and the whole of it."""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.branch import Branch
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release_builder import ReleaseBuilder
from tests.bench.generate import write_tenant
from tests.bench.measure import Run, Say, median, pairs, run, timed

IDENTITY = {"GIT_COMMITTER_NAME": "allotment", "GIT_COMMITTER_EMAIL": "allotment@localhost"}
AUTHOR = {"GIT_AUTHOR_NAME": "ada", "GIT_AUTHOR_EMAIL": "ada@localhost"}


def publishing(repo: Path, work: Path, day: datetime.date, allot: list[str], say: Say) -> None:
    """Measure, on a repository that is generated; it becomes a Git repository with a remote."""
    os.environ.update(IDENTITY | AUTHOR)
    remote = work / "remote.git"
    git(repo, "init", "-q", "-b", "main")
    merge(repo)
    git(work, "init", "-q", "--bare", str(remote))
    first = run([*allot, "publish", "--repo", str(repo), "--to", str(remote)], memory=True)
    say(
        "allot publish, all of it the first time, as a process",
        f"{first.seconds:6.2f} s  {first.megabytes:4.0f} MB; goal 250 MB",
    )
    publisher = Publisher(
        repo, Remote(Repository(repo), str(remote)), ReleaseBuilder(processes=1), lambda _: day, find_tip=lambda: None
    )
    publisher.publish("HEAD")  # it has rendered all once
    tree = work / "tree"
    git(work, "clone", "-q", "-b", "rendered/eu-1", str(remote), str(tree))
    files = sum(len(names) for folder, _, names in os.walk(tree) if "/.git" not in folder)
    written, wholes = list[Run](), list[Run]()
    turn = 0

    def ours() -> Run:
        nonlocal turn
        turn += 1
        write_tenant(repo, 0, theme=f"published{turn}")
        merge(repo)
        outcomes = []
        with timed_commits(written):
            wholes.append(timed(lambda: outcomes.append(publisher.publish("HEAD"))))
        if [cluster_commit.count_files("M") for cluster_commit in outcomes[0].commits] != [1]:
            raise RuntimeError("the change was not published")
        return wholes[-1]

    def theirs() -> Run:
        path = next(tree.glob("tenants/ateam-0x/compute/[!a]*.rendered.yaml"))
        path.write_text(path.read_text() + f"# {turn}\n")

        def add_and_commit() -> None:
            git(tree, "add", "-A")
            git(tree, "commit", "-q", "-m", "Publish")

        return timed(add_and_commit)

    pair = pairs(ours, theirs, 9)
    commit = median(written)
    say(
        f"its commit, one tenant changed among {files:,} files",
        f"{commit.seconds * 1000:6.0f} ms  1/{pair.theirs.seconds / commit.seconds:.0f} of git add -A && git commit"
        f" ({pair.theirs.seconds * 1000:.0f} ms); goal 1/15",
    )
    say(
        "checked, rendered, committed and pushed, in a process that runs",
        f"{pair.ours.seconds * 1000:6.0f} ms  {pair.ratio} of git add -A && git commit, which doesn't push; goal 1.2",
    )


@contextmanager
def timed_commits(into: list[Run]) -> Iterator[None]:
    """Note what writing commits takes meanwhile."""
    commit, measured_runs = Branch.create_commit, list[Run]()

    def measured(self: Branch, *words: Any) -> str:
        results = list[str]()
        measured_runs.append(timed(lambda: results.append(commit(self, *words))))
        return results[0]

    Branch.create_commit = measured  # type: ignore[method-assign,assignment]  # measured from outside
    try:
        yield
    finally:
        Branch.create_commit = commit  # type: ignore[method-assign]  # as it was
        into.append(Run(*(sum(column) for column in zip(*measured_runs, strict=True))))


def merge(repo: Path) -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Merge")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
