"""Computes the result of a merge of two commits. Uses only Git's object store: no work tree and no merge driver.

The author of a pull request chooses the head's tree and history, so both are read only up to a limit.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.adapters.git.commands import GitFailed, GitResult
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import ChangedFile, TreeComparison
from allotment.problems import OperationRefused, quote_value

MAX_BYTES = 32 << 20  # bytes of a file that is merged
MAX_COMMITS = 100  # commits of a pull request, if it has merge commits or if its base has advanced
MAX_NAMED_PATHS = 10


class MergeConflict(NamedTuple):
    """A merge without a result. `paths` are the conflicting paths; empty if the two commits share no history."""

    paths: tuple[str, ...]

    def __str__(self) -> str:
        if not self.paths:
            return "it shares no history with the base: begin it from the base branch"
        named = ", ".join(self.paths[:MAX_NAMED_PATHS])
        more = f" and {len(self.paths) - MAX_NAMED_PATHS} more" if len(self.paths) > MAX_NAMED_PATHS else ""
        return f"it conflicts with the base in {named}{more}: merge the base branch into it and decide there"


def merge_base(repository: Repository, commit: str, other: str) -> str | None:
    """Return the best common ancestor of two commits; None if there is none."""
    try:
        return repository.git.run_text("merge-base", commit, other)
    except GitFailed:
        return None


def merge_tree_of(repository: Repository, base: str, head: str) -> str | MergeConflict:
    """Merge `head` into `base`, and return the resulting tree, or the conflict.

    Raises LimitExceeded, and OperationRefused if a shallow clone lacks the common history or if Git can't merge.
    """
    common = merge_base(repository, base, head)
    if common is None and repository.is_shallow():
        raise OperationRefused(
            "this clone has only a part of the history, where the two may meet: run `git fetch --unshallow`, in CI fetch the"
            " whole history (fetch-depth: 0, GIT_DEPTH: 0)"
        )
    if common is None:
        return MergeConflict(())
    # Before Git merges, this comparison raises if a tree is malformed or expands without limit.
    changes = list_changed_files(repository, common, head)
    if common == base:
        return repository.trees.root(head)
    if common == head:
        return repository.trees.root(base)
    sizes = repository.objects.info({change.blob for change in changes if change.blob})
    for change in changes:
        if change.blob and sizes[change.blob].size > MAX_BYTES:
            raise LimitExceeded(f"{quote_value(change.path)} has more than {MAX_BYTES:,} bytes: keep data elsewhere")
    ended = _merge_tree(repository, base, head)
    tree, *paths = ended.stdout.decode("utf-8", "backslashreplace").split("\0")
    if ended.exit_code == 1:
        return MergeConflict(tuple(sorted({path for path in paths if path})))
    if ended.exit_code:
        raise OperationRefused(f"Git can't merge the two: {ended.stderr[-400:]}")
    return tree


def _merge_tree(repository: Repository, commit: str, other: str) -> GitResult:
    return repository.git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", commit, other)


def is_same_by_rebase(repository: Repository, base: str, head: str, tree: str) -> bool:
    """Return whether a forge that merges by rebase would also produce `tree`, or would refuse the merge.

    A rebase applies the head's own commits in their order. It omits merge commits, and so loses a change that was made
    only in a merge commit. It also omits each commit with a change that the base already has. Raises LimitExceeded, and
    MalformedTree.
    """
    git = repository.git
    own = git.run_text("rev-list", "--parents", f"--max-count={MAX_COMMITS + 1}", f"{base}..{head}").splitlines()
    parents = {commit: commit_parents for commit, *commit_parents in (line.split() for line in own)}
    is_linear = all(len(commit_parents) == 1 for commit_parents in parents.values())
    if is_linear and ([base] in parents.values() or merge_base(repository, base, head) == base):
        return True
    if len(parents) > MAX_COMMITS:
        raise LimitExceeded(f"it has more than {MAX_COMMITS} commits of its own: squash them")
    comparison = TreeComparison(repository.trees)
    for commit, commit_parents in parents.items():  # refuse trees without limit before Git reads them
        if not commit_parents:
            return False
        comparison.compare(*(repository.trees.root(revision) for revision in (commit_parents[0], commit)))
    options = ("--reverse", "--topo-order", "--no-merges", "--cherry-pick", "--right-only")
    landed = base
    for commit in git.run_text("rev-list", *options, f"{base}...{head}").split():
        new_commit = _cherry_pick(repository, landed, commit, parents[commit][0])
        if new_commit is None:
            return True  # the commit conflicts, so the forge refuses the merge
        landed = new_commit
    return repository.trees.root(landed) == tree


def _cherry_pick(repository: Repository, onto: str, commit: str, commit_parent: str) -> str | None:
    """Return a commit with the change of `commit` applied to `onto`; None on a conflict."""
    identity = {f"GIT_{who}_{field}": "rebase" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}

    def child_of(parent: str, tree: str) -> str:
        ended = repository.git.run("commit-tree", "-p", parent, "-m", "rebase", tree, environment=identity)
        if ended.exit_code:
            raise OperationRefused(f"Git makes no commit: {ended.stderr[-400:]}")
        return ended.stdout.decode("ascii").strip()

    # The commit `same` has the files of `onto`, and the same parent as `commit`. A merge of `same` and `commit`
    # therefore applies the change of `commit` to `onto`.
    same = child_of(commit_parent, repository.trees.root(onto))
    ended = _merge_tree(repository, same, commit)
    return None if ended.exit_code else child_of(onto, ended.stdout.decode("ascii").split("\0")[0])


def declarations_tree(repository: Repository, tree: str, prefix: str) -> str:
    """Return the tree of the folder `prefix`, which has the declarations. `tree` is the whole repository's tree."""
    subtree = repository.tree_of(tree, prefix)
    if subtree is None:
        raise OperationRefused(f"the merge removes the folder {prefix}")
    return subtree


def list_changed_files(repository: Repository, before: str, after: str) -> list[ChangedFile]:
    """Return the files that differ between two commits or trees, sorted by path. Raises LimitExceeded, and
    MalformedTree."""
    return TreeComparison(repository.trees).compare(*(repository.trees.root(revision) for revision in (before, after)))
