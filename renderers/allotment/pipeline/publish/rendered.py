"""What each tenant is rendered to: now or, where nothing of it has changed, in a publish before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from allotment.accounts.capacity import Claim
from allotment.adapters.source import Source
from allotment.pipeline.check.survey import Survey, tenants_part
from allotment.pipeline.check.workers import TenantCheck, results
from allotment.pipeline.publish.before import Before, Blobs, Made
from allotment.pipeline.publish.kept import Kept, rejection
from allotment.pipeline.render import Renderer
from allotment.readiness.standing import Standing

Fewer = Mapping[tuple[str, str], int]  # by tenant and instance: the units of one that gets fewer than it declares


class Rendered(NamedTuple):
    """What a tenant is rendered to: the blob of every file, the bytes of those that aren't published so, and what
    it claims."""

    blobs: Blobs
    data: Mapping[str, bytes]
    claims: tuple[Claim, ...]


def of_made(made: Made | None, claims: tuple[Claim, ...]) -> Rendered:
    """Return what a tenant was rendered to just now."""
    files = made or {}
    return Rendered(
        {path: blob for path, (blob, _) in files.items()},
        {path: data for path, (_, data) in files.items() if data is not None},
        claims,
    )


class Rerendered(NamedTuple):
    """Tenants that were rendered again, those that were rejected, and the traces of bugs, by tenant."""

    rendered: dict[str, Rendered]
    rejected: Kept
    traces: dict[str, str]


class Again:
    """Renders tenants again, with other units than they declare or because only the blobs were remembered."""

    def __init__(self, source: Source, found: Survey, before: Before, processes: int) -> None:
        self._source, self._found, self._before, self._processes = source, found, before, processes

    def render(self, tenants: Iterable[str], fewer: Fewer = MappingProxyType({})) -> Rerendered:
        """Render tenants with `fewer` units. The gate may reject a tenant with the units that it gets now."""

        def standing(tenant: str) -> Standing:
            granted = {instance: units for (owner, instance), units in fewer.items() if owner == tenant}
            return self._found.standings(tenant)._replace(granted=granted)

        work = TenantCheck(self._source, self._found.sound_offers, Renderer(self._before.made), False, standing)
        again = Rerendered({}, {}, {})
        for result in results(work, sorted(tenants), self._processes):
            wrong = [one for one in result.problems if not one.warning]
            if result.made is None and wrong:
                again.rejected[result.name] = rejection(wrong)
            else:
                again.rendered[result.name] = of_made(result.made, tenants_part(result.part).claims)
            if result.trace:
                again.traces[result.name] = result.trace
        return again


def complete(rendered: Mapping[str, Rendered], before: Before) -> list[str]:
    """Return the tenants some file of which must be written now, and whose bytes weren't remembered."""
    return [
        tenant
        for tenant, one in rendered.items()
        if any(path not in one.data and before.blob(path) != blob for path, blob in one.blobs.items())
    ]
