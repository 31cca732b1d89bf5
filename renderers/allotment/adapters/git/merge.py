"""What merging a commit into another would change: computed among Git's objects, without a work tree and without a
driver.

Who opens a pull request chooses the head's tree and its history, so both are read as far as a limit and no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.adapters.git.commands import Ended, SaidNo
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import MAX_DEPTH, PATH_BYTES, TREE, Entry, Trees
from allotment.problems import Refused, quoted

MOST_CHANGED = 10_000  # files and folders
MOST_BYTES = 32 << 20  # of a file that is merged
MOST_COMMITS = 100  # of a pull request whose base moved on, or that has merge commits
MOST_TREES = 256 << 20  # bytes of all trees of a comparison
_HELD = 8 << 20  # bytes of trees that are read at once
NAMED = 10


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
        return repository.git.text("merge_base", one, other)
    except SaidNo:
        return None


def merged(repository: Repository, base: str, head: str) -> str | Conflicted:
    """Return the tree that merging `head` into `base` makes, or why there is none. Raises TooMuch, and Refused in a
    shallow clone."""
    common = merge_base(repository, base, head)
    if common is None and repository.is_shallow():
        raise Refused(
            "this clone has only a part of the history, where the two may meet: run `git fetch --unshallow`, in CI fetch the"
            " whole history (fetch-depth: 0, GIT_DEPTH: 0)"
        )
    if common is None:
        return Conflicted(())
    theirs = changed(
        repository, common, head
    )  # what unfolds without end, or Git wouldn't write, is stopped before it is merged
    if common == base:
        return repository.trees.root(head)
    if common == head:
        return repository.trees.root(base)
    sizes = repository.objects.info({one.blob for one in theirs if one.blob})
    for one in theirs:
        if one.blob and sizes[one.blob].size > MOST_BYTES:
            raise TooMuch(f"{quoted(one.path)} has more than {MOST_BYTES:,} bytes: keep data elsewhere")
    ended = _merge_tree(repository, base, head)
    tree, *paths = ended.out.decode("utf-8", "backslashreplace").split("\0")
    if ended.status == 1:
        return Conflicted(tuple(sorted({path for path in paths if path})))
    if ended.status:
        raise Refused(f"Git can't merge the two: {ended.said[-400:]}")
    return tree


def _merge_tree(repository: Repository, one: str, other: str) -> Ended:
    return repository.git.run("merge_tree", "--write-tree", "-z", "--name-only", "--no-messages", one, other)


def lands_by_rebase(repository: Repository, base: str, head: str, tree: str) -> bool:
    """Return whether a forge that merges by rebase lands the tree `tree` too, or nothing.

    A rebase applies commit by commit what the head has beside the base. It leaves out merge commits, with whatever
    they say themselves, and what the base has as a commit of its own. Raises TooMuch, and MalformedTree.
    """
    common, git = merge_base(repository, base, head), repository.git
    own = git.text("rev_list", "--parents", f"--max-count={MOST_COMMITS + 1}", f"{base}..{head}").splitlines()
    parents = {commit: before for commit, *before in (line.split() for line in own)}
    if common == base and all(len(before) == 1 for before in parents.values()):
        return True
    if len(parents) > MOST_COMMITS:
        raise TooMuch(f"it has more than {MOST_COMMITS} commits of its own: squash them")
    comparison = _Comparison(repository.trees)
    for commit, before in parents.items():  # what unfolds without end is stopped before Git looks at it
        if not before:
            return False
        for _ in comparison.of(*(repository.trees.root(one) for one in (before[0], commit))):
            pass
    options = ("--reverse", "--topo-order", "--no-merges", "--cherry-pick", "--right-only")
    landed = base
    for commit in git.text("rev_list", *options, f"{base}...{head}").split():
        found = _applied(repository, landed, commit, parents[commit][0])
        if found is None:
            return True  # it conflicts, so the forge lands nothing
        landed = found
    return repository.trees.root(landed) == tree


def _applied(repository: Repository, onto: str, commit: str, before: str) -> str | None:
    """Return a commit with what `commit` changes applied to `onto`; None where that conflicts."""
    said = {f"GIT_{who}_{what}": "rebase" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def child_of(parent: str, tree: str) -> str:
        ended = repository.git.run("commit_tree", "-p", parent, "-m", "rebase", tree, environment=said)
        if ended.status:
            raise Refused(f"Git makes no commit: {ended.said[-400:]}")
        return ended.out.decode("ascii").strip()

    # The two share the commit before, so that merging them applies what came after it.
    same = child_of(before, repository.trees.root(onto))
    ended = _merge_tree(repository, same, commit)
    return None if ended.status else child_of(onto, ended.out.decode("ascii").split("\0")[0])


def inner(repository: Repository, tree: str, prefix: str) -> str:
    """Return the tree of the declarations in a whole repository's tree, where they lie in its folder `prefix`."""
    found = repository.tree_of(tree, prefix)
    if found is None:
        raise Refused(f"after the merge there is no folder {prefix}")
    return found


