"""Reads trees, and refuses trees that Git wouldn't write, so that all readers see the same files.

Git itself accepts a tree in which two entries have the same name, and its commands differ in which of the two they use.
With such a tree, Allotment could publish another file than the reviewers saw. `git fsck` finds such trees. By default,
neither a push to a plain repository nor a fetch runs `git fsck`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.adapters.git.object_reader import OBJECT_ID, LimitExceeded, ObjectInfo, ObjectReader
from allotment.problems import OperationRefused, escape_unprintable

TREE, LINK, SUBMODULE = "40000", "120000", "160000"
REGULAR = ("100644", "100755")
_MODES = {mode.encode(): mode for mode in (TREE, *REGULAR, LINK, SUBMODULE)}
MAX_TREE_BYTES = 8 << 20  # bytes of one tree
MAX_NAME_BYTES = 4096  # bytes of one name, as in git fsck
# The field with the signature of a commit, by the length of the commit's id (SHA-1 or SHA-256).
_SIGNATURE_FIELDS = {40: b"gpgsig", 64: b"gpgsig-sha256"}
_SIGNATURE = re.compile(rb"\n(gpgsig(?:-sha256)?) ([^\n]*(?:\n [^\n]*)*)")
MAX_COMMIT_BYTES = 1 << 20  # bytes of one commit
MAX_DEPTH = 64
_LARGE_TREE = 1000  # entries from which a tree is cached
_MAX_CACHED_BYTES = 32 << 20  # of all cached trees together
_ENTRY_BYTES = 230  # the memory of an entry without its name
PATH_BYTES = 128  # if a limit is n files, all paths together may have n * PATH_BYTES bytes

_ENTRY = {
    digest: re.compile(
        rb"(40000|100644|100755|120000|160000) ([^\0/]{1,%d})\0(.{%d})" % (MAX_NAME_BYTES, digest), re.DOTALL
    )
    for digest in (20, 32)
}
_ENTRIES = {digest: re.compile(rb"(?:%s)*+" % entry.pattern, re.DOTALL) for digest, entry in _ENTRY.items()}
_NULL = {digest: bytes(digest) for digest in (20, 32)}
_ANY_ENTRY = {digest: re.compile(rb"([0-7]+) ([^\0]*)\0(.{%d})" % digest, re.DOTALL) for digest in (20, 32)}
# All names that Windows or macOS treat as `.git`: `.git` in upper or lower case and `git~1`, also with trailing dots
# and spaces, with the name of a stream after a colon, or with characters that HFS+ ignores or at which HFS+ cuts the
# name.
_GIT_FOLDER = re.compile(
    "(?:\\A|\\\\)(?:\\.git|git~1)[. ]*(?:\\Z|[\\\\:\udc80-\udcff\ufffe\uffff])", re.IGNORECASE | re.ASCII
)
_IGNORED_CHARACTERS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SUSPICIOUS_NAME = re.compile(rb"[\\\x80-\xff]|[gG][iI][tT]|(?:\A|\0)\.\.?(?:\0|\Z)")
_TREE_LINE = re.compile(rb"tree [0-9a-f]{40,64}")  # the first line of a commit


class MalformedTree(OperationRefused):
    """A tree that Git doesn't write. The whole commit that contains it is refused."""

    def __init__(self, tree: str, fault: str) -> None:
        super().__init__(
            f"tree {tree} is malformed: {fault}. Git writes no such tree, so nothing of its commit is read; go back to the commit"
            " before it (docs/operate/repository.md)"
        )


class Entry(NamedTuple):
    """The mode of a tree's entry, spelled as in the tree, and the id of its object in hexadecimal."""

    mode: str
    id: str


class File(NamedTuple):
    """A file, symbolic link or submodule in a tree, or a folder that `walk` doesn't read.

    A path that isn't UTF-8 contains surrogates.
    """

    path: str
    mode: str
    id: str


