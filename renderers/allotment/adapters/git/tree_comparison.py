"""Compares two trees within limits.

`git diff` collects all differences before it prints the first, so a tree that expands to 10^10 paths would exhaust the
memory. This module reads only folders that differ, level by level, and stops at a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.trees import MAX_DEPTH, PATH_BYTES, TREE, Entry, TreeReader
from allotment.problems import quote_value

MAX_CHANGED = 10_000  # files and folders
MAX_TREE_BYTES = 256 << 20  # bytes of all trees of a comparison
_MAX_BATCH_BYTES = 8 << 20  # bytes of trees that are read at once


class ChangedFile(NamedTuple):
    """A file that differs between two trees. The mode and blob are empty for a tree in which the file is missing."""

    path: str
    old_mode: str
    mode: str
    old_blob: str
    blob: str

    @property
    def action(self) -> Literal["added", "changed", "removed"]:
        """The kind of the change."""
        if not self.old_mode:
            return "added"
        return "changed" if self.mode else "removed"


_Entries = list[tuple[bytes, bytes, bytes]]
_Pair = tuple[str, str]  # a folder's tree before and after; a tree is empty if the folder is missing


class TreeComparison:
    """Compares trees. Its limits apply to the differences of all its comparisons together.

    Differences are counted before their paths are created, so that a tree can't expand without limit.
    """

    def __init__(self, trees: TreeReader) -> None:
        self._trees = trees
        self.has_empty_folder = False  # whether one of the differing folders is empty, before or after
        self._files = self._names = self._bytes = 0
        self._within = Counter[str]()  # the number of differing entries, by folder
        self._added: set[str] = set()  # folders that are new

    def compare(self, before: str, after: str) -> list[ChangedFile]:
        """Return the files that differ between two trees, sorted by path. Raises LimitExceeded, and MalformedTree.

        Folders with the same id are equal, so they aren't read. A path that isn't UTF-8 is shown with escapes.
        """
        return sorted(self._compare_levels(before, after))

    def _compare_levels(self, before: str, after: str) -> Iterator[ChangedFile]:
        level: dict[_Pair, list[str]] = {(before, after): [""]} if before != after else {}
        for _ in range(MAX_DEPTH):
            below: dict[_Pair, list[str]] = {}
            for pair, old_entries, new_entries in self._read_pairs(level):
                here = level[pair]
                for name, entry, other in self._changed_entries(here, old_entries, new_entries):
                    ids = (entry.id if entry.mode == TREE else "", other.id if other.mode == TREE else "")
                    if any(ids):
                        paths = [f"{path}{name}/" for path in here]
                        below.setdefault(ids, []).extend(paths)
                        if not ids[0]:
                            self._added.update(paths)
                    old, new = (_NO_ENTRY if side.mode == TREE else side for side in (entry, other))
                    if old != new:
                        yield from [ChangedFile(path + name, old.mode, new.mode, old.id, new.id) for path in here]
            if not below:
                return
            level = below
        raise LimitExceeded(f"it has folders more than {MAX_DEPTH} deep: no declaration lies there")

    def _read_pairs(self, pairs: Iterable[_Pair]) -> Iterator[tuple[_Pair, _Entries, _Entries]]:
        """Yield each pair with the entries of both trees. Reads the trees in batches of limited size."""
        pairs = list(pairs)
        sizes = self._trees.sizes(tree for pair in pairs for tree in pair if tree)
        some: dict[_Pair, int] = {}
        for pair in pairs:
            size = sum(sizes[tree].size for tree in pair if tree)
            self._bytes += size
            if self._bytes > MAX_TREE_BYTES:
                raise LimitExceeded(f"its folders have more than {MAX_TREE_BYTES:,} bytes of names: split it")
            if some and sum(some.values()) + size > _MAX_BATCH_BYTES:
                yield from self._read_entries(list(some))
                some = {}
            some[pair] = size
        yield from self._read_entries(list(some))

    def _read_entries(self, pairs: list[_Pair]) -> Iterator[tuple[_Pair, _Entries, _Entries]]:
        trees = dict(self._trees.read(tree for pair in pairs for tree in pair if tree))
        self.has_empty_folder |= not all(trees.values())
        return ((pair, trees.get(pair[0], []), trees.get(pair[1], [])) for pair in pairs)

    def _changed_entries(self, here: list[str], before: _Entries, after: _Entries) -> list[tuple[str, Entry, Entry]]:
        """Return the name, the old entry and the new entry of each difference between two folders.

        The same two folders may be at several paths: `here` has all these paths. Raises LimitExceeded.
        """
        self._count_changes(here, abs(len(before) - len(after)), 0)
        common = set(before) & set(after)
        old, new = (
            {name: Entry(mode.decode(), raw.hex()) for mode, name, raw in side if (mode, name, raw) not in common}
            for side in (before, after)
        )
        names = sorted(old.keys() | new.keys())
        bytes_ = sum(map(len, names)) * len(here) + sum(map(len, here)) * len(names)
        self._count_changes(here, len(names), bytes_, keep=True)
        return [(_display_name(name), old.get(name, _NO_ENTRY), new.get(name, _NO_ENTRY)) for name in names]

    def _count_changes(self, here: list[str], each: int, names: int, *, keep: bool = False) -> None:
        files = each * len(here)
        if self._files + files > MAX_CHANGED or self._names + names > MAX_CHANGED * PATH_BYTES:
            self._within.update(dict.fromkeys(here, each))
            where = self._largest_folder()
            most, also = (
                (f", most of them in {quote_value(where)}", ", or leave that folder out") if where else ("", "")
            )
            raise LimitExceeded(f"it changes more than {MAX_CHANGED:,} files{most}: split it{also}")
        if keep:
            self._files, self._names = self._files + files, self._names + names
            self._within.update(dict.fromkeys(here, each))

    def _largest_folder(self) -> str:
        """Return the folder with more than half of the counted files; empty if there is none, or if it is the root.

        The files in the subfolders of a new folder are counted as files of the new folder. If a user commits a `.venv`,
        the message should name this folder, and not a folder deep inside it.
        """
        totals = Counter[str]()
        for folder, count in self._within.items():
            parts = folder.split("/")
            above = ("/".join([*parts[:depth], ""]) for depth in range(1, len(parts)))
            totals[next((ancestor for ancestor in above if ancestor in self._added), folder)] += count
        ((where, count),) = totals.most_common(1)
        return where.removesuffix("/") if 2 * count > totals.total() else ""


_NO_ENTRY = Entry("", "")


def _display_name(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
