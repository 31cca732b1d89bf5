"""Compares the folder with HEAD in the background, while the program imports its modules and builds a change."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from allotment.adapters.git.uncommitted import uncommitted_files

# The paths of the declarations that differ from HEAD.
FolderComparison = Future[list[str]]


def start_comparison(root: Path) -> FolderComparison:
    """Start the comparison. Git takes 0.2 s for 5,000 tenants."""
    executor = ThreadPoolExecutor(1)
    comparison = executor.submit(uncommitted_files, root)
    executor.shutdown(wait=False)
    return comparison