def parse_entries(tree: str, data: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return the mode, name and raw id of each entry of a tree object. Raises MalformedTree."""
    digest = len(tree) // 2
    tree_entries: list[tuple[bytes, bytes, bytes]] = _ENTRY[digest].findall(data)
    names = [name for _, name, _ in tree_entries]
    if not _ENTRIES[digest].fullmatch(data) or (len(tree_entries) > 1 and not _is_sorted(tree_entries, names)):
        raise MalformedTree(tree, _tree_fault(data, digest))
    if _NULL[digest] in data or _SUSPICIOUS_NAME.search(b"\0".join(names)):
        for _, name, raw_id in tree_entries:
            if wrong := _entry_fault(name, raw_id):
                raise MalformedTree(tree, wrong)
    return tree_entries


def _is_sorted(tree_entries: list[tuple[bytes, bytes, bytes]], names: list[bytes]) -> bool:
    """Return whether a tree has no duplicate name and is in Git's order, which sorts a folder as `name/`."""
    keys = [name + b"/" if mode == b"40000" else name for mode, name, _ in tree_entries]
    return keys == sorted(keys) and len(set(names)) == len(names)


def _entry_fault(name: bytes, raw: bytes) -> str:
    """Return the fault of a single entry; empty if it has none."""
    displayed_name = _display_name(name)
    if not name:
        return "an entry has no name"
    if b"/" in name:
        return f"the name {displayed_name} has a slash"
    if name in (b".", b".."):
        return f"an entry is named {displayed_name}"
    if _GIT_FOLDER.search(_IGNORED_CHARACTERS.sub("", name.decode("utf-8", "surrogateescape"))):
        return f"the name {displayed_name} is Git's own folder, as some file systems read it"
    if len(name) > MAX_NAME_BYTES:
        return f"the name {displayed_name} has more than {MAX_NAME_BYTES:,} bytes"
    return "" if any(raw) else f"{displayed_name} has no object: its id is all zeros"


def _tree_fault(data: bytes, digest: int) -> str:
    """Return the fault of a tree, from its first faulty entry."""
    visited_names: set[bytes] = set()
    at, last = 0, b""
    while at < len(data):
        match = _ANY_ENTRY[digest].match(data, at)
        if match is None:
            return f"byte {at} begins no entry"
        mode, name, raw = match.groups()
        if wrong := _entry_fault(name, raw):
            return wrong
        if mode.decode("ascii") not in (TREE, *REGULAR, LINK, SUBMODULE):
            return f"{_display_name(name)} has the mode {escape_unprintable(mode.decode('ascii'), 20)}"
        if name in visited_names:
            return f"the name {_display_name(name)} stands there twice"
        key = name + b"/" if mode == b"40000" else name
        if key < last:
            return f"the name {_display_name(name)} isn't in its place: names are sorted"
        visited_names.add(name)
        at, last = match.end(), key
    raise AssertionError("a tree without a fault was refused")


def _display_name(name: bytes) -> str:
    return f"'{escape_unprintable(name.decode('utf-8', 'backslashreplace'))}'"


class TreeReader:
    """Reads trees of one repository."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        # The entries of the large trees that were read last. A comparison with the next commit reads them again.
        self._large_trees: dict[str, list[tuple[bytes, bytes, bytes]]] = {}
        self._large_tree_bytes = 0

    def forget(self) -> None:
        """Clear the cache of trees."""
        self._large_trees.clear()
        self._large_tree_bytes = 0

    def root(self, revision: str) -> str:
        """Return the tree of a commit, or the given tree itself. Raises OperationRefused if the object is missing."""
        info = self._objects.info([revision])[revision] if OBJECT_ID.fullmatch(revision) else ObjectInfo("", 0)
        if info.kind == "tree":
            return revision
        if not info.kind:
            raise OperationRefused(f"commit {revision} can't be read here: fetch the whole repository")
        return self.header(revision)[0].removeprefix(b"tree ").decode("ascii")

    def header(self, commit: str) -> list[bytes]:
        """Return the lines of a commit's header. The first line is `tree` and an id. Raises OperationRefused."""
        lines = self._read_commit(commit).partition(b"\n\n")[0].split(b"\n")
        if not _TREE_LINE.fullmatch(lines[0]) or len(lines[0]) != len(b"tree ") + len(commit):
            raise OperationRefused(f"commit {commit} names no tree: whoever wrote it damaged it")
        return lines

    def signed_text(self, commit: str) -> tuple[bytes, bytes]:
        """Return the text of a commit without its signature, and the signature; both empty without a valid field.

        The field must end the header, and no second signature may stand in it. The place of the field is not part of the
        signed text, and Git reads no parents after another field. Raises OperationRefused.
        """
        header, blank, message = self._read_commit(commit).partition(b"\n\n")
        begins = list(_SIGNATURE.finditer(header))
        if len(begins) != 1 or begins[0].end() != len(header) or begins[0][1] != _SIGNATURE_FIELDS.get(len(commit)):
            return b"", b""
        signature = begins[0][2].replace(b"\n ", b"\n") + b"\n"
        return header[: begins[0].start()] + blank + message, signature

    def message(self, commit: str) -> bytes:
        """Return a commit's message. Raises OperationRefused."""
        return self._read_commit(commit).partition(b"\n\n")[2]

    def _read_commit(self, commit: str) -> bytes:
        ((_, data),) = self._objects.read([commit], "commit", MAX_COMMIT_BYTES)
        if data is None:
            raise LimitExceeded(f"commit {commit} has more than {MAX_COMMIT_BYTES:,} bytes")
        return data

    def read(self, ids: Iterable[str]) -> Iterator[tuple[str, list[tuple[bytes, bytes, bytes]]]]:
        """Yield each distinct tree with its entries (`parse_entries`). Raises MalformedTree, LimitExceeded and
        OperationRefused."""
        missing_ids = []
        for tree_id in dict.fromkeys(ids):
            if tree_id in self._large_trees:
                yield tree_id, self._large_trees[tree_id]
            else:
                missing_ids.append(tree_id)
        for tree_id, data in self._objects.read(missing_ids, "tree", MAX_TREE_BYTES):
            if data is None:
                raise LimitExceeded(
                    f"tree {tree_id} has more than {MAX_TREE_BYTES:,} bytes: no folder has so many files"
                )
            tree_entries = parse_entries(tree_id, data)
            if len(tree_entries) >= _LARGE_TREE:
                self._cache_tree(tree_id, tree_entries)
            yield tree_id, tree_entries

    def _cache_tree(self, tree_id: str, tree_entries: list[tuple[bytes, bytes, bytes]]) -> None:
        """Cache a tree, and drop the trees that were cached first if all of them take too much memory."""
        self._large_trees[tree_id] = tree_entries
        self._large_tree_bytes += _count_bytes(tree_entries)
        while self._large_tree_bytes > _MAX_CACHED_BYTES:
            self._large_tree_bytes -= _count_bytes(self._large_trees.pop(next(iter(self._large_trees))))

    def sizes(self, ids: Iterable[str]) -> Mapping[str, ObjectInfo]:
        """Return the kind and size of some trees, without reading them."""
        return self._objects.info(ids)

    def find_entry(self, tree: str, path: str) -> Entry | None:
        """Return the entry at a path; None if there is none. The empty path is the tree itself."""
        entry = Entry(TREE, tree)
        for part in path.encode("utf-8", "surrogateescape").split(b"/") if path else ():
            if entry.mode != TREE:
                return None
            ((_, tree_entries),) = self.read([entry.id])
            mode, raw = next(((mode, raw) for mode, name, raw in tree_entries if name == part), (b"", b""))
            if not mode:
                return None
            entry = Entry(mode.decode("ascii"), raw.hex())
        return entry

    def walk(
        self, tree: str, most: int, roots: Collection[str] | None = None, depth: int = MAX_DEPTH
    ) -> Iterator[File]:
        """Yield the files of a tree, level by level. With `roots`, read only these entries of the top level.

        A folder at level `depth` isn't read, and is yielded like a file. If a tree has several paths at the same level,
        it is read once. Raises MalformedTree. Raises LimitExceeded if there are more than `most` files or folders, or
        if their paths have too many bytes.
        """
        limit = _WalkLimit(most)
        level: dict[str, list[str]] = {tree: [""]}
        root_names = None if roots is None else {root.encode() for root in roots}
        for deep in range(depth + 1):
            below: dict[str, list[str]] = {}
            for tree_id, tree_entries in self.read(level):
                here = level[tree_id]
                if root_names is not None:
                    tree_entries = [entry for entry in tree_entries if entry[1] in root_names]  # noqa: PLW2901
                limit.count_entries(here, tree_entries)
                for path in here:
                    for mode, name, raw in tree_entries:
                        text = path + name.decode("utf-8", "surrogateescape")
                        if mode == b"40000" and deep < depth:
                            below.setdefault(raw.hex(), []).append(text + "/")
                        else:
                            yield File(text, _MODES[mode], raw.hex())
            if not below:
                return
            level, root_names = below, None


def _count_bytes(tree_entries: list[tuple[bytes, bytes, bytes]]) -> int:
    """Return the memory that the entries of a tree take, in bytes."""
    return sum([_ENTRY_BYTES + len(name) for _, name, _ in tree_entries])


class _WalkLimit:
    """Counts the files of a walk before their paths are created, so that a tree can't expand without limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files = self._folders = self._bytes = 0

    def count_entries(self, paths: list[str], tree_entries: list[tuple[bytes, bytes, bytes]]) -> None:
        """Count the entries of a tree once for each of its paths. Raises LimitExceeded."""
        times = len(paths)
        folders = [mode for mode, _, _ in tree_entries].count(b"40000")
        length = sum([len(name) for _, name, _ in tree_entries]) * times + len("".join(paths)) * len(tree_entries)
        self.add((len(tree_entries) - folders) * times, folders * times, length)

    def add(self, files: int, folders: int, length: int) -> None:
        """Count files, folders and the bytes of their paths. Raises LimitExceeded."""
        self._files, self._folders, self._bytes = self._files + files, self._folders + folders, self._bytes + length
        if max(self._files, self._folders) > self._most:
            raise LimitExceeded(f"more than {self._most:,} files: this is not a repository of declarations")
        if self._bytes > self._most * PATH_BYTES:
            raise LimitExceeded(
                f"the paths of its files have more than {self._most * PATH_BYTES:,} bytes: shorten them"
            )


def check_limits(paths: Collection[str], most: int) -> None:
    """Raise LimitExceeded if a tree with these files, and without empty folders, exceeds the limits of `walk`."""
    folders = set[str]()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    length = sum(len(path.encode()) for path in (*paths, *folders))
    _WalkLimit(most).add(len(paths), len(folders), length)