def changed(repository: Repository, before: str, after: str) -> list[Changed]:
    """Return the files that differ between two commits or trees, sorted by path. Raises TooMuch, and MalformedTree.

    Git's own diff gathers everything before it says a word, so a tree that unfolds to 10^10 paths would be its end:
    here folders are read level by level, those alone that differ, and no further than the limit. A path that isn't
    UTF-8 is shown with escapes.
    """
    comparison = _Comparison(repository.trees)
    return sorted(comparison.of(*(repository.trees.root(one) for one in (before, after))))


_Entries = list[tuple[bytes, bytes, bytes]]
_Pair = tuple[str, str]  # a folder's tree before and after, empty where there is none


class _Comparison:
    """Compares two trees, and counts what differs before it is made."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._files = self._names = self._bytes = 0

    def of(self, before: str, after: str) -> Iterator[Changed]:
        """Yield the files that differ. Two folders of the same id aren't read: they hold the same, whatever that is."""
        level: dict[_Pair, list[str]] = {(before, after): [""]} if before != after else {}
        for _ in range(MAX_DEPTH):
            below: dict[_Pair, list[str]] = {}
            for pair, was, is_now in self._read(level):
                here = level[pair]
                for name, one, other in self._differing(here, was, is_now):
                    ids = (one.id if one.mode == TREE else "", other.id if other.mode == TREE else "")
                    if any(ids):
                        below.setdefault(ids, []).extend([f"{path}{name}/" for path in here])
                    old, new = (_NOTHING if both.mode == TREE else both for both in (one, other))
                    if old != new:
                        yield from [Changed(path + name, old.mode, new.mode, old.id, new.id) for path in here]
            if not below:
                return
            level = below
        raise TooMuch(f"it has folders more than {MAX_DEPTH} deep: no declaration lies there")

    def _read(self, pairs: Iterable[_Pair]) -> Iterator[tuple[_Pair, _Entries, _Entries]]:
        """Yield pairs with their entries, so many at once as may be held."""
        pairs = list(pairs)
        sizes = self._trees.sizes(tree for pair in pairs for tree in pair if tree)
        some: dict[_Pair, int] = {}
        for pair in pairs:
            size = sum(sizes[tree].size for tree in pair if tree)
            self._bytes += size
            if self._bytes > MOST_TREES:
                raise TooMuch(f"its folders have more than {MOST_TREES:,} bytes of names: split it")
            if some and sum(some.values()) + size > _HELD:
                yield from self._contents(list(some))
                some = {}
            some[pair] = size
        yield from self._contents(list(some))

    def _contents(self, pairs: list[_Pair]) -> Iterator[tuple[_Pair, _Entries, _Entries]]:
        found = dict(self._trees.read(tree for pair in pairs for tree in pair if tree))
        return ((pair, found.get(pair[0], []), found.get(pair[1], [])) for pair in pairs)

    def _differing(self, here: list[str], was: _Entries, is_now: _Entries) -> list[tuple[str, Entry, Entry]]:
        """Return name, entry before and after of what differs between two folders, which have some paths. Raises
        TooMuch."""
        self._count(abs(len(was) - len(is_now)) * len(here), 0)
        both = set(was) & set(is_now)
        old, new = (
            {name: Entry(mode.decode(), raw.hex()) for mode, name, raw in side if (mode, name, raw) not in both}
            for side in (was, is_now)
        )
        names = sorted(old.keys() | new.keys())
        bytes_ = sum(map(len, names)) * len(here) + sum(map(len, here)) * len(names)
        self._count(len(names) * len(here), bytes_, keep=True)
        return [(_shown(name), old.get(name, _NOTHING), new.get(name, _NOTHING)) for name in names]

    def _count(self, files: int, names: int, *, keep: bool = False) -> None:
        if self._files + files > MOST_CHANGED or self._names + names > MOST_CHANGED * PATH_BYTES:
            raise TooMuch(f"it changes more than {MOST_CHANGED:,} files: split it")
        if keep:
            self._files, self._names = self._files + files, self._names + names


_NOTHING = Entry("", "")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
