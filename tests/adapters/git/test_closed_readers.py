"""The readers of a command end with the command, and those of a repository with its `with` block."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.adapters.git.clone import Clone, list_clones
from allotment.adapters.git.object_reader import closing_readers, list_readers
from allotment.adapters.git.repository import Repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "Begin")
    return tmp_path


def _list_descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors, each with what it opened. Others of this process may end at any time."""
    descriptors = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that listed the folder
            descriptors.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return descriptors


def test_a_repository_ends_its_reader_with_its_block(folder: Path) -> None:
    descriptors = _list_descriptors()
    with Repository(folder) as repository:
        assert repository.has_commits()
        assert repository.resolve("HEAD", "")
        assert repository.objects.is_open
    assert not repository.objects.is_open
    assert _list_descriptors() <= descriptors


def test_a_block_ends_the_readers_that_were_created_in_it_alone(folder: Path) -> None:
    with Repository(folder) as outer:
        outer.resolve("HEAD", "")
        with closing_readers():
            inner = Repository(folder)
            inner.resolve("HEAD", "")
        assert (outer.objects.is_open, inner.objects.is_open) == (True, False)
        assert inner.resolve("HEAD", "") == outer.resolve("HEAD", ""), "the next read starts the reader again"
        inner.close()


def test_a_command_ends_its_readers(place: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Repository] = []
    begin = Repository.__init__
    monkeypatch.setattr(
        Repository, "__init__", lambda repository, *words: opened.append(repository) or begin(repository, *words)
    )
    descriptors = _list_descriptors()
    assert place.publish("--dry-run").code == 0
    assert opened
    assert not [reader for reader in list_readers() if reader.is_open]
    assert _list_descriptors() <= descriptors


def test_a_clone_is_unlocked_when_it_is_closed(tmp_path: Path) -> None:
    descriptors = _list_descriptors()
    with Clone.open_or_create(tmp_path / "data") as clone:
        assert list_clones() == [clone]
    assert list_clones() == []
    assert _list_descriptors() <= descriptors
    Clone.open_or_create(tmp_path / "data").close()
