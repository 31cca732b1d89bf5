"""A pull request whose objects Git doesn't write gets a verdict like any other, and holds up nobody."""

from __future__ import annotations

import pytest
from tests.adapters.git.malformed import REFUSED, replaced, write_commit, write_tree
from tests.support.comment_loop_bed import Bed, bed
from tests.support.published import git

__all__ = ["bed"]  # a fixture


@pytest.mark.parametrize("hidden", [False, True], ids=["at the head", "in its history"])
def test_a_malformed_pull_request_fails_and_blocks_no_other_plan(bed: Bed, hidden: bool) -> None:
    remote = bed.desk.place.remote
    base = git(remote, "rev-parse", "main")
    bad = write_tree(remote, REFUSED["a name twice"][2])
    head = write_commit(remote, replaced(remote, base, "tenants/solo-ada/instances", bad), base)
    if hidden:
        head = write_commit(remote, git(remote, "rev-parse", f"{base}^{{tree}}"), head)
    git(remote, "update-ref", "refs/pull/1/head", head)
    bed.world.open(1, head, "ada-k")
    good = bed.desk.propose(2, "spec:\n", "spec:\n  description: Good.\n")
    bed.round()
    assert (bed.desk.status(head), bed.desk.status(good)) == ("failure", "success")
    assert "duplicateEntries" in bed.world.bodies(1)[0]
    assert bed.round() == [], "it was said"
