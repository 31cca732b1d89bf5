"""What merging a commit into another would change: computed among Git's objects, without a work tree and without a driver.

Who opens a pull request chooses the head's tree and its history, so both are read as far as a limit and no further.
"""

from __future__ import annotations

from typing import NamedTuple

import git

from allotment.adapters.git.repository import Repository
from allotment.problems import Refused

MOST_CHANGED = 10_000  # files and folders
MAX_DEPTH = 64
_TREE = "040000"
NAMED = 10


class TooMuch(Refused):
    """A change of more files than anybody could look at."""


class Conflicted(NamedTuple):
    """Why there is no merge result: the paths that conflict, none where the two share no history."""

    paths: tuple[str, ...]

    def __str__(self) -> str:
        if not self.paths:
            return "it shares no history with the base: begin it from the base branch"
        named = ", ".join(self.paths[:NAMED])
        more = f" and {len(self.paths) - NAMED} more" if len(self.paths) > NAMED else ""
        return f"it conflicts with the base in {named}{more}: merge the base branch into it and decide there"


class Changed(NamedTuple):
    """A file that differs between two trees: the mode and blob it had and has, empty where there is none."""

    path: str
    old_mode: str
    mode: str
    old_blob: str
    blob: str


def merge_base(repository: Repository, one: str, other: str) -> str | None:
    """Return the best common ancestor of two commits, None where there is none."""
    try:
        found: str = repository.open().git.merge_base(one, other)
    except git.GitCommandError:
        return None
    return found


def merged(repository: Repository, base: str, head: str) -> str | Conflicted:
    """Return the tree that merging `head` into `base` makes, or why there is none. Raises TooMuch, and Refused in a shallow clone."""
    common = merge_base(repository, base, head)
    if common is None and repository.is_shallow():
        raise Refused(
            "this clone has only a part of the history, where the two may meet: run `git fetch --unshallow`, in CI fetch the"
            " whole history (fetch-depth: 0, GIT_DEPTH: 0)"
        )
    if common is None:
        return Conflicted(())
    changed(repository, common, head)  # a tree that unfolds without end is stopped before it is merged
    if common == base:
        return repository.resolve(f"{head}^{{tree}}", "the head has no tree")
    if common == head:
        return repository.resolve(f"{base}^{{tree}}", "the base has no tree")
    process = repository.open().git.merge_tree(
        "--write-tree", "-z", "--name-only", "--no-messages", base, head, as_process=True
    )
    out, said = process.communicate()
    tree, *paths = str(out.decode("utf-8", "backslashreplace")).split("\0")
    if process.returncode == 1:
        return Conflicted(tuple(sorted({path for path in paths if path})))
    if process.returncode:
        raise Refused(f"Git can't merge the two: {said.decode('utf-8', 'replace')[-400:]}")
    return tree


def inner(repository: Repository, tree: str, prefix: str) -> str:
    """Return the tree of the declarations in a whole repository's tree, where they lie in its folder `prefix`."""
    return repository.resolve(f"{tree}:{prefix}", f"after the merge there is no folder {prefix}")


def changed(repository: Repository, before: str, after: str) -> list[Changed]:
    """Return the files that differ between two commits or trees, sorted by path. Raises TooMuch.

    Git's own diff gathers everything before it says a word, so a tree that unfolds to 10^10 paths would be its end: here
    folders are read level by level, those alone that differ, and no further than the limit. A path that isn't UTF-8 is
    shown with escapes.
    """
    found: list[Changed] = []
    roots = [repository.resolve(f"{one}^{{tree}}", f"{one} has no tree") for one in (before, after)]
    level: list[tuple[str, str, str]] = [("", roots[0], roots[1])]
    depth = seen = 0
    while level:
        folders: list[tuple[str, str, str]] = []
        trees = iter(repository.read_all([tree for _, old, new in level for tree in (old, new) if tree]))
        for path, old, new in level:
            was, is_now = (_entries(next(trees), len(one) // 2) if one else {} for one in (old, new))
            for name in sorted(was.keys() | is_now.keys()):
                one, other = was.get(name, ("", "")), is_now.get(name, ("", ""))
                if one != other:
                    seen += 1
                    folders += _folder(f"{path}{_shown(name)}/", one, other)
                    found += _file(f"{path}{_shown(name)}", one, other)
            if seen > MOST_CHANGED:
                raise TooMuch(f"it changes more than {MOST_CHANGED:,} files: split it")
        level, depth = folders, depth + 1
        if depth > MAX_DEPTH:
            raise TooMuch(f"it has folders more than {MAX_DEPTH} deep: no declaration lies there")
    return sorted(found)


def _entries(data: bytes, digest: int) -> dict[bytes, tuple[str, str]]:
    """Return the mode and id of each entry of a tree object; `digest` is how many bytes an id has."""
    entries = {}
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        entries[name] = mode.decode("ascii").zfill(6), data[end + 1 : end + 1 + digest].hex()
        at = end + 1 + digest
    return entries


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _folder(path: str, was: tuple[str, str], is_now: tuple[str, str]) -> list[tuple[str, str, str]]:
    trees = [one[1] if one[0] == _TREE else "" for one in (was, is_now)]
    return [(path, trees[0], trees[1])] if any(trees) else []


def _file(path: str, was: tuple[str, str], is_now: tuple[str, str]) -> list[Changed]:
    one, other = (("", "") if entry[0] == _TREE else entry for entry in (was, is_now))
    return [Changed(path, one[0], other[0], one[1], other[1])] if one != other else []
