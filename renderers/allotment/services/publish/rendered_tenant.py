"""Holds the rendered manifests of each tenant, from this publish or an earlier publish, and renders tenants again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.capacity.units import UnitClaim
from allotment.preparation.runtime_state import RuntimeState
from allotment.services.check.repository_check import RepositoryCheck
from allotment.services.check.workers import TenantCheck, run_batches
from allotment.services.publish.published_trees import Blobs, PublishedTrees, RenderedBlobs
from allotment.services.publish.rendered_file_store import RenderedFileStore
from allotment.services.publish.renderer import FindGate, Renderer, build_gate
from allotment.services.publish.tenant_retention import RetentionByTenant, rejection

ReducedUnits = Mapping[
    tuple[str, str], int
]  # units by tenant and instance, for each instance that gets fewer than it declares


class RenderedTenant(NamedTuple):
    """The rendered manifests of a tenant: the blob of every file, and the claims of the tenant.

    `data` has the bytes of new or changed files, except for files with a blob in the repository. `read_blob` reads
    such a blob.
    """

    blobs: Blobs
    data: Mapping[str, bytes]
    claims: tuple[UnitClaim, ...]
    read_blob: Callable[[str], bytes] | None = None

    def read_file(self, path: str) -> bytes:
        """Return the bytes of a rendered file."""
        if path in self.data or self.read_blob is None:
            return self.data[path]
        return self.read_blob(self.blobs[path])


def build_rendered_tenant(
    changed_blobs: RenderedBlobs | None,
    claims: tuple[UnitClaim, ...],
    read_blob: Callable[[str], bytes] | None = None,
) -> RenderedTenant:
    """Return the rendered tenant with the files of a renderer's result, `changed_blobs`."""
    files = changed_blobs or {}
    return RenderedTenant(
        {path: blob for path, (blob, _) in files.items()},
        {path: data for path, (_, data) in files.items() if data is not None},
        claims,
        read_blob,
    )


class RerenderResult(NamedTuple):
    """The tenants that were rendered again, the rejected tenants, and the tracebacks of bugs, by tenant."""

    rendered_tenants: dict[str, RenderedTenant]
    rejected_tenants: RetentionByTenant
    tracebacks: dict[str, str]


class Rerenderer:
    """Renders tenants again: with fewer units than they declare, or because the cache lacks the bytes of a file."""

    def __init__(
        self,
        source: Source,
        repository_check: RepositoryCheck,
        published_trees: PublishedTrees,
        processes: int,
        store: RenderedFileStore | None = None,
        find_gate: FindGate = build_gate,
    ) -> None:
        self._source, self._check, self._published_trees = source, repository_check, published_trees
        self._processes, self._store, self._find_gate = processes, store or RenderedFileStore(), find_gate

    def render_tenants(self, tenants: Iterable[str], fewer: ReducedUnits = MappingProxyType({})) -> RerenderResult:
        """Render tenants again; `fewer` has the units of the instances that get fewer than they declare.

        A tenant that is valid as declared may be rejected with fewer units.
        """

        def find_runtime_state(tenant: str) -> RuntimeState:
            allocated_units = {instance: units for (owner, instance), units in fewer.items() if owner == tenant}
            return self._check.runtime_states(tenant)._replace(allocated_units=allocated_units)

        work = TenantCheck(
            self._source,
            self._check.valid_catalog,
            Renderer(self._published_trees.compare_rendered, find_gate=self._find_gate),
            False,
            find_runtime_state,
        )
        rerender_result = RerenderResult({}, {}, {})
        with self._store:
            for result in run_batches(work, sorted(tenants), self._processes):
                wrong = [problem for problem in result.problems if not problem.warning]
                if result.artifact is None and wrong:
                    rerender_result.rejected_tenants[result.name] = rejection(wrong)
                else:
                    artifact = self._store.put(result.name, result.artifact)
                    claims = result.tally_entry.claims
                    rerender_result.rendered_tenants[result.name] = build_rendered_tenant(
                        artifact, claims, self._store.read_blob
                    )
                if result.traceback:
                    rerender_result.tracebacks[result.name] = result.traceback
        return rerender_result


def find_tenants_missing_bytes(rendered: Mapping[str, RenderedTenant], published_trees: PublishedTrees) -> list[str]:
    """Return the tenants with a file that must be written but has no bytes in the cache.

    `rendered` are tenants that an earlier publish rendered. They are also rendered again because the published files,
    with which `PublishedTrees.compare_rendered` compares, have changed since then.
    """
    return [
        tenant
        for tenant, rendered_tenant in rendered.items()
        if any(
            path not in rendered_tenant.data and published_trees.find_blob(path) != blob
            for path, blob in rendered_tenant.blobs.items()
        )
    ]
