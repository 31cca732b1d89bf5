"""Reads the declarations in a commit or tree from Git's blobs, without a checkout."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from allotment.adapters.declaration_source import MAX_DEPTH, MAX_FILES, ScopeFiles, content_key, path_problem
from allotment.adapters.file_cache import FileCache, program_key
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import ChangedFile, TreeComparison
from allotment.adapters.git.trees import LINK, REGULAR, SUBMODULE, TREE, File, MalformedTree, check_limits
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import ROOTS, Scope, scope_of
from allotment.problems import OperationRefused, Problem

READ_AHEAD_FILES = 200  # files of a scope that are read with one request
_IRREGULAR_KINDS = {LINK: "a symbolic link", SUBMODULE: "a submodule"}
_LISTING_NAME = "listing"  # the only value in the cache

OpenListings = Callable[[str, Any], FileCache]  # takes a key and the type of the values


class ListedScope(NamedTuple):
    """The files of a scope with their blobs, sorted by path, and their content key."""

    kind: str
    name: str
    content_key: str
    files: list[tuple[str, str]]


class TreeListing(NamedTuple):
    """The regular files below the roots of a tree, by scope."""

    tree: str
    scopes: list[ListedScope]


class TreeSource:
    """The declarations in a tree of Git, such as the tree of a commit or of a merge result.

    `like` is another source of the same repository. If `like` has a listing already, only the differences from that
    listing are read.
    """

    def __init__(self, repository: Repository, tree: str, like: TreeSource | None = None) -> None:
        self.repository = repository
        self.tree = tree
        self._similar_source = like
        self._blobs: dict[str, str] = {}
        self._files: dict[Scope, list[tuple[str, str]]] = {}
        self._content_keys: dict[Scope, str] = {}
        self._problems: list[Problem] = []
        self._is_listed = False
        self._read_ahead: dict[str, bytes] = {}
        self._prefetched: dict[str, bytes] = {}

    @classmethod
    def from_listing(cls, repository: Repository, listing: TreeListing) -> TreeSource:
        """Return the source of a tree from its exported listing. The tree is not read."""
        source = TreeSource(repository, listing.tree)
        for kind, name, key, files in listing.scopes:
            scope = Scope(kind, name)
            source._blobs.update(files)
            source._files[scope], source._content_keys[scope] = files, key
        source._is_listed = True
        return source

    def export_listing(self) -> TreeListing | None:
        """Return the listing of the tree; None if the tree has files that can't be declarations."""
        self._load_listing()
        if self._problems:
            return None
        scopes = [
            ListedScope(scope.kind, scope.name, self._compute_content_key(scope), files)
            for scope, files in sorted(self._files.items())
        ]
        return TreeListing(self.tree, scopes)

    def with_changes(self, tree: str, blobs: Mapping[str, str]) -> TreeSource:
        """Return a source for `tree`, which must differ from this source's tree only in regular files of scopes.

        `blobs` maps the path of each changed file to its new blob; the blob is empty if the file is removed. The
        listing of the new source is computed from `blobs`, so `tree` is not read. Raises LimitExceeded.
        """
        self._load_listing()
        source = TreeSource(self.repository, tree)
        source._inherit_listing(self, blobs)
        return source

    def _inherit_listing(self, other: TreeSource, blobs: Mapping[str, str]) -> None:
        """Copy another source's listing, and apply `blobs` to it as in `with_changes`. Raises LimitExceeded."""
        self._blobs, self._problems, self._files = dict(other._blobs), list(other._problems), dict(other._files)
        changed_scopes = {scope_of(path) for path in blobs}
        for path, blob in blobs.items():
            scope = scope_of(path)
            files = [file for file in self._files.pop(scope, []) if file[0] != path]
            self._blobs.pop(path, None)
            if blob:
                self._blobs[path] = blob
                files.append((path, blob))
            if files:
                self._files[scope] = sorted(files)
        self._content_keys = {scope: key for scope, key in other._content_keys.items() if scope not in changed_scopes}
        if not self._blobs.keys() <= other._blobs.keys():  # without a new path, no limit can be exceeded
            check_limits(self._blobs, MAX_FILES)
        self._is_listed = True

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the sorted scopes that have files, and a problem for each file that can't be a declaration.

        The tree is listed only once, because it never changes.
        """
        self._load_listing()
        return sorted(self._files), self._problems

    def list_folders(self, root: str) -> list[str]:
        """Return the sorted names of the folders directly below a root. Lists no other part of the tree."""
        entry = self.repository.trees.find_entry(self.tree, root)
        if entry is None or entry.mode != TREE:
            return []
        ((_, entries),) = self.repository.trees.read([entry.id])
        return sorted(name.decode("utf-8", "surrogateescape") for mode, name, _ in entries if mode == b"40000")

    def _load_listing(self) -> None:
        if self._is_listed or self._try_inherit_listing(self._similar_source):
            return
        # An earlier listing may have raised halfway.
        self._blobs, self._files, self._problems, self._content_keys = {}, {}, [], {}
        grouped: dict[Scope, list[tuple[str, str]]] = {}
        for file in self._regular_files():
            path = file.path
            if path.count("/") == 1 and not path.startswith("platform/"):
                if not path.endswith("/README.md"):
                    self._problems.append(
                        path_problem(path, "no declaration belongs here: move or remove it", "layout")
                    )
                continue
            self._blobs[path] = file.id
            grouped.setdefault(scope_of(path), []).append((path, file.id))
        self._files, self._is_listed = {scope: sorted(files) for scope, files in grouped.items()}, True

    def _try_inherit_listing(self, other: TreeSource | None) -> bool:
        """Copy another source's listing and apply the differences to it. Return whether this was possible.

        This is not possible if `other` isn't listed, if either tree has irregular files, or if a limit is exceeded.
        """
        self._similar_source = None
        if other is None or not other._is_listed or other._problems:
            return False
        comparison = TreeComparison(self.repository.trees)
        try:
            if other.tree == self.tree:
                self._inherit_listing(other, {})
                return True
            differing = comparison.compare(other.tree, self.tree)
            declared = [change for change in differing if change.path.split("/")[0] in ROOTS]
            if comparison.has_empty_folder or not all(map(_is_scope_file, declared)):
                return False
            self._inherit_listing(other, {change.path: change.blob for change in declared})
        except (LimitExceeded, MalformedTree):  # a full listing reads only the declarations, so it may succeed
            return False
        return True

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's files. The content hash is computed from the ids of their blobs, and is also the stamp."""
        self._load_listing()
        files = self._files.get(scope, [])
        key = self._compute_content_key(scope)
        return ScopeFiles(tuple(path for path, _ in files), (), key, key)

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether the scope's blobs equal the blobs from which the stamp was computed."""
        return scope in self._files and bool(stamp == self._compute_content_key(scope))

    def _compute_content_key(self, scope: Scope) -> str:
        """Return the content key of a scope's files. Each key is computed once."""
        key = self._content_keys.get(scope)
        if key is None:
            key = self._content_keys[scope] = content_key(self._files.get(scope, []))
        return key

    def read(self, path: str) -> bytes:
        """Return a file's bytes. Raises KeyError if there is no such file.

        If the tree isn't listed yet, only the folders on the path are read.
        """
        if not self._is_listed:
            return self._read_unlisted(path)
        blob = self._blobs[path]
        data = self._prefetched.get(blob)
        if data is not None:
            return data
        if blob not in self._read_ahead:
            self._read_ahead = self._read_with_neighbors(path)
        return self._read_ahead[blob]

    def prefetch(self, paths: Iterable[str]) -> None:
        """Read files of any scopes with one request, for later calls of `read`. Paths without a file are ignored.

        Drops the files of the previous prefetch, so the caller limits the memory by the number of paths.
        """
        self._load_listing()
        self._prefetched = self._read_blobs(*[self._blobs[path] for path in paths if path in self._blobs])

    def _read_unlisted(self, path: str) -> bytes:
        entry = self.repository.trees.find_entry(self.tree, path)
        if entry is None or entry.mode not in REGULAR:
            raise KeyError(path)
        return self._read_blobs(entry.id)[entry.id]

    def _read_with_neighbors(self, path: str) -> dict[str, bytes]:
        """Return the bytes of a file and of the next files of its scope, by blob: callers usually read those next.

        A file that exceeds the size limit isn't read. Instead of its bytes, the result has blanks that exceed the limit
        too.
        """
        files = self._files[scope_of(path)]
        at = bisect_left(files, (path, ""))
        return self._read_blobs(*[blob for _, blob in files[at : at + READ_AHEAD_FILES]])

    def _read_blobs(self, *blobs: str) -> dict[str, bytes]:
        large = b" " * (MAX_BYTES + 1)
        read = self.repository.objects.read(blobs, "blob", MAX_BYTES)
        return {blob: large if data is None else data for blob, data in read}

    def blob(self, path: str) -> str | None:
        """Return the id of a file's blob; None if there is no such file."""
        self._load_listing()
        return self._blobs.get(path)

    def _regular_files(self) -> Iterator[File]:
        """Yield the regular files below the roots, and record other files as problems. Raises LimitExceeded and
        MalformedTree."""
        for file in self.repository.trees.walk(self.tree, MAX_FILES, ROOTS, MAX_DEPTH):
            if fault := _irregular_file_error(file):
                self._problems.append(path_problem(file.path, fault, "layout"))
            else:
                yield file


