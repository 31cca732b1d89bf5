"""The comment of a rollout fits into the forge's limit."""

from __future__ import annotations

import pytest

from allotment.observed.rollout import ResourceRef, RolloutStage
from allotment.reports.links import InstanceLinks
from allotment.reports.rollout import MARKER, MAX_ROWS, Rollout, render_comment

MESSAGE = "é" * 900


def rollout(count: int) -> Rollout:
    """Return the rollout of some instances with long messages."""
    resources = [
        (
            ResourceRef("instance", "solo-ada", f"i{number:03}", "eu-1", "b"),
            RolloutStage("going", "Kept", MESSAGE),
            InstanceLinks(),
        )
        for number in range(count)
    ]
    return Rollout("c" * 40, ("eu-1",), resources)


@pytest.mark.parametrize("count", [1, 150, 450])
@pytest.mark.parametrize("limit", [5_000, 60_000, 2_000_000])
def test_the_comment_keeps_the_limit_and_counts_what_it_leaves_out(count: int, limit: int) -> None:
    text = render_comment(rollout(count), limit)
    assert len(text.encode()) <= limit
    rows = text.count("solo-ada/i")
    assert 0 < rows <= MAX_ROWS
    assert (f"\nand {count - rows:,} more.\n" in text) == (rows < count)
    assert limit < 1_000_000 or rows == min(count, MAX_ROWS)


def test_a_rollout_without_resources_has_no_table() -> None:
    text = render_comment(Rollout("c" * 40, (), []), 1_000)
    assert text.startswith(MARKER)
    assert "|" not in text


def test_many_clusters_keep_the_limit_too() -> None:
    many = rollout(450)._replace(published_clusters=tuple(f"cluster-{number:05}" * 4 for number in range(3_000)))
    text = render_comment(many, 60_000)
    assert len(text.encode()) <= 60_000
    assert " and 2,950 more." in text
    assert 0 < text.count("solo-ada/i") < 450
