"""`make bench`: full validate and render, one tenant changed, published and planned, the commands that read, and a cluster reported.

Every figure is a ratio to a peer that ran in turn with it, on the same objects, or stands beside a goal. Nothing here fails on
a number. `make bench SIZES="100 20000"` measures other numbers of tenants; the largest is the one of the single changes.
"""

from __future__ import annotations

import compileall
import datetime
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import allotment
from tests.bench.billing import billing
from tests.bench.budgets import budgets
from tests.bench.editing import editing
from tests.bench.editor import editor
from tests.bench.generate import generate
from tests.bench.listing import listing
from tests.bench.measure import machine, watched_machine
from tests.bench.planning import planning
from tests.bench.pools import pools
from tests.bench.portal import portal
from tests.bench.publishing import publishing
from tests.bench.queries import queries
from tests.bench.rendering import full, one_changed
from tests.bench.reporting import reporting

ALLOT = [str(Path(sys.executable).with_name("allot"))]
DAY = datetime.date(2026, 11, 21)
SIZES = (100, 1000, 5000)


def say(what: str, figure: str) -> None:
    print(f"  {what:<58} {figure}", flush=True)


def measure_changes(repo: Path, work: Path, tenants: int) -> None:
    """Measure what follows a change of one tenant, in a repository that was generated."""
    steps: dict[str, Callable[[], None]] = {
        "changed, everything that crosses files checked": lambda: one_changed(repo, work, DAY, ALLOT, say),
        "edited, in an editor": lambda: editor(repo, work, say),
        "changed, published": lambda: publishing(repo, work, DAY, ALLOT, say),
        "edited by a command": lambda: editing(repo, work, ALLOT, say),
        "changed, planned": lambda: planning(repo, work, ALLOT, say),
        "asked for, and all of them": lambda: queries(repo, work, ALLOT, say),
        "with two instances, and all of them listed": lambda: listing(repo, work, ALLOT, say),
        "hostile: the others' publish, and the next pull request's verdict": lambda: budgets(repo, work, DAY, say),
    }
    for title, measure in steps.items():
        print(f"\none tenant of {tenants:,} {title}")
        with watched_machine(say):
            measure()


def compile_program() -> None:
    """Write the bytecode of the program, as an installation does: the peers have theirs even if PYTHONDONTWRITEBYTECODE is set."""
    for folder in allotment.__path__:
        compileall.compile_dir(folder, quiet=1)


def main() -> None:
    """Run everything, small to large."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    begun = time.monotonic()
    compile_program()
    print(
        f"allot bench on {machine()}; seconds are wall time of whole processes, CPU is processor time, MB the peak of all their"
        " processes together"
    )
    renders = {}
    for tenants in sizes:
        with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder:
            work = Path(folder)
            repo = work / "repo"
            generate(repo, tenants)
            with watched_machine(say):
                renders[tenants] = full(repo, work, tenants, ALLOT, say)
            if tenants == sizes[-1]:
                measure_changes(repo, work, tenants)
    if len(renders) > 1:
        print("\na render by tenant, from few to many")
        say(
            "ms a tenant",
            "  ".join(f"{tenants:,}: {1000 * seconds / tenants:.2f}" for tenants, seconds in renders.items()),
        )
    with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder, watched_machine(say):
        pools(Path(folder), ALLOT, say)
    print("\na month, billed")
    with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder, watched_machine(say):
        billing(Path(folder), ALLOT, say)
    print("\na portal, built")
    with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder, watched_machine(say):
        portal(Path(folder), ALLOT, say)
    print("\na cluster, reported")
    with watched_machine(say):
        reporting(say)
    print(f"\nit took {(time.monotonic() - begun) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
