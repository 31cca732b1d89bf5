"""Describes the two merges that delete a storage or a snapshot, and the change that keeps it after the first merge."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.pricing import format_money
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.platform import Deletion, Platform
from allotment.declared.storage_uses import StorageUse, list_snapshot_uses, list_storage_uses
from allotment.declared.values import format_duration
from allotment.portal.pages.page_action import Action
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import SnapshotDetail, StorageDetail, TenantArea

_MAX_USES = 5  # that a note names


class _Volume(NamedTuple):
    """A storage or snapshot. `word` names its kind, and `cost` is that of a month. `uses` are the declarations that name it."""

    word: str
    name: str
    path: str
    cost: Decimal | None
    is_marked: bool
    uses: tuple[StorageUse, ...]


def list_storage_deletions(site: SiteFacts, area: TenantArea, storage: StorageDetail) -> Iterator[Action]:
    """Yield the next of the two changes that delete a storage, and the change that keeps it."""
    row = storage.row
    kinds = (GPUInstance, GPUStorageSnapshot, GPUStorage)
    models = [declared.model for kind in kinds for declared in area.allowance.declarations.of_kind(kind).values()]
    uses = tuple(list_storage_uses(area.name, row.name, models))
    volume = _Volume("storage", row.name, row.path, storage.cost_per_month, row.is_marked_for_deletion, uses)
    command = ("allot", "storage", "delete", f"{area.name}/{row.name}", "--pr")
    yield _delete(site, area, volume, Action("delete", "Delete the storage and its data", command))
    if volume.is_marked:
        yield _retain(area, volume, "Keep the storage and its data")


def list_snapshot_deletions(site: SiteFacts, area: TenantArea, snapshot: SnapshotDetail) -> Iterator[Action]:
    """Yield the next of the two changes that delete a snapshot, and the change that keeps it."""
    storages = [declared.model for declared in area.allowance.declarations.of_kind(GPUStorage).values()]
    uses = tuple(list_snapshot_uses(area.name, snapshot.name, storages))
    cost, is_marked = snapshot.cost_per_month, snapshot.is_marked_for_deletion
    volume = _Volume("snapshot", snapshot.name, snapshot.path, cost, is_marked, uses)
    target = f"{area.name}/{snapshot.storage}"
    command = ("allot", "storage", "delete", target, "--snapshot", snapshot.name, "--pr")
    action = _delete(site, area, volume, Action("delete-snapshot", "Delete the snapshot", command))
    if is_marked and cost is not None:  # the script computes the cost of a storage
        action = action._replace(
            notes=(*action.notes, f"-{format_money(cost)} {site.currency} in a month of 730 hours")
        )
    yield action
    if is_marked:
        yield _retain(area, volume, "Keep the snapshot")


def _delete(site: SiteFacts, area: TenantArea, volume: _Volume, action: Action) -> Action:
    steps = _describe_second_merge(area, volume) if volume.is_marked else _describe_first_merge(site, area, volume)
    uses = "; ".join(f"{use.subject} names it: {use.remedy}" for use in volume.uses[:_MAX_USES])
    use_note = f"The second merge is refused while another file names the {volume.word}: {uses}."
    return action._replace(
        text="" if volume.is_marked else "  deletionPolicy: Delete",
        notes=(use_note, *steps) if uses else steps,
        change="Delete",
        waiting_reason="it deletes the data" if volume.is_marked else "",
    )


def _retain(area: TenantArea, volume: _Volume, title: str) -> Action:
    return Action(
        "retain",
        title,
        ("allot", "set", f"{volume.word}/{area.name}/{volume.name}", "deletionPolicy-", "--pr"),
        "  deletionPolicy: Delete",
        (f"The first of the two merges that delete the {volume.word} loses its effect.",),
        instruction="Or remove this line below the existing spec of",
        change="Change",
    )


def _describe_first_merge(site: SiteFacts, area: TenantArea, volume: _Volume) -> tuple[str, ...]:
    step = (
        f"This first of two merges deletes nothing. Repeat this step at least {_format_wait(area)} after it: the second merge deletes the"
        " data."
    )
    if volume.cost is None:
        return (step,)
    cost = format_money(volume.cost)
    return step, f"The {volume.word} costs {cost} {site.currency} a month until the second merge."


def _describe_second_merge(area: TenantArea, volume: _Volume) -> tuple[str, ...]:
    wait = _format_wait(area)
    return (
        f"This second merge removes the file {volume.path}, and then the data is deleted.",
        f"Merge it at least {wait} after the first merge. If you merge it sooner, the cluster keeps the data until {wait} after it first"
        " reported the policy Delete.",
    )


def _format_wait(area: TenantArea) -> str:
    """Return the waiting time between the two merges that delete data."""
    platform = area.allowance.catalog.platform.get_singleton(Platform)
    return format_duration((platform.model.spec.deletion if platform is not None else Deletion()).after)
