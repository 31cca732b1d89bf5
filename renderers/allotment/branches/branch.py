"""A branch that only we write: what it holds, which commit of it is ours, and the next commit on top of whatever is
there."""

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
    """One cluster's branch as the remote had it: its tip, our last commit there, the last approved one.

    `now_at` returns where a file lies now that an older version of ours may have published elsewhere.
    `forged` is what somebody else pointed the ref of our last one at, where that is known to be no commit of ours;
    `adopted` says that our last one lacks the signature of that key, so that the next is made whether anything
    changed or not. `signed` says that the platform declares the publisher's key.
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

    @cached_property
    def files(self) -> dict[str, str]:
        """The blob of every file that we published, by the path that it has now."""
        return {self._current_path(path): blob for path, blob in self._published_blobs.items()}

    @cached_property
    def _published_blobs(self) -> Mapping[str, str]:
        """The blob of every file that we published, by the path that it was published at."""
        return self._repository.listing(self.published_commit) if self.published_commit else {}

    def read(self, path: str) -> bytes:
        """Return the bytes of a file that we published."""
        return self._repository.read(self.files[path])

    def read_all(self, paths: Sequence[str]) -> list[bytes]:
        """Return the bytes of some files that we published, asked for at once."""
        return self._repository.read_all([self.files[path] for path in paths])

    def read_blob(self, blob: str) -> bytes:
        """Return the bytes of a blob."""
        return self._repository.read(blob)

    def history(self, most: int) -> Iterator[str]:
        """Yield our commits, the newest first: each follows its last parent, whatever else it has as a parent."""
        commit = self.published_commit
        for _ in range(most):
            if commit is None:
                return
            yield commit
            commit = next(reversed(self._repository.parents(commit)), None)

    def tree_of(self, commit: str, folder: str) -> str | None:
        """Return the id of a folder's tree in one of our commits; None where there is no such folder."""
        return self._repository.tree_of(commit, folder)

    def listing(self, commit: str, folder: str) -> Mapping[str, str]:
        """Return the blob of every file of a folder in one of our commits, by path."""
        return self._repository.listing(commit, folder)

    @property
    def foreign_commit(self) -> str | None:
        """The commit, at the branch or at our ref, that isn't ours; None where all is as we left it, or the branch lags."""
        return self.forged_commit or (self.tip if self.tip != self.published_commit and not self.is_behind else None)

    @cached_property
    def is_behind(self) -> bool:
        """Whether the branch is behind our last commit: a push was interrupted between two refs, or somebody put it back."""
        if self.tip is None or self.published_commit is None or self.tip == self.published_commit:
            return False
        return self._repository.is_ancestor(self.tip, self.published_commit)

    def is_interrupted(self, files: Mapping[str, str], message: CommitMessage) -> bool:
        """Return whether the tip is the very commit that a publish would make: a push moved the branch, and was interrupted
        before it moved our ref. Its parent, files, message and author are compared; its time must lie between our last commit
        and now. Where a key is declared, its signature alone proves that a commit is ours."""
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
        """Return whether the branch's tip has exactly these files, blobs by path."""
        try:
            return self.tip is not None and self._repository.listing(self.tip) == files
        except (LimitExceeded, OperationRefused):
            return False

    @property
    def invalid_published_ref(self) -> str | None:
        """What the ref of our last commit holds, where that is no commit that the next could follow."""
        return (
            self.forged_commit
            if self.forged_commit and self._repository.peel_to_commit(self.forged_commit) is None
            else None
        )

    def files_before(self, seconds: float) -> Iterable[str]:
        """Return the paths that were published so long ago, or first, or when an approval was used since.

        Our commits are followed by their last parent, which is always ours once there is one.
        """
        commit, moment = self.published_commit, time.time() - seconds
        while commit is not None and commit != self.approved_commit and self._repository.committed_at(commit) > moment:
            parents = self._repository.parents(commit)
            if not parents:
                break
            commit = parents[-1]
        return [self._current_path(path) for path in self._repository.listing(commit)] if commit else []

    def compare_files(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return A, M or D (added, changed, removed) for each path by which `files` differ from what we published,
        sorted.

        A file that only lies elsewhere now is among them, at both places.
        """
        return _compare_blobs(self._published_blobs, files)

    def create_commit(
        self, files: Mapping[str, str], changed: Mapping[str, str], data: Mapping[str, bytes], message: CommitMessage
    ) -> str:
        """Return a commit that holds exactly `files` (blobs by path), on top of whatever is there.

        `changed` is what `changed` says of them, `data` has the bytes of those that we hadn't published so. Where
        the branch holds a commit of somebody else's, ours has it and our last one as parents, so that both refs
        move forwards.
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
            path: None if letter == "D" else data[path] if path in data else self.read(path)
            for path, letter in changed.items()
        }
        return write_commit(self._repository, parents, changes, message, base)

    def foreign_folders(self) -> set[str]:
        """Return the folders in which a commit of somebody else's, on top of ours, holds anything else than we
        published: all of them where it can't be read."""
        if self._is_continued():
            return set()
        assert self.tip is not None
        try:
            tip_files = self._repository.listing(self.tip)
        except (MalformedTree, LimitExceeded):
            tip_files = {}
        return {path.rpartition("/")[0] for path in _compare_blobs(tip_files, self._published_blobs)}

    def _is_continued(self) -> bool:
        """Return whether the branch is where we left it, or behind."""
        if self.tip is None or self.tip == self.published_commit:
            return True
        return self.published_commit is not None and self._repository.is_ancestor(self.tip, self.published_commit)


def _compare_blobs(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    changes = dict.fromkeys(before.keys() - after.keys(), "D")
    changes |= {path: "M" if path in before else "A" for path, blob in after.items() if before.get(path) != blob}
    return dict(sorted(changes.items()))
