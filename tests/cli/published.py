"""A repository of declarations with a remote to publish to, for tests of `allot publish` and `allot run`."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, Result

DATE = "GIT_COMMITTER_DATE"


def git(folder: Path, *words: str) -> str:
    """Return what Git says in a folder."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Place:
    """A source repository and the bare repository it is published to."""

    def __init__(self, root: Path, remote: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.remote = remote
        self._allot = allot
        self._monkeypatch = monkeypatch
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
        git(root, "init", "-q", "-b", "main")
        git(root, "remote", "add", "origin", str(remote))
        self.merge()

    def merge(self) -> str:
        """Commit what the folder holds, as somebody's merge, and push it; return the commit."""
        git(self.root, "add", "-A")
        author = ["-c", "user.name=Ada Löwe", "-c", "user.email=ada@northlight.example"]
        git(self.root, *author, "commit", "-q", "--allow-empty", "-m", "Merge")
        git(self.root, "push", "-q", "origin", "main")
        return git(self.root, "rev-parse", "HEAD")

    def publish(self, *words: object, hours_ago: float = 0) -> Result:
        """Publish, as if it were some hours ago."""
        with self._monkeypatch.context() as patch:
            if hours_ago:
                patch.setenv(DATE, f"{int(time.time() - hours_ago * 3600)} +0000")
            return self._allot("publish", "--repo", self.root, "--as-of", DAY, *words)

    def merged(self, *words: object, hours_ago: float = 0) -> Result:
        """Merge and publish."""
        self.merge()
        return self.publish(*words, hours_ago=hours_ago)

    def refs(self) -> dict[str, str]:
        """Return the remote's refs but for the source's branch."""
        lines = git(self.remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {name: commit for name, commit in (line.split() for line in lines) if name != "refs/heads/main"}

    def tree(self, cluster: str) -> dict[str, str]:
        """Return the texts of a rendered branch by path."""
        names = git(self.remote, "ls-tree", "-r", "--name-only", f"rendered/{cluster}").splitlines()
        return {name: git(self.remote, "show", f"rendered/{cluster}:{name}") + "\n" for name in names}

    def log(self, cluster: str, style: str) -> list[str]:
        """Return a line for each commit of a rendered branch, the newest first."""
        return git(self.remote, "log", f"--format={style}", f"rendered/{cluster}").splitlines()

    def fork(self, folder: Path) -> Place:
        """Return another clone of the same source, with the same remote."""
        shutil.copytree(self.root, folder)
        other = object.__new__(Place)
        other.root, other.remote = folder, self.remote
        other._allot, other._monkeypatch = self._allot, self._monkeypatch
        return other
