"""Reads the declarations that a command edits, from a folder or a commit, and the merged versions of a file."""

from __future__ import annotations

from pathlib import Path

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.branches.merged_branch import find_fetched_branch
from allotment.declared.layout import Scope, folder_of
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused


def open_declarations(source: Source) -> Declarations:
    """Return the declarations of a source. A file that is no regular file counts as absent."""

    def read(path: str) -> bytes | None:
        try:
            return source.read(path)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise OperationRefused(f"{path} can't be read: {error.strerror}") from None

    def list_paths(scope: Scope) -> list[str]:
        try:
            return list(source.files(scope).paths)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise OperationRefused(f"{folder_of(scope)} can't be read: {error.strerror}") from None

    def list_scopes(kind: str) -> list[str]:
        return [scope.name for scope in source.scopes()[0] if scope.kind == kind]

    return Declarations(read, list_paths, list_scopes)


def read_merged_versions(root: Path, path: str) -> list[bytes | None]:
    """Return the content of a file at HEAD, and at `origin/BRANCH` if that branch was fetched. None: no such file."""
    repository = Repository(root)
    if not repository.has_commits():
        return []
    versions = [_read(CommitSource(root, "HEAD", repository), path)]
    try:
        fetched = CommitSource(root, f"refs/remotes/origin/{find_fetched_branch(root, repository)}", repository)
    except OperationRefused:  # the branch was not fetched
        return versions
    return [*versions, _read(fetched, path)]


def _read(source: CommitSource, path: str) -> bytes | None:
    try:
        return source.read(path)
    except KeyError:
        return None
