"""A user's clone of the repository of declarations, for reading the declared, the published and the observed state."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.checkout_paths import find_work_trees
from allotment.adapters.declaration_source import Source
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote, without_userinfo
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.uncommitted import count_differing_files
from allotment.branches.merged_branch import fetch_declared_branch, read_branch
from allotment.branches.platform_settings import ORIGIN, BranchUrls, read_platform, resolve_branch_urls
from allotment.declared.layout import ROOTS
from allotment.problems import OperationRefused

MAX_SEARCHED = 100  # commits that are searched for a readable Platform declaration


class DeclaredCommit(NamedTuple):
    """The commit that the declarations are read from: the tip of `branch` at origin, or HEAD if `branch` is empty.

    `missing_branch` is the branch that origin should have and lacks.
    """

    source: CommitSource
    branch: str = ""
    missing_branch: str = ""

    @property
    def label(self) -> str:
        """The commit's description for people."""
        if self.missing_branch:
            return f"HEAD ({ORIGIN} has no branch {self.missing_branch})"
        return f"{self.branch} of {ORIGIN}" if self.branch else "HEAD"


class DeclarationsClone:
    """A clone of the repository of declarations, and the remotes that it uses.

    `status` is the URL of the status branches; by default it is the declared URL.
    """

    def __init__(self, root: Path, status: str | None = None) -> None:
        self.root = root
        self.repository = Repository(root)
        self._status = status
        self._remotes: dict[str, Remote] = {}
        self._last_source: CommitSource | None = None

    def remote(self, url: str) -> Remote:
        """Return the remote with a URL.

        The clone keeps the fetched refs of the remote, so that the next fetch transfers only new objects. It keeps no refs
        of a repository that only one command names: later commands would believe them as those of the declared repository.
        Raises OperationRefused if `url` is `origin` and the clone has no remote with this name.
        """
        return self._remotes.setdefault(url, Remote(self.repository, url, keep=self._keeps_refs(url)))

    def _keeps_refs(self, url: str) -> bool:
        return url != self._status

    def refresh(self) -> None:
        """Take a new snapshot of each remote that was read. Raises OperationRefused if a remote doesn't answer."""
        for remote in self._remotes.values():
            remote.take_snapshot()

    def has_remote(self, url: str) -> bool:
        """Return False if `url` is `origin` and the clone has no remote with this name, else True."""
        return url != ORIGIN or self.has_origin

    @property
    def has_origin(self) -> bool:
        """Whether the clone has a remote named origin."""
        return self.repository.git.url_of(ORIGIN) is not None

    @property
    def origin_url(self) -> str:
        """The URL of origin without a name and a password. Raises OperationRefused if the clone has no origin."""
        if (url := self.repository.git.url_of(ORIGIN)) is None:
            raise OperationRefused(f"this clone has no remote named origin: run {self.repository.git.origin_remedy}")
        return without_userinfo(url)

    def fetch_declared_commit(self) -> DeclaredCommit:
        """Return the newest commit of the branch of declarations at origin, which origin's default branch declares.

        Later reads of origin's refs through this clone are of the same time, and need no request.
        Returns HEAD if the clone has no origin, or if origin lacks the branch. Raises OperationRefused if origin
        doesn't answer.
        """
        here = CommitSource(self.root, "HEAD", self.repository)
        if not self.has_origin:
            return DeclaredCommit(here)
        self.remote(ORIGIN).take_snapshot()
        branch = fetch_declared_branch(self.root, self.remote(ORIGIN), likely=read_branch(here))
        if branch.tip is None:
            return DeclaredCommit(here, missing_branch=branch.name)
        return DeclaredCommit(self._open_source(branch.tip, here), branch.name)

    def _open_source(self, tip: str, similar: CommitSource | None = None) -> CommitSource:
        """Return a commit. Its listing is computed from that of the last commit, or of a similar commit."""
        if self._last_source is None or self._last_source.commit != tip:
            self._last_source = CommitSource(self.root, tip, self.repository, like=self._last_source or similar)
        return self._last_source

    def find_settings_commit(self, declared: DeclaredCommit) -> CommitSource:
        """Return the commit from which the platform's settings are read.

        If the Platform declaration of the declared commit can't be read, returns the newest ancestor with a readable
        declaration. If the last MAX_SEARCHED commits have no readable declaration, returns the declared commit.
        """
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

    def start_folder_comparison(self, declared: DeclaredCommit) -> Future[int]:
        """Start a thread that counts the files in this folder that differ from the declared commit, and return its result."""
        executor = ThreadPoolExecutor(1)
        count = executor.submit(DeclarationsClone(self.root).count_differing_files, declared)
        executor.shutdown(wait=False)
        return count

    def resolve_urls(self, declared: DeclaredCommit) -> BranchUrls:
        """Return the URLs of the rendered branches and of the status branches.

        If the clone has no origin and the URL of the status branches is given, that URL is also used for the rendered
        branches. HEAD names no repository: it may hold the files of a stranger.
        """
        if not declared.branch:
            status = self._status or ORIGIN
            return BranchUrls(ORIGIN if self.has_origin else status, status)
        return resolve_branch_urls(self.find_settings_commit(declared), ORIGIN, status=self._status)


class SourceClone(DeclarationsClone):
    """A clone that a service keeps. It reads the branch `branch` of the repository `source` in place of origin."""

    has_origin = True

    def __init__(self, repository: Repository, source: str, branch: str, status: str | None = None) -> None:
        super().__init__(repository.folder, status)
        self.repository = repository
        self._source, self._branch = source, branch

    def remote(self, url: str) -> Remote:
        """Return the remote with a URL; `origin` stands for the source."""
        return super().remote(self._source if url == ORIGIN else url)

    def _keeps_refs(self, url: str) -> bool:
        return True

    def fetch_declared_commit(self) -> DeclaredCommit:
        """Return the newest commit of the branch. Raises OperationRefused if the source doesn't answer or lacks the branch."""
        name = f"refs/heads/{self._branch}"
        self.remote(ORIGIN).take_snapshot()
        tip = self.remote(ORIGIN).fetch(name).get(name)
        if tip is None:
            raise OperationRefused(f"the source has no branch {self._branch}")
        return DeclaredCommit(self._open_source(tip), self._branch)


def open_merged_source(root: Path, *, may_be_folder: bool = True) -> Source:
    """Return the merged declarations, because a branch can name other hosts.

    If the folder has no remote, return the folder, or raise OperationRefused if `may_be_folder` is false. Raises
    OperationRefused if no remote is named origin, if origin doesn't answer, or if nothing is merged.
    """
    clone = DeclarationsClone(root)
    try:
        remotes = clone.repository.git.remotes
    except OperationRefused:
        if any(find_work_trees(root)):  # a repository that Git can't read is no proof that nothing is merged
            raise
        remotes = []
    if not remotes and may_be_folder:
        return FolderSource(root)
    if not remotes or not clone.has_origin:
        raise OperationRefused(
            "the hosts come from the merged declarations of the remote origin, and this clone has none of this name:"
            f" {clone.repository.git.origin_remedy}"
        )
    declared = clone.fetch_declared_commit()
    if not declared.branch:
        raise OperationRefused(f"the hosts come from the merged declarations, and {declared.label} is not merged")
    return declared.source
