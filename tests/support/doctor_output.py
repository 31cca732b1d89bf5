"""The lines of `allot doctor` for a repository."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Allot, checked


def lines(allot: Allot, root: Path) -> list[str]:
    """Return the findings about a repository, as lines."""
    document = checked("doctor", allot("doctor", "--repo", root, "-o", "json").out)
    assert document["cluster"] is None
    return [f"{finding['severity']} {finding['object']}: {finding['message']}" for finding in document["findings"]]
