"""Reads the newest merges that changed declarations, each commit once."""

from __future__ import annotations

from allotment.adapters.git.history import is_on_first_parents, list_first_parents
from allotment.adapters.git.repository import Repository
from allotment.declared.layout import ROOTS
from allotment.portal.pages.change_history import Merge, describe_merge

MAX_MERGES = 2_000


class MergeHistory:
    """The newest merges of a repository. Each read describes only the commits since the last read."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._commit = ""
        self._merges: tuple[Merge, ...] = ()

    def read(self, commit: str) -> tuple[Merge, ...]:
        """Return the merges up to a commit that changed declarations, the newest first, at most MAX_MERGES."""
        if commit != self._commit:
            since = self._commit if self._continues(commit) else ""
            records = list_first_parents(self._repository, commit, ROOTS, MAX_MERGES, since=since)
            merges = [describe_merge(each.commit, each.time, each.author, each.subject, each.files) for each in records]
            self._merges = (*merges, *(self._merges if since else ()))[:MAX_MERGES]
            self._commit = commit
        return self._merges

    def _continues(self, commit: str) -> bool:
        """Return whether the merges of the last read are also merges of a commit. They aren't after a push with force."""
        return (
            self._commit != ""
            and self._repository.has_object(self._commit)
            and is_on_first_parents(self._repository, self._commit, commit)
        )
