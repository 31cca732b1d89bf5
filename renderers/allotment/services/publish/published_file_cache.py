"""Caches the contents of published files that every publish needs, so that a process reads each version of a file once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from allotment.branches.branch import Branch
from allotment.capacity.units import UnitClaim
from allotment.lifecycle.published_manifests import (
    find_prunable_job,
    read_predecessor,
    read_prepared_by,
    read_unit_claim,
)
from allotment.manifests import paths
from allotment.manifests.yaml_text import Malformed
from allotment.problems import OperationRefused

T = TypeVar("T")
MAX_ENTRIES = 100_000  # for each of the three caches; an entry has about 200 bytes


class PublishedFileCache:
    """The claims of instances, and the predecessors and preparation Jobs of storages, by blob.

    The predecessor of a storage is an earlier storage of the same name.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        # The keys are path and blob, because a claim also has the cluster and the tenant, which come from the path.
        self._claims: dict[tuple[str, str], UnitClaim | None] = {}
        self._predecessors: dict[str, str] = {}
        self._jobs: dict[str, tuple[str, str]] = {}

    def read_claim(self, branch: Branch, cluster: str, tenant: str, instance: str) -> UnitClaim | None:
        """Return the published claim of an instance; None if it is not published, or claims no units."""
        path = paths.resource_file(tenant, "compute", instance)
        blob = branch.files.get(path)
        if blob is None:
            return None
        key = f"{cluster}/{path}", blob
        if key not in self._claims:
            if len(self._claims) >= self._max_entries:
                self._claims.clear()
            self._claims[key] = _read_file(branch, path, lambda data: read_unit_claim(cluster, tenant, data))
        return self._claims[key]

    def read_predecessor(self, branch: Branch, path: str) -> str:
        """Return the uid of the Job that prepared the predecessor of a published storage; empty if none did."""
        blob = branch.files[path]
        if blob not in self._predecessors:
            if len(self._predecessors) >= self._max_entries:
                self._predecessors.clear()
            self._predecessors[blob] = _read_file(branch, path, read_predecessor)
        return self._predecessors[blob]

    def read_prepared_jobs(self, branch: Branch, storage_paths: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """Return two Jobs for the path of each storage. At least one of them is empty.

        The first Job prepared the storage, according to a record in the published file. If an older version of
        Allotment published the file without such a record, the second Job is the preparation Job in the file.
        """
        paths = list(storage_paths)
        unread = [path for path in paths if branch.files[path] not in self._jobs]
        if len(self._jobs) + len(unread) > self._max_entries:
            self._jobs.clear()
            unread = paths
        for path, data in zip(unread, branch.read_all(unread), strict=True):
            job = read_prepared_by(data)
            self._jobs[branch.files[path]] = job, "" if job else find_prunable_job(data)
        return {path: self._jobs[branch.files[path]] for path in paths}


def _read_file(branch: Branch, path: str, read: Callable[[bytes], T]) -> T:
    """Return the result of `read` for a published file. Raises OperationRefused if no version of Allotment writes such a file."""
    try:
        return read(branch.read(path))
    except (Malformed, UnicodeDecodeError):
        raise OperationRefused(
            f"{path} in rendered/{branch.cluster} is a file that Allotment does not write: move the branch and"
            f" refs/allotment/published/{branch.cluster} back to the last commit of the publisher"
        ) from None
