"""Editing one instance of many by a command, against validating its file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.bench.measure import Run, Say, pairs, run

TURNS = 5


def editing(repo: Path, work: Path, allot: list[str], say: Say) -> None:
    """Measure an edit with its check, its difference and its plan. The file is not written, so that all edits are alike."""
    name = next((repo / "tenants").glob("ateam-0*")).name
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")

    def ours() -> Run:
        return run([*allot, "set", f"instance/{name}/webui", "displayName=edited", "--dry-run", "--repo", str(repo)])

    def theirs() -> Run:
        file = f"tenants/{name}/instances/webui.yaml"
        return run([*allot, "validate", "-C", str(repo), file])

    ours(), theirs()
    pair = pairs(ours, theirs, TURNS)
    say(
        "allot set --dry-run, with its check and its plan",
        f"{pair.ours.seconds:6.2f} s   {pair.ratio} of allot validate of the file ({pair.theirs.seconds:.2f} s); goal 2",
    )
