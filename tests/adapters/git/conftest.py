"""What tests of Git share: an identity to commit under, and nothing of the machine's own configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.repository import Repository

SAID = CommitMessage("Publish", "Ada Löwe <ada@northlight.example> 1767225600 +0100".encode())


def git(folder: Path, *words: str) -> str:
    """Return what Git says in a folder."""
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_NAME", "allotment")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "allotment@northlight.example")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


def new_repository(folder: Path) -> Repository:
    """Return an empty repository with a work tree."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return Repository(folder)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Return an empty repository, the one that the program works in."""
    with new_repository(tmp_path / "here") as empty:
        yield empty
