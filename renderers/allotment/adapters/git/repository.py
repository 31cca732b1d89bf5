"""A Git repository on this machine: opened once a process, names resolved, nothing checked out."""

from __future__ import annotations

import os
from pathlib import Path

import git

from allotment.problems import Refused


class Repository:
    """The repository around a folder. Raises Refused, when it is first used, where there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: tuple[int, git.Repo] | None = None

    def open(self) -> git.Repo:
        """Return GitPython's object, one a process: the pipe to Git's object reader can't be shared after a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                found = git.Repo(self.folder, search_parent_directories=True)
            except (git.InvalidGitRepositoryError, git.NoSuchPathError):
                raise Refused(f"{self.folder} is in no Git repository, so there is no commit to read") from None
            self._opened = (os.getpid(), found)
        return self._opened[1]

    def resolve(self, name: str, otherwise: str) -> str:
        """Return the id of the commit or tree that a name means. Raises Refused with the words of `otherwise`."""
        if "\n" in name or "\0" in name:
            raise Refused(otherwise)
        process = self.open().git.cat_file("--batch-check", as_process=True, istream=-1)
        out, _ = process.communicate(name.encode() + b"\n")
        answer = out.decode("utf-8", "replace").split()
        if len(answer) != 3 or answer[1] not in ("commit", "tree"):
            raise Refused(otherwise)
        return str(answer[0])
