"""A clone of the repository of declarations, from which somebody looks at what is declared, published and observed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.uncommitted import count_differing_files
from allotment.declared.layout import ROOTS
from allotment.services.platform_settings import BranchUrls, read_branch, read_platform, resolve_branch_urls

ORIGIN = "origin"
MAX_SEARCHED = 100  # commits before one whose platform cannot be read


class DeclaredCommit(NamedTuple):
    """The commit whose declarations count: the newest of a branch of origin, or HEAD, where `branch` is empty."""

    source: CommitSource
    branch: str = ""

    @property
    def label(self) -> str:
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

    def has_remote(self, url: str) -> bool:
        """Return whether there is a remote at a URL, or of a name."""
        return url != ORIGIN or self.has_origin

    @property
    def has_origin(self) -> bool:
        """Whether this was cloned from anywhere."""
        return self.repository.git.url_of(ORIGIN) is not None

    def fetch_declared_commit(self) -> DeclaredCommit:
        """Return what is merged: the newest commit of the branch spec.git.branch of origin; HEAD where there is none.

        Raises OperationRefused where origin doesn't answer.
        """
        here = CommitSource(self.root, "HEAD", self.repository)
        if not self.has_origin:
            return DeclaredCommit(here)
        branch = read_branch(here)
        name = f"refs/heads/{branch}"
        tip = self.remote(ORIGIN).fetch(name).get(name)
        if tip is None:
            return DeclaredCommit(here)
        return DeclaredCommit(CommitSource(self.root, tip, self.repository, like=here), branch)

    def find_settings_commit(self, declared: DeclaredCommit) -> CommitSource:
        """Return the commit whose platform counts: the declared commit, or the newest before it whose platform can be
        read."""
        source = declared.source
        for _ in range(MAX_SEARCHED):
            parents = self.repository.parents(source.commit)
            if read_platform(source) is not None or not parents or not self.repository.has_object(parents[0]):
                break
            source = CommitSource(self.root, parents[0], self.repository, like=source)
        return source if read_platform(source) is not None else declared.source

    def count_differing_files(self, declared: DeclaredCommit) -> int:
        """Return how many files of this folder aren't as they are declared."""
        prefix = self.repository.folder_prefix(self.root)
        folders = [f"{prefix}/{folder}" if prefix else folder for folder in ROOTS]
        return count_differing_files(self.repository, declared.source.commit, folders)

    def resolve_urls(self, declared: DeclaredCommit) -> BranchUrls:
        """Return where it is published and reported. What came from nowhere is published where it is reported, if that
        was said."""
        where = resolve_branch_urls(self.find_settings_commit(declared), ORIGIN, status=self._status)
        return where._replace(rendered=self._status) if self._status and not self.has_origin else where
