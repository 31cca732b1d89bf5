"""A user's clone of the repository of declarations, for reading the declared, the published and the observed state."""

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
MAX_SEARCHED = 100  # commits, to find the newest with a readable platform


class DeclaredCommit(NamedTuple):
    """The commit of the declarations: the newest of a branch of origin, or HEAD if `branch` is empty."""

    source: CommitSource
    branch: str = ""

    @property
    def label(self) -> str:
        """The commit's description for people."""
        return f"{self.branch} of {ORIGIN}" if self.branch else "HEAD"


class Clone:
    """A clone of the repository of declarations, and the remotes that it uses.

    `status` is the URL of the status branches; by default it is the declared URL.
    """

    def __init__(self, root: Path, status: str | None = None) -> None:
        self.root = root
        self.repository = Repository(root)
        self._status = status
        self._remotes: dict[str, Remote] = {}

    def remote(self, url: str) -> Remote:
        """Return a remote. The clone remembers its refs, so that a fetch transfers only new objects."""
        return self._remotes.setdefault(url, Remote(self.repository, url, keep=True))

    def has_remote(self, url: str) -> bool:
        """Return whether a remote exists, by its URL or name."""
        return url != ORIGIN or self.has_origin

    @property
    def has_origin(self) -> bool:
        """Whether the clone has a remote named origin."""
        return self.repository.git.url_of(ORIGIN) is not None

    def fetch_declared_commit(self) -> DeclaredCommit:
        """Return the newest commit of the branch spec.git.branch of origin; HEAD if there is none.

        Raises OperationRefused if origin doesn't answer.
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
        """Return the commit that the platform's settings come from: the declared commit, or its newest ancestor with a
        readable platform."""
        source = declared.source
        for _ in range(MAX_SEARCHED):
            parents = self.repository.parents(source.commit)
            if read_platform(source) is not None or not parents or not self.repository.has_object(parents[0]):
                break
            source = CommitSource(self.root, parents[0], self.repository, like=source)
        return source if read_platform(source) is not None else declared.source

    def count_differing_files(self, declared: DeclaredCommit) -> int:
        """Return the number of files in this folder that differ from the declared commit."""
        prefix = self.repository.folder_prefix(self.root)
        folders = [f"{prefix}/{folder}" if prefix else folder for folder in ROOTS]
        return count_differing_files(self.repository, declared.source.commit, folders)

    def resolve_urls(self, declared: DeclaredCommit) -> BranchUrls:
        """Return the URLs that the declarations are published and reported to.

        Without origin, the rendered branches are at the given URL of the status branches, if any.
        """
        where = resolve_branch_urls(self.find_settings_commit(declared), ORIGIN, status=self._status)
        return where._replace(rendered=self._status) if self._status and not self.has_origin else where
