"""What each tenant was last rendered to: who is as it was then isn't read again, in this process or, where that is
asked for, in the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from allotment.adapters.memory import Memory
from allotment.pipeline.check.survey import Recall
from allotment.pipeline.publish.before import Blobs
from allotment.readiness.standing import Job

Prepared = Mapping[str, frozenset[Job]]


class Remembered:
    """What a survey found fine, and with it what those tenants were rendered to and what was known of them.

    One without the other would be published as if it hadn't changed, or had nothing; so `recall`, which returns a
    memory that outlives this process, has them under one name.
    """

    def __init__(self, recall: Recall | None = None) -> None:
        self._recall = recall
        self._lasting = Memory.none()
        self.forget()

    def forget(self) -> None:
        """Forget everything that this process knows."""
        self._memory = Memory.none()
        self._prepared: dict[str, frozenset[Job]] = {}
        self.rendered: dict[str, Blobs] = {}

    def recall(self, prepared: Prepared) -> Recall:
        """Return what returns a survey's memory, without those tenants of whose preparations something else is known
        now; `prepared` has the Jobs that have succeeded."""
        return partial(self._recalled, prepared)

    def _recalled(self, prepared: Prepared, key: str) -> Memory:
        if self._memory.key != key:
            self.forget()
            self._memory = Memory(None, key, {})
            self._lasting = self._recall(key) if self._recall is not None else Memory.none()
            for tenant, (memory_value, blobs, jobs) in self._lasting.values.items():
                self._memory.values[tenant], self.rendered[tenant] = memory_value, blobs
                if jobs is not None:
                    self._prepared[tenant] = frozenset((cluster, job) for cluster, job in jobs)
        for tenant in prepared.keys() | self._prepared.keys():
            if prepared.get(tenant) != self._prepared.get(tenant):
                self._memory.forget(tenant)
        self._prepared = dict(prepared)
        return self._memory

    def take(self, now: Mapping[str, Blobs], declared: Mapping[str, object]) -> None:
        """Remember what tenants are rendered to now, of those that are declared."""
        for tenant in self.rendered.keys() - declared.keys():
            del self.rendered[tenant]
        self.rendered |= now
        if self._recall is None:
            return
        for tenant in now.keys() & self._memory.values.keys():
            jobs = self._prepared.get(tenant)
            plain = sorted(jobs) if jobs is not None else None
            self._lasting.put(tenant, [self._memory.values[tenant], self.rendered[tenant], plain])
        self._lasting.keep_only(self._memory.values.keys() & self.rendered.keys())
        self._lasting.save()
