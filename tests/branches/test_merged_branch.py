"""A commit is merged if it was a state of the branch that the default branch of origin declares."""

from __future__ import annotations

import pytest
from tests.support.published import Place, git
from tests.support.unmerged_branch import check_out_branch

from allotment.adapters.git.commit_source import CommitSource
from allotment.branches.merged_branch import (
    DeclaredBranch,
    fetch_origin_branch,
    fetch_tip,
    select_merged_commit,
)
from allotment.problems import OperationRefused


def test_a_state_of_the_branch_is_selected_and_the_tip_in_place_of_an_unmerged_commit(published: Place) -> None:
    published.merge()
    merged, tip = (CommitSource(published.root, ref) for ref in ("HEAD~1", "HEAD"))
    unmerged = CommitSource(published.root, check_out_branch(published))
    branch = fetch_origin_branch(published.root, unmerged)
    assert branch == DeclaredBranch("main", tip.commit)
    for known in (branch, None):
        assert select_merged_commit(published.root, merged, known) is merged
        selected = select_merged_commit(published.root, unmerged, known)
        assert selected is not None
        assert selected.commit == tip.commit


def test_without_the_branch_no_commit_is_merged(published: Place) -> None:
    source = CommitSource(published.root, "HEAD")
    git(published.remote, "update-ref", "-d", "refs/heads/main")
    assert select_merged_commit(published.root, source, None) is None
    with pytest.raises(OperationRefused, match="origin has no branch main, so no commit counts as merged"):
        select_merged_commit(published.root, source, fetch_origin_branch(published.root, source))
    assert fetch_tip(published.root, source) is None


def test_a_trial_without_origin_takes_the_tip_of_the_local_branch(published: Place) -> None:
    published.merge()
    source = CommitSource(published.root, "HEAD~1")
    git(published.root, "remote", "remove", "origin")
    with pytest.raises(OperationRefused, match="this repository has no remote named origin"):
        fetch_origin_branch(published.root, source)
    assert select_merged_commit(published.root, source, None) is None
    assert fetch_tip(published.root, source) == git(published.root, "rev-parse", "main")
