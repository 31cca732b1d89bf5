"""A commit of a whole folder."""

from __future__ import annotations

from pathlib import Path

import git


def commit(root: Path) -> str:
    with git.Repo.init(root, initial_branch="main") as repo:
        with repo.config_writer() as config:
            config.set_value("user", "name", "Test")
            config.set_value("user", "email", "test@example.invalid")
        repo.git.add(all=True)
        repo.index.commit("state")
        return str(repo.head.commit.hexsha)
