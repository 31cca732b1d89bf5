"""A clone of the repository of declarations, from which somebody looks at what is declared, published and observed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.uncommitted import differing
from allotment.declared.layout import ROOTS
from allotment.pipeline.declared import Places, branch_of, places, platform_of

ORIGIN = "origin"
MOST_SEARCHED = 100  # commits before one whose platform cannot be read


class DeclaredCommit(NamedTuple):
    """The commit whose declarations count: the newest of a branch of origin, or HEAD, where `branch` is empty."""

    source: CommitSource
    branch: str = ""

    @property
    def words(self) -> str:
        """Which commit that is."""
        return f"{self.branch} of {ORIGIN}" if self.branch else "HEAD"


class Clone:
    """A clone of the repository of declarations, and the remotes that it knows. `status` is the URL of the status
    branches, if it isn't the declared one."""

    def __init__(self, root: Path, status: str | None = None) -> None:
        self.root = root
        self.repository = Repository(root)
        self._status = status
        self._remotes: dict[str, Remote] = {}

    def remote(self, url: str) -> Remote:
        """Return a remote whose refs are remembered here, so that only what is new comes."""
        return self._remotes.setdefault(url, Remote(self.repository, url, keep=True))

    def knows(self, url: str) -> bool:
        """Return whether there is a remote at a URL, or of a name."""
        return url != ORIGIN or self.has_origin

    @property
    def has_origin(self) -> bool:
        """Whether this was cloned from anywhere."""
        return self.repository.git.url_of(ORIGIN) is not None

    def declared(self) -> DeclaredCommit:
        """Return what is merged: the newest commit of the branch spec.git.branch of origin; HEAD where there is none.

        Raises Refused where origin doesn't answer.
        """
        here = CommitSource(self.root, "HEAD", self.repository)
        if not self.has_origin:
            return DeclaredCommit(here)
        branch = branch_of(here)
        name = f"refs/heads/{branch}"
        tip = self.remote(ORIGIN).fetch(name).get(name)
        if tip is None:
            return DeclaredCommit(here)
        return DeclaredCommit(CommitSource(self.root, tip, self.repository, like=here), branch)

    def settings(self, declared: DeclaredCommit) -> CommitSource:
        """Return the commit whose platform counts: the declared commit, or the newest before it whose platform can be
        read."""
        source = declared.source
        for _ in range(MOST_SEARCHED):
            parents = self.repository.parents(source.commit)
            if platform_of(source) is not None or not parents or not self.repository.has(parents[0]):
                break
            source = CommitSource(self.root, parents[0], self.repository, like=source)
        return source if platform_of(source) is not None else declared.source

    def differing(self, declared: DeclaredCommit) -> int:
        """Return how many files of this folder aren't as they are declared."""
        prefix = self.repository.top(self.root)
        folders = [f"{prefix}/{folder}" if prefix else folder for folder in ROOTS]
        return differing(self.repository, declared.source.commit, folders)

    def places(self, declared: DeclaredCommit) -> Places:
        """Return where it is published and reported. What came from nowhere is published where it is reported, if that
        was said."""
        where = places(self.settings(declared), ORIGIN, status=self._status)
        return where._replace(rendered=self._status) if self._status and not self.has_origin else where
