"""Compares tenants: renders each tenant before and after a change, and compares the results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.capacity.pricing import has_known_cost
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.diff.cost_diff import CostChange, compare_cost
from allotment.diff.declaration_diff import declared_changes, unrendered_changes
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.exposure_changes import ExposureDiff, compare_exposure
from allotment.diff.field_diff import DiffCache
from allotment.diff.file_diff import FileStep, RenderedFileDiff
from allotment.diff.ownership_effects import files_without_tenant_approver
from allotment.diff.plan_permissions import with_plan_permissions
from allotment.diff.tenant_diff import TenantDiff, compare_tenant
from allotment.diff.tenant_side import TenantSide
from allotment.lifecycle.brake import BrakeItem, brake_items
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of, platform_folders
from allotment.preparation.runtime_state import RuntimeState
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate, check_tenant_files

MAX_TEXTS = 400  # files that a plan shows with their texts; the counts and the checksum of a plan cover all files


class TenantComparison(NamedTuple):
    """The comparison of one tenant before and after a change.

    - `diff` is None if the tenant was not rendered (`CompareTask.invalid_tenants`).
    - `cost` is None if the cost is not known.
    - `exposure` has the changes of the addresses and of the access to them.
    - `files` has the changed rendered files.
    - `claims` are the claims of units before and after the change.
    - `brake_items` are the items that the brake counts, before and after the change.
    """

    name: str
    diff: TenantDiff | None
    cost: CostChange | None
    declaration_changes: list[DeclaredChange]
    exposure: ExposureDiff
    files: RenderedFileDiff
    claims: tuple[tuple[Any, ...], tuple[Any, ...]]
    brake_items: tuple[frozenset[BrakeItem], frozenset[BrakeItem]] = (frozenset(), frozenset())


class CompareTask(NamedTuple):
    """The input that a process needs to compare tenants. Each pair has the values before and after the change.

    Of the `invalid_tenants`, only the declarations are compared, because their manifests are not rendered.
    """

    sources: tuple[Source, Source]
    catalogs: tuple[Catalog, Catalog]
    present_tenants: tuple[frozenset[str], frozenset[str]]
    invalid_tenants: Collection[str]
    currency: str

    def load_modules(self) -> None:
        """Load the rules, the manifests and the patterns of the isolation gate."""
        import allotment.manifests.layout
        import allotment.rules  # noqa: F401
        from allotment.isolation.expected_objects import load_patterns

        load_patterns()

    def run_batch(self, names: list[str]) -> list[TenantComparison]:
        """Return the comparisons of some tenants."""
        gate, cache = build_gate(self.catalogs[1]), DiffCache()
        return [self._compare_tenant(name, gate, cache) for name in names]

    def _compare_tenant(self, name: str, gate: Any, cache: DiffCache) -> TenantComparison:
        from allotment.declared.kinds.gpu_storage import GPUStorage
        from allotment.manifests.layout import render_tenant
        from allotment.preparation.job_names import job_name
        from allotment.rules.tally import build_tally_entry

        scope = Scope("tenant", name)
        folders = [
            read_folder(scope, read_scope(source, scope).files)[0] if name in tenant_names else ScopeDeclarations(scope)
            for source, tenant_names in zip(self.sources, self.present_tenants, strict=True)
        ]
        before, after = folders
        ends = [TenantSide(*fields) for fields in zip(self.catalogs, folders, strict=True)]
        declared, files = declared_changes(before, after, self.currency, cache), RenderedFileDiff(MAX_TEXTS)
        declared = [*with_plan_permissions(declared, *ends), *files_without_tenant_approver(*ends)]
        reached = compare_exposure(*ends)
        if name in self.invalid_tenants:
            declared += unrendered_changes(before, after, (), cache)
            cost = compare_cost(*ends) if all(has_known_cost(end.catalog, end.folder) for end in ends) else None
            cost = replace(cost, is_valid=False) if cost is not None else None
            return TenantComparison(
                name=name,
                diff=None,
                cost=cost,
                declaration_changes=declared,
                exposure=reached,
                files=files,
                claims=((), ()),
            )
        done = frozenset(
            (storage.model.spec.cluster, job_name(storage.model.name, storage.model.spec.prepare))
            for storage in folders[0].of_kind(GPUStorage).values()
            if storage.model.spec.prepare is not None
        )
        runtime_state = RuntimeState(done)
        claims = tuple(tuple(build_tally_entry(end.catalog, end.folder, runtime_state).claims) for end in ends)
        rendered = [dict(render_tenant(end.catalog, end.folder, runtime_state)) for end in ends]
        files.add_changes(*rendered)
        new = [(path, data) for path, data in rendered[1].items() if rendered[0].get(path) != data]
        check_tenant_files(gate, ends[1].catalog, after, new)
        sides = [end._replace(files=tenant_files) for end, tenant_files in zip(ends, rendered, strict=True)]
        compared = compare_tenant(sides[0], sides[1], cache)
        reported_paths = {
            RESOURCE_KINDS[resource_change.kind].kind.path.format(tenant=name, name=resource_change.name)
            for resource_change in compared.resource_changes
        }
        declared += unrendered_changes(before, after, reported_paths, cache)
        brake_items = self._list_brake_items(rendered[0]), self._list_brake_items(rendered[1])
        return TenantComparison(
            name=name,
            diff=compared,
            cost=compared.cost_change,
            declaration_changes=declared,
            exposure=reached,
            files=files,
            claims=(claims[0], claims[1]),
            brake_items=brake_items,
        )

    def _list_brake_items(self, files: Iterable[str]) -> frozenset[BrakeItem]:
        """Return the items that the brake counts in a tenant's files.

        Leaves out the items in a cluster that the change removes, because the rendered branch of this cluster stays.
        """
        return brake_items(path for path in files if path.partition("/")[0] in self.catalogs[1].clusters)


def list_platform_markers(steps: Iterable[FileStep], own: Iterable[Mapping[str, bytes]]) -> Iterator[FileStep]:
    """Yield a step for the folder marker of each changed folder that belongs to a cluster itself.

    A step has the path of a file and its blobs before and after the change. The blob of a marker that does not exist is
    None. The blob of an existing marker is empty here, because the marker is not rendered. `own` are the clusters' own
    files before and after the change.
    """
    touched = {folder_of(path) for path, *_ in steps}
    before, after = (
        {
            f"{cluster}/{folder}"
            for cluster in {path.partition("/")[0] for path in side}
            for folder in platform_folders(
                path.removeprefix(f"{cluster}/") for path in side if path.startswith(f"{cluster}/")
            )
        }
        for side in own
    )
    for folder in sorted(before | after):
        if folder in touched or (folder in before) != (folder in after):
            path = f"{folder}/{paths.FOLDER_MARKER}{paths.FILE_SUFFIX}"
            yield path, "" if folder in before else None, "" if folder in after else None
