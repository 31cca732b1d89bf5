"""Lists the files of a work tree that differ from a commit, without writing to the repository."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from allotment.adapters.checkout_paths import find_work_trees
from allotment.adapters.declaration_source import can_be_declaration
from allotment.adapters.git.commands import READ_SETTINGS, GitCommands, GitFailed
from allotment.adapters.git.merge import merge_base
from allotment.adapters.git.repository import Repository
from allotment.adapters.temporary_folder import temporary_folder
from allotment.declared.layout import ROOTS
from allotment.problems import OperationRefused, quote_value


def uncommitted_files(root: Path) -> list[str]:
    """Return the paths, relative to `root`, of the declarations that differ from the last commit.

    Without a commit, return no paths.
    """
    return _changed_declarations(root, lambda repository: repository.resolve_named_commit("HEAD"))


def list_ignored(root: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return those paths, relative to `root`, that Git ignores and doesn't track, except declarations and README.md.

    No pull request has these files. A declaration that Git ignores counts, because nobody would notice its absence. Returns
    none if Git can't read a repository around `root`.
    """
    odd = [path for path in paths if not can_be_declaration(path)]
    if not odd:
        return frozenset()
    try:
        with Repository(root, GitCommands(root, offline=True)) as repository:
            prefix = repository.folder_prefix(root)
            inside = f"{prefix}/" if prefix else ""
            names = b"\0".join(os.fsencode(inside + path) for path in odd)
            # `check-ignore` refuses literal paths. Each path begins with a folder of declarations, so it is no pattern.
            patterns = {"GIT_LITERAL_PATHSPECS": "0"}
            ended = repository.git.run(
                "check-ignore", "-z", "--stdin", data=names, settings=READ_SETTINGS, environment=patterns
            )
    except OperationRefused:
        return frozenset()
    return frozenset(os.fsdecode(path).removeprefix(inside) for path in ended.stdout.split(b"\0") if path)


def refuse_tracked_files(*folders: Path) -> None:
    """Raise OperationRefused if a repository tracks files in one of the folders: a pull request may have added them.

    Also raises it if Git can't read the repository around an existing folder.
    """
    for folder in folders:
        parent = Path(os.path.realpath(folder.absolute().parent))
        if not folder.exists() or not any(find_work_trees(parent)):
            continue
        try:
            tracked = GitCommands(parent).run_text(
                "ls-files", "-z", "--", str(parent / folder.name), settings=READ_SETTINGS
            )
        except (GitFailed, OperationRefused) as error:
            raise OperationRefused(
                f"{quote_value(str(folder))} may contain files of the repository, which Git can't read: {error}. Remove this folder,"
                " or name a folder outside of the work tree"
            ) from None
        if tracked:
            raise OperationRefused(f"{quote_value(str(folder))} contains files of the repository: name another folder")


def unmerged_files(root: Path, branch: str) -> list[str]:
    """Return the paths, relative to `root`, of the declarations that differ from the merge base of HEAD and `branch`.

    `branch` is a branch of `origin`. Without that branch, compare with the last commit instead.
    """

    def base(repository: Repository) -> str:
        head = repository.resolve_named_commit("HEAD")
        with contextlib.suppress(OperationRefused):
            upstream = repository.resolve_named_commit(f"refs/remotes/origin/{branch}")
            return merge_base(repository, head, upstream) or head
        return head

    return _changed_declarations(root, base)


def _changed_declarations(root: Path, base: Callable[[Repository], str]) -> list[str]:
    try:
        with Repository(root) as repository:
            prefix = repository.folder_prefix(root)
            folders = [f"{prefix}/{name}" if prefix else name for name in ROOTS]
            paths = differing_paths(repository, base(repository), folders)
    except OperationRefused:
        return []
    return [path.removeprefix(f"{prefix}/") for path in paths]


def count_differing_files(repository: Repository, commit: str, folders: Iterable[str]) -> int:
    """Return the number of files that differ between `folders` in the work tree and a commit.

    Ignored files are left out.
    """
    return len(differing_paths(repository, commit, folders))


def differing_paths(repository: Repository, commit: str, folders: Iterable[str]) -> list[str]:
    """Return the paths of the files that differ between `folders` in the work tree and a commit.

    The paths are relative to the root of the work tree. Ignored files are left out.
    """
    with temporary_folder("allot-look-") as folder:
        environment = _copied_index_environment(repository, folder)
        options = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--name-only", "-z", commit)
        changed = repository.git.run("diff", *options, "--", *folders, settings=READ_SETTINGS, environment=environment)
        listed = ("--others", "--exclude-standard", "-z", "--", *folders)
        new = repository.git.run("ls-files", *listed, settings=READ_SETTINGS, environment=environment)
    return [os.fsdecode(path) for path in (changed.stdout + new.stdout).split(b"\0") if path]


def _copied_index_environment(repository: Repository, folder: Path) -> dict[str, str]:
    """Copy the repository's index to `folder`, and return environment variables that make Git use the copy.

    Git may update an index that it reads. An update of the repository's own index could disturb another process that
    writes the index.
    """
    index = folder / "index"
    own = repository.git.folder / repository.git.run_text("rev-parse", "--git-path", "index")
    if own.exists():
        shutil.copy2(own, index)  # copy2 keeps the modification time, by which Git detects changes
    return {"GIT_INDEX_FILE": str(index)}


def read_staged_files(repository: Repository, commit: str, paths: Iterable[str]) -> dict[str, bytes | None]:
    """Return the staged contents of all files with an index entry that differs from a commit; None for a removal.

    The paths are relative to the root of the work tree.
    """
    with temporary_folder("allot-look-") as folder:
        environment = _copied_index_environment(repository, folder)
        words = ("--cached", "--raw", "--no-renames", "--no-abbrev", "-z", commit, "--", *paths)
        listed = repository.git.run("diff-index", *words, settings=READ_SETTINGS, environment=environment)
    fields = listed.stdout.split(b"\0")
    staged: dict[str, bytes | None] = {}
    for entry, path in zip(fields[0::2], fields[1::2], strict=False):
        blob = entry.split()[3].decode("ascii")
        staged[os.fsdecode(path)] = None if not blob.strip("0") else repository.read(blob)
    return staged
