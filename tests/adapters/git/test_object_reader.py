"""Git's object reader: what becomes of a question when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.published import git

from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused


def test_a_reader_that_ended_is_told_and_begun_anew(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "Begin")
    objects = Repository(tmp_path).objects
    head = objects.resolve_commit("HEAD")
    assert head is not None
    assert objects._reader is not None
    objects._reader[1].kill()
    objects._reader[1].wait()
    with pytest.raises(
        OperationRefused, match="git cat-file ended before it had answered: the repository may be damaged"
    ):
        objects.resolve_commit("HEAD")
    assert objects.resolve_commit("HEAD") == head
