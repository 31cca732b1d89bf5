"""The place that a command changes: the folder with its uncommitted files, or the target branch of pull requests."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.git.checkout import require_branch
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.overlay_source import OverlaySource
from allotment.branches.merged_branch import fetch_declared_branch
from allotment.diff.change_plan import ChangePlan
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import BuildChange, add_operation_id, list_read_paths, name_operation_branch
from allotment.problems import OperationRefused, Problem, quote_value
from allotment.services.changes.branch_change import BaseCommit, PushedBranch, push_change, push_operation
from allotment.services.changes.declared_files import open_declarations
from allotment.services.changes.folder_change import FolderChange
from allotment.services.changes.folder_comparison import FolderComparison
from allotment.services.changes.operations import OperationFinder, OperationUse, RepeatedChange
from allotment.services.check.check_options import OpenCache
from allotment.services.check.repository_check import check_repository
from allotment.services.pull_requests.change_plan import plan_files

ChooseDay = Callable[[Source], datetime.date]


class PlanCaches(NamedTuple):
    """The caches of the plans of one repository: the checks of its tenants, and the listing of its last commit."""

    open_checks: OpenCache
    open_listings: OpenCache


class PlannedChange(NamedTuple):
    """A change with its effects. `before` has the former content of each changed file; None if the file is new.

    `plan` is None if the repository has no commit yet. `errors` are the errors that the change causes.
    """

    change_set: ChangeSet
    before: dict[str, bytes | None]
    plan: ChangePlan | None
    errors: tuple[Problem, ...]


class FolderTarget:
    """The work tree `root`, with its uncommitted files."""

    def __init__(
        self,
        root: Path,
        choose_day: ChooseDay,
        caches: PlanCaches,
        comparison: FolderComparison,
        operation_id: str = "",
    ) -> None:
        self._root, self._choose_day, self._caches = root, choose_day, caches
        self._comparison = comparison
        self._contents: dict[str, bytes | None] = {}  # of the files in the folder when the change was planned
        self._operation_id = operation_id
        self.repository = Repository(root)
        self._source = FolderSource(root)
        self._change = FolderChange(root, self.repository)
        self.declarations = open_declarations(self._source)

    def plan(self, change_set: ChangeSet, *, commits: bool = False) -> PlannedChange:
        """Return the effects of a change of the folder.

        With `commits`, the change is compared with HEAD, because its commit leaves all other uncommitted files out. So the
        change also has the files that an earlier command wrote to the folder. Raises OperationRefused if no branch is
        checked out then.
        """
        former = open_declarations(self._open_head()) if commits else self.declarations
        before = {path: former.read(path) for path in change_set.files}
        changed = _finish(change_set, before, self._operation_id)
        self._contents = {path: self.declarations.read(path) for path in change_set.files}
        self._change.check(change_set.files)
        for path in change_set.files.keys() - changed.files.keys():
            if commits and self._contents[path] != before[path]:
                raise OperationRefused(
                    f"{path} has uncommitted changes of an earlier command, and HEAD has these values already: run the command"
                    " without --commit"
                )
        if not self.repository.has_commits():
            return PlannedChange(changed, before, None, self._find_errors(changed))
        plan = plan_files(
            self._root,
            self.repository.resolve_named_commit("HEAD"),
            changed.files,
            self._choose_day(self._source),
            with_folder=bool(self._comparison.result()) and not commits,
            open_cache=self._caches.open_checks,
            open_listings=self._caches.open_listings,
        )
        return PlannedChange(changed, before, plan, plan.errors)

    def build_for_commit(self, build: BuildChange) -> ChangeSet:
        """Return the change of HEAD if the folder has at most this change, and otherwise the change of the folder.

        So a command with `--commit` commits the files that the same command wrote to the folder before.
        """
        head = open_declarations(self._open_head())
        try:
            change_set = build(head)
        except OperationRefused:
            return build(self.declarations)
        read = self.declarations.read
        self._change.find_written({path: data for path, data in change_set.files.items() if head.read(path) is None})
        is_whole = all(read(path) in (head.read(path), data) for path, data in change_set.files.items())
        return change_set if is_whole else build(self.declarations)

    def write(self, planned: PlannedChange) -> None:
        """Write the files of the change that was planned last. Raises OperationRefused if a file changed since the plan."""
        self._change.write(planned.change_set.files, self._contents)

    def _open_head(self) -> CommitSource:
        require_branch(self.repository)
        return CommitSource(self._root, "HEAD", self.repository)

    def commit(self, change_set: ChangeSet) -> str:
        """Commit the written files of a change on the checked-out branch, and return the commit."""
        return self._change.commit(change_set, self._operation_id)

    def find_repeated(self, build: BuildChange) -> RepeatedChange | None:
        """Return the change of an earlier command, from the history of HEAD or the uncommitted files."""
        if not self.repository.has_commits():
            return None
        head = self.repository.resolve_named_commit("HEAD")
        finder = OperationFinder(self._root, self.repository, self._operation_id, head)
        paths = list_read_paths(self.declarations, build)
        use = finder.find_in_history(head, paths, "the history of HEAD")
        return finder.repeat(use, build) if use else finder.repeat_in_folder(self.declarations, paths, head, build)

    def _find_errors(self, change_set: ChangeSet) -> tuple[Problem, ...]:
        """Return the errors in the changed files, in a repository without a commit."""
        source = OverlaySource(
            self._source, {path: data for path, data in change_set.files.items() if data is not None}
        )
        check = check_repository(source, self._choose_day(source))
        return tuple(problem for problem in check.errors if problem.touches(list(change_set.files)))


class BranchTarget:
    """The target branch of pull requests, as the remote has it. The work tree has no influence on it."""

    def __init__(
        self, root: Path, remote: Remote, choose_day: ChooseDay, caches: PlanCaches, operation_id: str = ""
    ) -> None:
        self._root, self._choose_day, self._caches = root, choose_day, caches
        self.operation_id = operation_id
        self.repository, self.remote = remote.repository, remote
        self.branch = fetch_declared_branch(root, remote).name
        self.refresh()

    def refresh(self) -> None:
        """Fetch the target branch, and the branch of the operation at the same moment."""
        name, operation = f"refs/heads/{self.branch}", f"refs/heads/{name_operation_branch(self.operation_id)}"
        tips = self.remote.fetch(name, *([operation] if self.operation_id else []))
        if name not in tips:
            raise OperationRefused(f"{quote_value(str(self.remote))} has no branch {self.branch}: push it first")
        self.base = BaseCommit(self._root, self.repository, tips[name])
        self._operation_tip = tips.get(operation)
        self.source = CommitSource(self._root, self.base.commit, self.repository)
        self.declarations = open_declarations(self.source)

    def plan(self, change_set: ChangeSet) -> PlannedChange:
        """Return the effects of a merge of the change into the branch."""
        before = {path: self.declarations.read(path) for path in change_set.files}
        changed = _finish(change_set, before, self.operation_id)
        self._find_written_files(changed, before)
        plan = self.plan_on(self.base.commit, changed)
        return PlannedChange(changed, before, plan, plan.errors)

    def _find_written_files(self, change_set: ChangeSet, before: dict[str, bytes | None]) -> list[str]:
        """Return the new files of a change that the folder has, uncommitted. Raises OperationRefused if one differs."""
        created = {path: data for path, data in change_set.files.items() if before[path] is None}
        return FolderChange(self._root, self.repository).find_written(created)

    def remove_written_files(self, planned: PlannedChange) -> list[str]:
        """Remove the new files of a pushed change from the folder, and return their paths.

        An earlier command wrote them there, and Git would refuse to pull the merged files over them.
        """
        paths = self._find_written_files(planned.change_set, planned.before)
        contents = {path: planned.change_set.files[path] for path in paths}
        FolderChange(self._root, self.repository).write(dict.fromkeys(paths), contents)
        return paths

    def plan_on(self, commit: str, change_set: ChangeSet) -> ChangePlan:
        """Return the effects of a change of a commit."""
        return plan_files(
            self._root,
            commit,
            change_set.files,
            self._choose_day(self.source),
            with_folder=False,
            open_cache=self._caches.open_checks,
            open_listings=self._caches.open_listings,
        )

    def push(self, change_set: ChangeSet) -> PushedBranch:
        """Push a planned change as a new branch, and return the branch.

        Raises BranchTaken if another process with the same operation ID was faster.
        """
        if self.operation_id:
            return push_operation(self.base, self.remote, change_set, self.operation_id)
        return push_change(self.base, self.remote, change_set)

    def find_repeated(self, build: BuildChange) -> RepeatedChange | None:
        """Return the change of an earlier command, from the branch of the operation or the history of the target."""
        use = self.find_use(list_read_paths(self.declarations, build))
        return self.finder.repeat(use, build) if use else None

    @property
    def has_operation_branch(self) -> bool:
        """Whether the remote has the branch of the operation."""
        return self._operation_tip is not None

    @property
    def finder(self) -> OperationFinder:
        """The search for the operation ID."""
        return OperationFinder(self._root, self.repository, self.operation_id, self.base.commit)

    def find_use(self, paths: Iterable[str] = ()) -> OperationUse | None:
        """Return the first use of the operation ID at the remote."""
        branch = name_operation_branch(self.operation_id)
        if self._operation_tip is not None:
            use = self.finder.find_in_branch(self._operation_tip, f"branch {branch}")
            if use is None:
                raise OperationRefused(
                    f"{quote_value(str(self.remote))} has a branch {branch} without a commit of the operation"
                    f" {quote_value(self.operation_id)}: delete the branch first"
                )
            return use
        return self.finder.find_in_history(self.base.commit, paths, f"branch {self.branch}")


def _finish(change_set: ChangeSet, before: dict[str, bytes | None], operation_id: str) -> ChangeSet:
    """Return a change without unchanged files, and with the operation ID in the others."""
    files = {path: data for path, data in change_set.files.items() if before[path] != data}
    return change_set._replace(files=add_operation_id(files, operation_id) if operation_id else files)