class CommitSource(TreeSource):
    """The declarations in a commit. In the work tree, the folder of the declarations is `root`.

    A caller that has opened the repository passes it as `repository`, so that the caller and this source share one Git
    process.
    """

    def __init__(
        self, root: Path, ref: str, repository: Repository | None = None, like: TreeSource | None = None
    ) -> None:
        repository = repository or Repository(root)
        self.root = root
        self.commit = repository.resolve_named_commit(ref)
        prefix = repository.folder_prefix(root)
        tree = repository.tree_of(self.commit, prefix)
        if tree is None:
            raise OperationRefused(f"commit {self.commit[:12]} has no folder {prefix}")
        super().__init__(repository, tree, like)


def open_listed_commit(
    root: Path, ref: str, repository: Repository, open_listings: OpenListings | None, *, saves: bool = True
) -> CommitSource:
    """Return a commit. The listing of 20,000 files takes 0.25 s, so a cache keeps the last listing.

    Without a cache, or if the repository no longer has the listed tree, the whole commit is listed when a caller first
    needs it. With `saves`, the listing of this commit replaces the cached listing.
    """
    if open_listings is None:
        return CommitSource(root, ref, repository)
    cache = open_listings(program_key(), TreeListing)
    listing: TreeListing | None = cache.values.get(_LISTING_NAME)
    similar = None
    if listing is not None and repository.has_object(listing.tree):
        similar = TreeSource.from_listing(repository, listing)
    source = CommitSource(root, ref, repository, similar)
    is_new = listing is None or listing.tree != source.tree
    if saves and is_new and (exported := source.export_listing()) is not None:
        cache.put(_LISTING_NAME, exported)
        cache.save()
    return source


def _irregular_file_error(file: File) -> str:
    """Return the reason that a file can't be a declaration; empty if it can."""
    if file.mode == TREE:
        return "no declaration lies so deep: remove it"
    if any("\udc80" <= letter <= "\udcff" for letter in file.path):
        return "has a name that is not UTF-8: rename it"
    if file.mode not in REGULAR:
        return f"is {_IRREGULAR_KINDS[file.mode]}: replace it by the file itself"
    return "" if "/" in file.path else "is not a folder: remove it"


def _is_scope_file(change: ChangedFile) -> bool:
    """Return whether a difference is between regular files at paths that a scope may have."""
    depth = change.path.count("/")
    return (
        {change.old_mode, change.mode} <= {"", *REGULAR}
        and "\\" not in change.path  # a backslash may be the escape of a byte that is not UTF-8
        and (depth > 1 or (depth == 1 and change.path.startswith("platform/")))
        and depth <= MAX_DEPTH
    )
