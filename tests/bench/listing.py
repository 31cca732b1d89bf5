"""Lists of 10,000 instances: the first list after a merge, and the lists that follow it until a branch moves."""

from __future__ import annotations

from pathlib import Path

from tests.bench.measure import Say, median, run
from tests.bench.publishing import git, merge
from tests.bench.queries import write_statuses

TIMES = 5
GOAL_SECONDS = 1


def listing(repo: Path, work: Path, allot: list[str], say: Say) -> None:
    """Measure, on a repository that `queries` has pushed to a remote. Adds a second instance to every tenant."""
    for path in sorted((repo / "tenants").glob("*/instances/*.yaml")):
        text = path.read_text(encoding="utf-8")
        (path.parent / "second.yaml").write_text(text.replace(f"name: {path.stem}\n", "name: second\n", 1))
    merge(repo)
    git(repo, "push", "-q", "origin", "HEAD:refs/heads/main")
    write_statuses(repo, work / "remote.git")
    words = [*allot, "instance", "list", "--repo", str(repo)]
    first = run(words, memory=True)
    say("allot instance list, the first time", f"{first.seconds:6.2f} s  {first.megabytes:4.0f} MB")
    for what, more in (("", ()), (", one tenant", ("--tenant", "ateam-0x")), (", JSON", ("-o", "json"))):
        middle = median([run([*words, *more], memory=True) for _ in range(TIMES)])
        say(
            f"allot instance list{what}, no branch moved since",
            f"{middle.seconds:6.2f} s  {middle.megabytes:4.0f} MB  CPU {middle.cpu_seconds:.2f} s; goal {GOAL_SECONDS} s",
        )
