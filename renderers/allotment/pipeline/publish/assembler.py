"""Assembles what is published again and again, rendering only what changed since."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Mapping

from allotment.adapters.memory import Memory
from allotment.adapters.source import Source
from allotment.pipeline.check.share import SECONDS
from allotment.pipeline.check.survey import Survey, survey
from allotment.pipeline.check.workers import cores
from allotment.pipeline.publish.assembling import Assembling
from allotment.pipeline.publish.assembly import Assembly, Blobs, Branches, compared
from allotment.pipeline.publish.known import Known
from allotment.pipeline.publish.preparations import Preparations
from allotment.pipeline.render import tenants_with
from allotment.problems import AllotmentError, Problem
from allotment.readiness.standing import Job, Standing


class PlatformInvalid(AllotmentError):
    """What the platform itself declares is wrong, so that nothing can be published."""

    def __init__(self, problems: list[Problem], files: int, tenants: int) -> None:
        super().__init__("what the platform declares is wrong")
        self.problems = problems
        self.files = files
        self.tenants = tenants


class Assembler:
    """Assembles trees again and again; it renders only the tenants that changed since it last did.

    A tenant that takes more than `share` seconds of processor time is kept as it was published.
    """

    def __init__(
        self,
        processes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        share: float | None = SECONDS,
    ) -> None:
        self._share = share
        self._processes = processes or cores()
        self._progress = progress
        self._memory = Memory.none()
        self._rendered: dict[str, Blobs] = {}
        self._prepared: dict[str, frozenset[Job]] = {}

    def assemble(
        self,
        source: Source,
        as_of: datetime.date,
        branches: Branches,
        known: Mapping[str, Known],
        observed: Mapping[str, str] | None = None,
    ) -> Assembly:
        """Return what follows what `branches` hold, by what is known of each tenant, and when each cluster was last looked at.

        Raises PlatformInvalid.
        """
        for branch in branches.values():
            _ = branch.files  # listed once, before other processes are forked
        prepared = Preparations(known, branches).succeeded()
        self._forget_changed(prepared)
        each = tenants_with(lambda files: compared(files, branches))
        found = survey(
            source,
            as_of,
            recall=self._recall,
            each=each,
            progress=self._progress,
            processes=self._processes,
            standings=lambda tenant: Standing(prepared.get(tenant, frozenset())),
            share=self._share,
        )
        wrong = _by_tenant(found)
        self._remember(found)
        return Assembling(
            source, found, branches, wrong, self._rendered, known, observed or {}, self._processes
        ).assembly()

    def _forget_changed(self, prepared: Mapping[str, frozenset[Job]]) -> None:
        """A tenant of whose preparations something else is known now is rendered again."""
        for tenant in prepared.keys() | self._prepared.keys():
            if prepared.get(tenant) != self._prepared.get(tenant):
                self._memory.forget(tenant)
        self._prepared = dict(prepared)

    def _recall(self, key: str) -> Memory:
        if self._memory.key != key:
            self._memory, self._rendered = Memory(None, key, {}), {}
        return self._memory

    def _remember(self, found: Survey) -> None:
        for tenant in self._rendered.keys() - found.parts.keys():
            del self._rendered[tenant]
        for tenant, made in found.made.items():
            self._rendered[tenant] = {path: blob for path, (blob, _) in (made or {}).items()}

    @property
    def rendered(self) -> Mapping[str, Blobs]:
        """What each tenant was last rendered to."""
        return self._rendered


def _by_tenant(found: Survey) -> dict[str, list[Problem]]:
    """Return the errors of each tenant. Raises PlatformInvalid where the platform's own are."""
    wrong: dict[str, list[Problem]] = defaultdict(list)
    stops = []
    for problem in found.of_offers:
        parts = problem.path.split("/")
        if problem.warning or (parts[0] == "tenants" and len(parts) < 3):
            continue
        if parts[0] == "tenants":
            wrong[parts[1]].append(problem)
        else:
            stops.append(problem)
    if stops:
        raise PlatformInvalid(sorted(stops), found.files, len(found.parts))
    for tenant, problems in found.by_tenant.items():
        if errors := [problem for problem in problems if not problem.warning]:
            wrong[tenant] += errors
    return wrong
