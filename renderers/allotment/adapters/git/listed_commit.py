"""Opens a commit, and lists its files from the cached listing of an earlier commit and the differences of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.adapters.file_cache import FileCache, program_key
from allotment.adapters.git.commit_source import CommitSource, TreeListing, TreeSource
from allotment.adapters.git.repository import Repository

_NAME = "listing"  # the only value in the cache


OpenListings = Callable[[str, Any], FileCache]  # takes a key and the type of the values


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
    listing: TreeListing | None = cache.values.get(_NAME)
    similar = None
    if listing is not None and repository.has_object(listing.tree):
        similar = TreeSource.from_listing(repository, listing)
    source = CommitSource(root, ref, repository, similar)
    is_new = listing is None or listing.tree != source.tree
    if saves and is_new and (exported := source.export_listing()) is not None:
        cache.put(_NAME, exported)
        cache.save()
    return source
