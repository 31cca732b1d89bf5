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


def of_made(changed_blobs: Made | None, claims: tuple[Claim, ...]) -> Rendered:
    """Return what a tenant was rendered to just now."""
    files = changed_blobs or {}
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

    def __init__(self, source: Source, repository_check: Survey, published_trees: Before, processes: int) -> None:
        self._source, self._found, self._before, self._processes = source, repository_check, published_trees, processes

    def render(self, tenants: Iterable[str], fewer: Fewer = MappingProxyType({})) -> Rerendered:
        """Render tenants with `fewer` units. The gate may reject a tenant with the units that it gets now."""

        def standing(tenant: str) -> Standing:
            allocated_units = {instance: units for (owner, instance), units in fewer.items() if owner == tenant}
            return self._found.standings(tenant)._replace(granted=allocated_units)

        work = TenantCheck(self._source, self._found.sound_offers, Renderer(self._before.made), False, standing)
        rerender_result = Rerendered({}, {}, {})
        for result in results(work, sorted(tenants), self._processes):
            wrong = [problem for problem in result.problems if not problem.warning]
            if result.made is None and wrong:
                rerender_result.rejected[result.name] = rejection(wrong)
            else:
                rerender_result.rendered[result.name] = of_made(result.made, tenants_part(result.part).claims)
            if result.trace:
                rerender_result.traces[result.name] = result.trace
        return rerender_result


def complete(rendered: Mapping[str, Rendered], published_trees: Before) -> list[str]:
    """Return the tenants some file of which must be written now, and whose bytes weren't remembered."""
    return [
        tenant
        for tenant, rendered_tenant in rendered.items()
        if any(
            path not in rendered_tenant.data and published_trees.blob(path) != blob
            for path, blob in rendered_tenant.blobs.items()
        )
    ]
