"""What differs between two trees.

Git's own diff gathers everything before it says a word, so a tree that unfolds to 10^10 paths would be its end: here
folders are read level by level, those alone that differ, and no further than a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.trees import MAX_DEPTH, PATH_BYTES, TREE, Entry, Trees

MOST_CHANGED = 10_000  # files and folders
MOST_TREES = 256 << 20  # bytes of all trees of a comparison
_HELD = 8 << 20  # bytes of trees that are read at once


class Changed(NamedTuple):
    """A file that differs between two trees: the mode and blob it had and has, empty where there is none."""

    path: str
    old_mode: str
    mode: str
    old_blob: str
    blob: str


_Entries = list[tuple[bytes, bytes, bytes]]
_Pair = tuple[str, str]  # a folder's tree before and after, empty where there is none


class TreeComparison:
    """Compares trees, and counts what differs before it is made: in all of its comparisons together."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self.met_empty = False  # whether a folder that differs was, or is, one without entries
        self._files = self._names = self._bytes = 0

    def of(self, before: str, after: str) -> list[Changed]:
        """Return the files that differ between two trees, sorted by path. Raises TooMuch, and MalformedTree.

        Two folders of the same id aren't read: they hold the same, whatever that is. A path that isn't UTF-8 is shown
        with escapes.
        """
        return sorted(self._of(before, after))

    def _of(self, before: str, after: str) -> Iterator[Changed]:
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
        self.met_empty |= not all(found.values())
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
