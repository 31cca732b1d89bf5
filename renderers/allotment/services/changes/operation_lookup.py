"""Finds the change that has an operation ID: in the folder, at the remote, or in a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from allotment.adapters.folder_source import FolderSource
from allotment.adapters.forge.forge import PullRequest
from allotment.adapters.git.history import was_merged
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import TreeComparison
from allotment.adapters.git.uncommitted import uncommitted_files
from allotment.declared.layout import ROOTS, DeclarationPath, parse_path
from allotment.edits.field_assignments import DeclarationName
from allotment.edits.operation_id import field_pattern, name_operation_branch
from allotment.problems import pluralize
from allotment.reports.outputs.operation import OperationOutput, OperationState
from allotment.services.changes.change_target import BranchTarget
from allotment.services.changes.declared_files import open_declarations
from allotment.services.changes.operations import OperationFinder, OperationUse

FindPullRequest = Callable[[], tuple[PullRequest, OperationUse | None] | None]


class OperationLookup:
    """Looks an operation ID up in a repository. `root` is the folder of the declarations."""

    def __init__(self, root: Path, repository: Repository, operation_id: str) -> None:
        self._root, self._repository, self._id = root, repository, operation_id

    def find_at_remote(self, target: BranchTarget, find_pull: FindPullRequest) -> OperationOutput | None:
        """Return the change at the remote. `find_pull` returns the pull request of the operation and its commit."""
        use, pull = target.find_use(), find_pull()
        if use is None and pull is not None:
            use = pull[1]
        if use is None:
            return None
        branch = name_operation_branch(self._id) if target.has_operation_branch or pull else None
        url = pull[0].url or None if pull else None
        state: OperationState = "Branch"
        if (pull is not None and pull[0].merge_commit) or was_merged(self._repository, use.commit, target.base.commit):
            state = "Merged"
        elif pull is not None:
            state = "PullRequest" if pull[0].is_open else "Closed"
        return msgspec.structs.replace(self._describe(use.commit, state), branch=branch, url=url)

    def find_in_folder(self) -> OperationOutput | None:
        """Return the change in the history of HEAD, or in uncommitted files."""
        if not self._repository.has_commits() or self._repository.git.work_tree is None:
            return None
        head = self._repository.resolve_named_commit("HEAD")
        use = OperationFinder(self._root, self._repository, self._id, head).find_in_history(head, (), "HEAD")
        if use is not None:
            return self._describe(use.commit, "Commit")
        declarations = open_declarations(FolderSource(self._root))
        line = re.compile(field_pattern(self._id).encode(), re.MULTILINE)
        paths = [path for path in uncommitted_files(self._root) if line.search(declarations.read(path) or b"")]
        if not paths:
            return None
        return self._build_output("Folder", pluralize(len(paths), "uncommitted file"), paths)

    def _describe(self, commit: str, state: OperationState) -> OperationOutput:
        parents = self._repository.parents(commit)
        prefix = self._repository.folder_prefix(self._root)
        after = self._repository.tree_of(commit, prefix)
        before = self._repository.tree_of(parents[0], prefix) if parents else None
        paths: list[str] = []
        if before and after:
            paths = [change.path for change in TreeComparison(self._repository.trees).compare(before, after)]
        return self._build_output(state, self._repository.subject(commit), paths, commit)

    def _build_output(
        self, state: OperationState, title: str, paths: list[str], commit: str | None = None
    ) -> OperationOutput:
        return OperationOutput(
            operation_id=self._id, state=state, title=title, resources=_name_resources(paths), commit=commit
        )


def _name_resources(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the declarations at some paths, such as `GPUInstance solo-ada/webui`."""
    declaration_paths = [parse_path(path) for path in paths if path.partition("/")[0] in ROOTS]
    return tuple(
        str(DeclarationName(*declaration_path))
        for declaration_path in declaration_paths
        if isinstance(declaration_path, DeclarationPath)
    )
