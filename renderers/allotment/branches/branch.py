"""Reads a branch that only Allotment should write, and creates the next commit on top of its tip."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from allotment.adapters.git.commits import NULL_COMMIT, CommitMessage, write_commit
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import MalformedTree
from allotment.problems import OperationRefused

MAX_CLOCK_SKEW = 300.0  # seconds that the clock of another publisher may be ahead


class Branch:
    """A cluster's branch at a remote: its tip, its last published commit, and its last approved commit.

    An approved commit contains a mass deletion that an approval let past the brake.

    - `now_at` maps the path at which a file was published to the current path of the file, because an older version of
      Allotment may have published it at another path.
    - `forged` is the target of the published ref if Allotment knows that it did not write this target, else None.
    - `adopted` is true if the platform declares a key, and a person accepts the branch as Allotment's own
      (`allot publish --adopt`). In this case, the next commit is created even if no file changed, so that the last
      commit has the signature of the key.
    - `signed` is true if the platform declares the publisher's key.
    """

    def __init__(
        self,
        repository: Repository,
        cluster: str,
        tip: str | None,
        published: str | None,
        approved: str | None,
        now_at: Callable[[str], str] = str,
        *,
        forged: str | None = None,
        adopted: bool = False,
        signed: bool = False,
    ) -> None:
        self._requires_signature = signed
        self._current_path = now_at
        self._repository = repository
        self.cluster = cluster
        self.tip = tip
        self.published_commit = published
        self.approved_commit = approved
        self.forged_commit = forged
        self._is_adopted = adopted
        self._prefetched: dict[str, bytes] = {}

    @cached_property
    def files(self) -> dict[str, str]:
        """The blob of every published file, by its current path."""
        return {self._current_path(path): blob for path, blob in self._published_blobs.items()}

    @cached_property
    def _published_blobs(self) -> Mapping[str, str]:
        """The blob of every published file, by the path at which it was published."""
        return self._repository.listing(self.published_commit) if self.published_commit else {}

    def read(self, path: str) -> bytes:
        """Return the bytes of a published file."""
        blob = self.files[path]
        data = self._prefetched.get(blob)
        return self._repository.read(blob) if data is None else data

    def prefetch(self, paths: Iterable[str]) -> None:
        """Read published files with one request, for later calls of `read`. Paths without a file are ignored.

        Drops the files of the previous prefetch, so the caller limits the memory by the number of paths. A file of more
        than MAX_PREFETCH_BYTES is read only by `read`.
        """
        self._prefetched = self._repository.read_small([self.files[path] for path in paths if path in self.files])

    def read_all(self, paths: Sequence[str]) -> list[bytes]:
        """Return the bytes of several published files with one request."""
        return self._repository.read_all([self.files[path] for path in paths])

    def read_blob(self, blob: str) -> bytes:
        """Return the bytes of a blob."""
        return self._repository.read(blob)

    def history(self, most: int) -> Iterator[str]:
        """Yield the last published commit and the commits before it: at most `most` commits, the newest first.

        Follows only the last parent of each commit, because the other parents may be foreign commits.
        """
        commit = self.published_commit
        for _ in range(most):
            if commit is None:
                return
            yield commit
            commit = next(reversed(self._repository.parents(commit)), None)

    def tree_of(self, commit: str, folder: str) -> str | None:
        """Return the id of a folder's tree in a commit of Allotment; None if there is no such folder."""
        return self._repository.tree_of(commit, folder)

    def listing(self, commit: str, folder: str) -> Mapping[str, str]:
        """Return, by path, the blobs of all files below a folder in a commit of Allotment."""
        return self._repository.listing(commit, folder)

    @property
    def foreign_commit(self) -> str | None:
        """The foreign commit at the tip of the branch or at the published ref; None if neither is a foreign commit."""
        return self.forged_commit or (self.tip if self.tip != self.published_commit and not self.is_behind else None)

    @cached_property
    def is_behind(self) -> bool:
        """Whether the branch is behind the last published commit: somebody reset it, or a push did not move it."""
        if self.tip is None or self.published_commit is None or self.tip == self.published_commit:
            return False
        return self._repository.is_ancestor(self.tip, self.published_commit)

    @cached_property
    def fault(self) -> str:
        """The change of somebody else to the branch since the last publish, as words after its name; empty if nobody changed it."""
        if self.foreign_commit is not None:
            may_be_ours = not (self._requires_signature or self.forged_commit) and self._follows_publish()
            unless = ", unless a push was interrupted" if may_be_ours else ""
            return f"has the commit {self.foreign_commit[:12]}, which Allotment didn't write{unless}"
        if self.published_commit is None or self.tip == self.published_commit:
            return ""
        state = "is gone" if self.tip is None else "is behind the last publish"
        return f"{state}: a push was interrupted, or somebody {'deleted' if self.tip is None else 'reset'} the branch"

    def _follows_publish(self) -> bool:
        """Return whether the last published commit is the only parent of the tip, as after an interrupted push."""
        try:
            return self.tip is not None and self._repository.parents(self.tip) == [self.published_commit]
        except OperationRefused:
            return False

    def is_interrupted(self, files: Mapping[str, str], message: CommitMessage) -> bool:
        """Return whether the tip is the commit that this publish would create.

        This is the case after an interrupted push, which moved the branch but not the published ref. The tip must have
        the parent, the files, the message and the author of the new commit, and a commit time between the last
        published commit and now. If a key is declared, always return False, because only a signature proves that
        Allotment wrote the tip.
        """
        if (
            self.tip is None
            or self.published_commit is None
            or self.forged_commit
            or self.tip == self.published_commit
            or self._requires_signature
        ):
            return False
        repository = self._repository
        try:
            if repository.parents(self.tip) != [self.published_commit] or repository.author(self.tip) != message.author:
                return False
            earliest, tip_time = repository.committed_at(self.published_commit), repository.committed_at(self.tip)
            if not earliest <= tip_time <= time.time() + MAX_CLOCK_SKEW:
                return False
            return repository.trees.message(self.tip) == message.text.encode() and self.has_files(files)
        except OperationRefused:
            return False

    def has_files(self, files: Mapping[str, str]) -> bool:
        """Return whether the tip of the branch has exactly `files`, which maps each path to its blob."""
        try:
            return self.tip is not None and self._repository.listing(self.tip) == files
        except (LimitExceeded, OperationRefused):
            return False

    @property
    def invalid_published_ref(self) -> str | None:
        """The target of the published ref, if this object is no commit and can't be a parent of a commit; else None."""
        return (
            self.forged_commit
            if self.forged_commit and self._repository.peel_to_commit(self.forged_commit) is None
            else None
        )

    def files_before(self, seconds: float) -> Iterable[str]:
        """Return the paths that were published `seconds` ago.

        If the last approved commit was published after that time, return the paths of the approved commit.

        The last parent of each commit is the commit that Allotment published before, so the search follows the last
        parents. Only the last parent of Allotment's first commit may be a foreign commit. If the first commit was
        published after that time and has no parent, return its paths. Otherwise, the search continues at its foreign
        parent.
        """
        commit, moment = self.published_commit, time.time() - seconds
        while commit is not None and commit != self.approved_commit and self._repository.committed_at(commit) > moment:
            parents = self._repository.parents(commit)
            if not parents:
                break
            commit = parents[-1]
        return [self._current_path(path) for path in self._repository.listing(commit)] if commit else []

    def compare_files(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return A, M or D (added, changed, removed) for each path at which `files` differ from the published files.

        The result is sorted by path. If a file was published at another path than its current path, both paths are in
        the result.
        """
        return compare_blobs(self._published_blobs, files)

    def create_commit(
        self, files: Mapping[str, str], changed: Mapping[str, str], data: Mapping[str, bytes], message: CommitMessage
    ) -> str:
        """Create a commit with exactly `files` (blobs by path) on top of the branch's tip, and return the commit.

        `changed` is the result of `compare_files`. `data` has the bytes of new or changed files, by path; the
        repository must have the blobs of all other files. If no file changed, return the last published commit, unless there is a foreign commit or the branch is adopted.

        If the tip or the published ref is foreign, the parents are the tip, a foreign commit at the published ref, and
        the last published commit. The branch and the published ref can then both move forwards to the new commit.
        """
        parents, base = [self.published_commit] if self.published_commit else [], ""
        if self.forged_commit or not self._is_continued():
            candidates = (
                self.tip,
                self.forged_commit and self._repository.peel_to_commit(self.forged_commit),
                self.published_commit,
            )
            parents, base = (
                [parent for parent in dict.fromkeys(candidates) if parent],
                self.published_commit or NULL_COMMIT,
            )
        elif self.published_commit is not None and not changed and not self._is_adopted:
            return self.published_commit
        changes = {
            path: None if letter == "D" else data[path] if path in data else files[path]
            for path, letter in changed.items()
        }
        return write_commit(self._repository, parents, changes, message, base)

    def foreign_folders(self) -> set[str]:
        """Return the folders in which a foreign tip of the branch differs from the published files.

        If the files of the tip cannot be read, return all published folders.
        """
        if self._is_continued():
            return set()
        assert self.tip is not None
        try:
            tip_files = self._repository.listing(self.tip)
        except (MalformedTree, LimitExceeded):
            tip_files = {}
        return {path.rpartition("/")[0] for path in compare_blobs(tip_files, self._published_blobs)}

    def _is_continued(self) -> bool:
        """Return whether the branch is at the last published commit, or behind it."""
        if self.tip is None or self.tip == self.published_commit:
            return True
        return self.published_commit is not None and self._repository.is_ancestor(self.tip, self.published_commit)


def compare_blobs(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return A, M or D (added, changed, removed) for each path at which two trees differ, sorted by path."""
    changes = dict.fromkeys(before.keys() - after.keys(), "D")
    changes |= {path: "M" if path in before else "A" for path, blob in after.items() if before.get(path) != blob}
    return dict(sorted(changes.items()))
