"""Finds the first use of an operation ID, and compares it with a repeated command.

The comparison builds the change again, on top of the commit that the first use changed. The same command gives the same
files there. The answer therefore depends only on the commits of the repository, and not on the clone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.history import find_files_with, find_first_change, list_commits_with_message
from allotment.adapters.git.repository import Repository
from allotment.declared.layout import ROOTS
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.operation_id import BuildChange, add_operation_id, field_pattern, has_trailer, trailer_pattern
from allotment.problems import OperationRefused, quote_value
from allotment.services.changes.branch_change import BaseCommit
from allotment.services.changes.declared_files import open_declarations

_PULL_NUMBER = re.compile(r" \([#!][0-9]{1,9}\)\Z")  # forges add it to the title of a squash commit
MAX_BRANCH_COMMITS = 100  # commits of a branch that are searched for the commit of an operation


class OperationUse(NamedTuple):
    """The first use of an operation ID: its commit, and the place of the commit for people, such as `branch main`.

    `is_own_commit` is False if a squash merge replaced the commit of the operation. `is_committed` is False if the
    change is in uncommitted files of the folder; then `commit` is HEAD. `tip` is the last commit of the branch that the
    operation pushed; empty for a use in the history.
    """

    commit: str
    place: str
    is_own_commit: bool
    is_committed: bool = True
    tip: str = ""


class OperationConflict(OperationRefused):
    """The operation ID belongs to another change."""


class RepeatedChange(NamedTuple):
    """A change that an earlier command applied: its files, and their former contents."""

    change_set: ChangeSet
    before: dict[str, bytes | None]
    use: OperationUse


class OperationFinder:
    """Searches a repository for the first use of an operation ID.

    `target` is the tip of the history that contains the parents of all uses.
    """

    def __init__(self, root: Path, repository: Repository, operation_id: str, target: str) -> None:
        self._root, self._repository, self._id = root, repository, operation_id
        self._target = BaseCommit(root, repository, target)

    def find_in_branch(self, head: str, place: str) -> OperationUse | None:
        """Return the use in a branch that an operation pushed, with tip `head`. Later commits of the branch may follow."""
        for commit in self._repository.list_ancestors(head, MAX_BRANCH_COMMITS):
            if has_trailer(self._message(commit), self._id):
                return OperationUse(commit, place, True, tip=head)
        return None

    def find_in_history(self, tip: str, read_paths: Iterable[str], place: str) -> OperationUse | None:
        """Return the use in the history of `tip`.

        The ID is searched in the declarations of `tip`, in the history of these files and of `read_paths`, and in the
        trailers of commit messages.
        """
        prefix = self._repository.folder_prefix(self._root)
        inner = f"{prefix}/" if prefix else ""
        pattern = field_pattern(self._id)
        paths = {f"{inner}{path}" for path in read_paths}
        paths.update(find_files_with(self._repository, tip, pattern, [f"{inner}{folder}" for folder in ROOTS]))
        commit, change = self._find_first_message(tip), find_first_change(self._repository, tip, pattern, paths)
        # A merge brings the file and the commit of the operation. That commit also has the subject of its command.
        if change is not None and (commit is None or not self._repository.is_ancestor(commit, change)):
            commit = change
        if commit is None:
            return None
        return OperationUse(commit, place, has_trailer(self._message(commit), self._id))

    def repeat(self, use: OperationUse, build: BuildChange) -> RepeatedChange:
        """Return the change of a use.

        Raises OperationConflict if `build` does not give the same change, or if the commit of the operation has more
        content than the change.
        """
        repeated = self._rebuild(use, build)
        if repeated is None:
            subject = quote_value(self._repository.subject(use.commit))
            raise OperationConflict(
                f"the operation ID {quote_value(self._id)} belongs to another change: {subject} in {use.place}: repeat that"
                " command, or choose a new ID"
            )
        if use.is_own_commit and not self._target.has_only_change(use.commit, repeated.change_set):
            raise OperationConflict(
                f"{use.place} has a commit of the operation ID {quote_value(self._id)} with other content than this change:"
                " delete the branch, or choose a new ID"
            )
        return repeated

    def repeat_in_folder(
        self, folder: Declarations, paths: Iterable[str], head: str, build: BuildChange
    ) -> RepeatedChange | None:
        """Return the change of a use that is in uncommitted files of the folder; None if no file has the ID.

        Raises OperationConflict if `build` does not give the same files from the commit `head`.
        """
        line = re.compile(field_pattern(self._id).encode(), re.MULTILINE)
        changed = [path for path in sorted(paths) if line.search(folder.read(path) or b"")]
        if not changed:
            return None
        use = OperationUse(head, f"the uncommitted file {changed[0]}", False, False)
        repeated = self._rebuild_on(head, folder, use, build)
        if repeated is None:
            raise OperationConflict(
                f"the operation ID {quote_value(self._id)} belongs to another change, in {use.place}: repeat that command, or"
                " choose a new ID"
            )
        return repeated

    def _rebuild(self, use: OperationUse, build: BuildChange) -> RepeatedChange | None:
        parents = self._repository.parents(use.commit)
        applied = open_declarations(CommitSource(self._root, use.commit, self._repository))
        return self._rebuild_on(parents[0], applied, use, build) if parents else None

    def _rebuild_on(
        self, base: str, applied: Declarations, use: OperationUse, build: BuildChange
    ) -> RepeatedChange | None:
        """Return the change of `base`; None if `applied` has other files."""
        declarations = open_declarations(CommitSource(self._root, base, self._repository))
        try:
            change_set = build(declarations)
        except OperationRefused:
            return None
        before = {path: declarations.read(path) for path in change_set.files}
        changed = {path: data for path, data in change_set.files.items() if data != before[path]}
        change_set = change_set._replace(files=add_operation_id(changed, self._id))
        subject = _PULL_NUMBER.sub("", self._repository.subject(use.commit))
        if use.is_own_commit and subject != change_set.title:
            return None
        if not changed or any(applied.read(path) != data for path, data in change_set.files.items()):
            return None
        return RepeatedChange(change_set, before, use)

    def _find_first_message(self, tip: str) -> str | None:
        commits = list_commits_with_message(self._repository, tip, trailer_pattern(self._id))
        return next((commit for commit in commits if has_trailer(self._message(commit), self._id)), None)

    def _message(self, commit: str) -> str:
        return self._repository.trees.message(commit).decode("utf-8", "replace")
