"""Finds the branch of declarations, and the commits that count as merged, because they were states of this branch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from allotment.adapters.checkout_paths import find_work_trees
from allotment.adapters.declaration_source import Source
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.history import is_on_first_parents
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.platform_settings import ORIGIN, PLATFORM_FILE
from allotment.declared.documents import read
from allotment.declared.values import BranchName
from allotment.problems import OperationRefused, quote_value

DEFAULT_BRANCH = "main"


def read_branch(source: Source) -> str:
    """Return the branch that the Platform declaration names in spec.git.branch; `main` if it names no valid branch.

    Reads only this field, so the other fields of the declaration may be invalid.
    """
    return _read_declared_branch(source) or DEFAULT_BRANCH


def _read_declared_branch(source: Source) -> str | None:
    """Return the branch in spec.git.branch, by default `main`; None if the file or the field can't be read."""
    try:
        value = read(source.read(PLATFORM_FILE)).value
        branch = value["spec"]["git"].get("branch", DEFAULT_BRANCH)  # type: ignore[index]
        return str(TypeAdapter(BranchName).validate_python(branch))
    except (OSError, KeyError, TypeError, AttributeError, ValidationError):
        return None


class DeclaredBranch(NamedTuple):
    """The branch of the declarations that count as merged, and its newest commit; None if the remote lacks the branch."""

    name: str
    tip: str | None


def fetch_declared_branch(root: Path, remote: Remote, likely: str = DEFAULT_BRANCH) -> DeclaredBranch:
    """Return the branch that the default branch of a remote declares in spec.git.branch.

    If the remote has no default branch, this is `main`. The work tree and HEAD have no say in the branch: they may hold
    the files of a stranger, and the branch declares the trusted keys and the hosts that get tokens.
    `likely` only saves a request if it is the branch. Raises OperationRefused if the remote doesn't answer, or if its
    default branch doesn't say which branch counts: a stranger may have pushed a branch with the name `main`.
    """
    tips = remote.fetch("HEAD", f"refs/heads/{likely}")
    head = tips.get("HEAD")
    branch = _read_declared_branch(CommitSource(root, head, remote.repository)) if head else DEFAULT_BRANCH
    if branch is None:
        raise OperationRefused(
            f"the default branch of {quote_value(str(remote))} has no readable {PLATFORM_FILE} in this folder, so no commit"
            " counts as merged: make the branch of the declarations the default branch at the forge, correct the file there (allot"
            " validate shows its errors), or go to the folder of the declarations"
        )
    name = f"refs/heads/{branch}"
    return DeclaredBranch(branch, (tips if branch == likely else remote.fetch(name)).get(name))


def find_fetched_branch(root: Path, repository: Repository) -> str:
    """Return the branch of the declarations, without a request to the remote.

    This is the branch that the default branch of origin declares, as this clone last fetched it, or else the default branch
    itself. A clone that doesn't know the default branch takes the branch that the folder declares.
    """
    head = f"refs/remotes/{ORIGIN}/HEAD"
    try:
        is_known = repository.find_commit(head) is not None
    except OperationRefused:
        if any(find_work_trees(root.resolve())):  # a repository that Git can't read is no proof that nothing is merged
            raise
        is_known = False
    if not is_known:  # this clone was not made with `git clone`
        return read_branch(FolderSource(root))
    try:
        branch = _read_declared_branch(CommitSource(root, head, repository))
    except OperationRefused:  # the default branch lacks this folder, which may be a stranger's
        branch = None
    return branch or repository.git.run_text("rev-parse", "--abbrev-ref", head).removeprefix(f"{ORIGIN}/")


def fetch_origin_branch(root: Path, source: CommitSource) -> DeclaredBranch:
    """Return the branch of declarations at origin.

    Raises OperationRefused if there is no origin, if it doesn't answer, or if its default branch names no branch.
    """
    if source.repository.git.url_of(ORIGIN) is None:
        raise OperationRefused(
            "this repository has no remote named origin, so no commit counts as merged: run"
            f" {source.repository.git.origin_remedy}, or name the repository to publish to with --to"
        )
    return fetch_declared_branch(root, Remote(source.repository, ORIGIN), likely=read_branch(source))


def fetch_tip(root: Path, source: CommitSource) -> str | None:
    """Return the newest commit of the branch of declarations at origin; None if there is no such commit.

    If there is no origin, if it doesn't answer, or if its default branch names no branch, return the newest commit of the
    local branch that `source` names: a trial needs no origin.
    """
    try:
        return fetch_origin_branch(root, source).tip
    except OperationRefused:
        return source.repository.find_commit(f"refs/heads/{read_branch(source)}")


def select_merged_commit(root: Path, source: CommitSource, branch: DeclaredBranch | None) -> CommitSource | None:
    """Return `source` if it was a state of the branch, else the tip. This commit names the repositories to contact.

    Publishing an unmerged commit would block the next publish, because the next merged commit does not contain it. In a
    trial, `branch` is None; return None if origin does not tell whether `source` is merged. Raises OperationRefused if
    origin lacks `branch`.
    """
    if branch is None:
        try:
            tip = fetch_origin_branch(root, source).tip
        except OperationRefused:
            return None
    else:
        tip = branch.tip
    if tip is None:
        if branch is None:
            return None
        raise OperationRefused(
            f"origin has no branch {branch.name}, so no commit counts as merged: push the branch, or let the default branch of"
            " origin name another in spec.git.branch"
        )
    repository = source.repository
    if source.commit == tip or (not repository.is_shallow() and is_on_first_parents(repository, source.commit, tip)):
        return source
    return CommitSource(root, tip, repository)
