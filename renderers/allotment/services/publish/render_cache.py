"""Caches the last rendered blobs of each tenant, so that an unchanged tenant is not read again.

The cache is in the memory of this process. On request, it is also stored for the next process.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from allotment.adapters.file_cache import FileCache
from allotment.preparation.runtime_state import JobKey
from allotment.services.check.check_options import OpenCache
from allotment.services.check.tenant_results import CachedResult
from allotment.services.publish.published_trees import Blobs

PreparedJobs = Mapping[str, frozenset[JobKey]]


class _CachedRendering(NamedTuple):
    """An entry of the persistent cache: the check's result, the rendered blobs, and the Jobs, None if they are unknown."""

    result: CachedResult
    blobs: Blobs
    jobs: list[JobKey] | None


class RenderCache:
    """The accepted tenants of a check, with their rendered blobs and the Jobs that have prepared their storages.

    If a check finds a tenant in its own cache, it does not render the tenant, and the publish uses the blobs in the
    RenderCache. `open_persistent` returns a cache that outlives this process. The persistent cache stores the check's
    result, the blobs and the Jobs of a tenant in one entry, so that the three always match.
    """

    def __init__(self, open_persistent: OpenCache | None = None) -> None:
        self._open_persistent = open_persistent
        self._persistent = FileCache.disabled()
        self.clear()

    def clear(self) -> None:
        """Clear the cache of this process."""
        self._memory = FileCache.disabled()
        self._prepared_jobs: dict[str, frozenset[JobKey]] = {}
        self.rendered_blobs: dict[str, Blobs] = {}

    def bind_prepared_jobs(self, prepared: PreparedJobs) -> OpenCache:
        """Return a function that opens the check's cache.

        `prepared` has the Jobs that have succeeded, by tenant. If the Jobs of a tenant have changed since the last
        call, the cache lacks the tenant, so that the check renders it again.
        """
        return partial(self._open_memory, prepared)

    def _open_memory(self, prepared: PreparedJobs, key: str, _: Any) -> FileCache:  # memory needs no type
        if self._memory.key != key:
            self.clear()
            self._memory = FileCache(None, key, {})
            self._persistent = (
                self._open_persistent(key, _CachedRendering)
                if self._open_persistent is not None
                else FileCache.disabled()
            )
            for tenant, (memory_value, blobs, jobs) in self._persistent.values.items():
                self._memory.values[tenant], self.rendered_blobs[tenant] = memory_value, blobs
                if jobs is not None:
                    self._prepared_jobs[tenant] = frozenset(jobs)
        for tenant in prepared.keys() | self._prepared_jobs.keys():
            if prepared.get(tenant) != self._prepared_jobs.get(tenant):
                self._memory.remove(tenant)
        self._prepared_jobs = dict(prepared)
        return self._memory

    def store(self, now: Mapping[str, Blobs], declared: Mapping[str, object]) -> None:
        """Store the rendered blobs of tenants, and drop the tenants that are no longer declared."""
        for tenant in self.rendered_blobs.keys() - declared.keys():
            del self.rendered_blobs[tenant]
        self.rendered_blobs |= now
        if self._open_persistent is None:
            return
        for tenant in now.keys() & self._memory.values.keys():
            jobs = self._prepared_jobs.get(tenant)
            plain = sorted(jobs) if jobs is not None else None
            self._persistent.put(
                tenant, _CachedRendering(self._memory.values[tenant], self.rendered_blobs[tenant], plain)
            )
        self._persistent.keep_only(self._memory.values.keys() & self.rendered_blobs.keys())
        self._persistent.save()
