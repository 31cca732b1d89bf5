"""What becomes of tenants: each is rendered at both ends of a change, in whatever process has it, and compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from allotment.accounts.pricing import is_priced
from allotment.adapters.source import Source
from allotment.changes.allowed import with_allowed
from allotment.changes.approvals import left_to_platform
from allotment.changes.brake import Counted, items_of
from allotment.changes.comparison import Compared, Side, compare
from allotment.changes.declared import DeclaredChange, declared_changes, untold
from allotment.changes.fields import Noted
from allotment.changes.files import Files, Step
from allotment.changes.money import CostChange, cost_change
from allotment.changes.reach import Reach, reach
from allotment.changes.reasons import End
from allotment.declared.inventory import Folder, Offers, blob_id
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.declared.things import THINGS
from allotment.manifests import paths
from allotment.manifests.folders import folder_of, of_platform
from allotment.pipeline.check.workers import read_scope
from allotment.pipeline.render import check_tenant, gate_of
from allotment.readiness.standing import Standing

MOST_TEXTS = 400  # files whose texts a plan holds; all are counted, and in its checksum


class TenantOutcome(NamedTuple):
    """What came of comparing a tenant: None where one of its sides is invalid; what it costs, None where that isn't known; what it declares otherwise, what becomes of its
    addresses, the files that differ, its claims, and what the brake counts of it at both ends."""

    name: str
    compared: Compared | None
    cost: CostChange | None
    declared: list[DeclaredChange]
    reach: Reach
    files: Files
    claims: tuple[tuple[Any, ...], tuple[Any, ...]]
    held: tuple[frozenset[Counted], frozenset[Counted]] = (frozenset(), frozenset())


class Comparing(NamedTuple):
    """What a process needs to compare tenants at both ends."""

    sources: tuple[Source, Source]
    offers: tuple[Offers, Offers]
    there: tuple[frozenset[str], frozenset[str]]
    invalid: Collection[str]
    currency: str

    def check(self, names: list[str]) -> list[TenantOutcome]:
        """Return what becomes of some tenants."""
        gate, noted = gate_of(self.offers[1]), Noted()
        return [self._one(name, gate, noted) for name in names]

    def _one(self, name: str, gate: Any, noted: Noted) -> TenantOutcome:
        from allotment.declared.kinds.gpu_storage import GPUStorage
        from allotment.manifests.tree import render_tenant
        from allotment.readiness.preparation import job_name
        from allotment.rules.tally import part_of

        scope = Scope("tenant", name)
        folders = [
            read_folder(scope, read_scope(source, scope).files)[0] if name in tenant_names else Folder(scope)
            for source, tenant_names in zip(self.sources, self.there, strict=True)
        ]
        before, after = folders
        ends = [End(*fields) for fields in zip(self.offers, folders, strict=True)]
        declared, files = declared_changes(before, after, self.currency, noted), Files(MOST_TEXTS)
        declared = [*with_allowed(declared, *ends), *left_to_platform(*ends)]
        reached = reach(*ends)
        if name in self.invalid:
            declared += untold(before, after, (), noted)
            cost = cost_change(*ends) if all(is_priced(*end) for end in ends) else None
            cost = replace(cost, is_valid=False) if cost is not None else None
            return TenantOutcome(
                name=name, compared=None, cost=cost, declared=declared, reach=reached, files=files, claims=((), ())
            )
        done = frozenset(
            (storage.model.spec.cluster, job_name(storage.model.name, storage.model.spec.prepare))
            for storage in folders[0].of(GPUStorage).values()
            if storage.model.spec.prepare is not None
        )
        standing = Standing(done)
        claims = tuple(tuple(part_of(*end, standing).claims) for end in ends)
        rendered = [dict(render_tenant(*end, standing)) for end in ends]
        take_changed(files, *rendered)
        new = [(path, data) for path, data in rendered[1].items() if rendered[0].get(path) != data]
        check_tenant(gate, *ends[1], new)
        sides = [Side(*fields) for fields in zip(self.offers, folders, rendered, strict=True)]
        compared = compare(sides[0], sides[1], noted)
        reported_paths = {
            THINGS[resource_change.kind].kind.path.format(tenant=name, name=resource_change.name)
            for resource_change in compared.things
        }
        declared += untold(before, after, reported_paths, noted)
        held = self._held(rendered[0]), self._held(rendered[1])
        return TenantOutcome(
            name=name,
            compared=compared,
            cost=compared.cost,
            declared=declared,
            reach=reached,
            files=files,
            claims=(claims[0], claims[1]),
            held=held,
        )

    def _held(self, files: Iterable[str]) -> frozenset[Counted]:
        """Return the items that the brake counts of a tenant's files. The branch of a removed cluster stays as it is."""
        return items_of(path for path in files if path.partition("/")[0] in self.offers[1].clusters)


def take_changed(files: Files, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Note the files that differ, the programs that Jobs name last. A marker follows from the files beside it, and says
    nothing more to anybody."""
    for path in sorted(before.keys() | after.keys(), key=lambda path: (paths.is_programs(path), path)):
        old, new = before.get(path), after.get(path)
        if old != new:
            was, is_now = (None if data is None else blob_id(data) for data in (old, new))
            if paths.is_marker(path):
                files.markers.append((path, was, is_now))
            else:
                files.take(path, old, new, (was, is_now))


def own_markers(steps: Iterable[Step], own: Iterable[Mapping[str, bytes]]) -> Iterator[Step]:
    """Yield a step, without its blobs, of the marker of each of the clusters' own folders in which something differs;
    `own` are the clusters' own files at both ends."""
    touched = {folder_of(path) for path, *_ in steps}
    before, after = (
        {
            f"{cluster}/{folder}"
            for cluster in {path.partition("/")[0] for path in side}
            for folder in of_platform(
                path.removeprefix(f"{cluster}/") for path in side if path.startswith(f"{cluster}/")
            )
        }
        for side in own
    )
    for folder in sorted(before | after):
        if folder in touched or (folder in before) != (folder in after):
            path = f"{folder}/{paths.MARKER}{paths.ENDING}"
            yield path, "" if folder in before else None, "" if folder in after else None
