"""Describes the change of an accessor that the page of a storage offers."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from allotment.declared.kinds.gpu_storage import Accessor, GPUStorage, GPUStorageSpec
from allotment.declared.kinds.platform import Platform
from allotment.manifests.yaml_text import dump
from allotment.observed.resource_rows import StorageRowOutput
from allotment.portal.pages.form_facts import list_access
from allotment.portal.pages.page_action import Action, ActionField, set_field
from allotment.portal.pages.tenant_area import TenantArea
from allotment.rules.limits import has_no_users

_OFF = "Off"
_REMOVAL = "Or remove these lines below the existing spec of"
_MODES = {
    "ReadOnly": ("ReadOnly: nobody can change files", "Nobody can change files on the page."),
    "ReadWrite": (
        "ReadWrite: upload, replace, move and delete files",
        "Admins and Members can upload, replace, move and delete files on the page, and the tenant's pods can, too, without a login.",
    ),
    _OFF: ("Off: no page", "The URL of the page stops working. The files stay."),
}
_VISITORS = {
    "Namespace": "Only the tenant's pods",
    "Members": "Members of the tenant, after login,",
    "Public": "Anyone",
}


def list_accessor_actions(area: TenantArea, row: StorageRowOutput) -> Iterator[Action]:
    """Yield the change of the web page that shows the files of a storage. A bucket has none."""
    declared = area.allowance.declarations.of_kind(GPUStorage).get(row.name)
    platform = area.allowance.catalog.platform.get_singleton(Platform)
    has_image = platform is not None and platform.model.spec.images.files is not None
    access = list_access(area).get(row.storage_spec or "")
    if declared is None or not has_image or access == "Bucket":
        return
    spec = declared.model.spec
    current = spec.accessor.mode if spec.accessor is not None else _OFF
    modes = [mode for mode in _MODES if mode != current]
    command = ("allot", "set", f"storage/{area.name}/{row.name}")
    yield Action(
        "accessor",
        "Change the web page that shows its files",
        (*command, "accessor.mode={mode}", "--pr"),
        fields=(ActionField("mode", "Mode of the page", options=tuple((mode, _MODES[mode][0]) for mode in modes)),),
        variants={mode: _build_variant(area, row, spec, mode, command) for mode in modes},
        change="Change",
    )


def _build_variant(
    area: TenantArea, row: StorageRowOutput, spec: GPUStorageSpec, mode: str, command: tuple[str, ...]
) -> Action:
    accessor, note = spec.accessor or Accessor(), _MODES[mode][1]
    if mode == _OFF:
        fields = accessor.model_dump(exclude_unset=True)
        text = indent(dump([{"accessor": fields}]).decode().rstrip("\n"), "  ")
        return Action(mode, note, (*command, "accessor-", "--pr"), text, (note,), instruction=_REMOVAL)
    text, instruction = set_field("\n  accessor:" if spec.accessor else "", ("accessor", "mode"), mode)
    return Action(
        mode,
        note,
        (*command, f"accessor.mode={mode}", "--pr"),
        text,
        (f"{_VISITORS[accessor.exposure]} can open the page.", note),
        barriers=tuple(_list_barriers(area, row, spec, accessor.exposure, mode)),
        instruction=instruction,
    )


def _list_barriers(
    area: TenantArea, row: StorageRowOutput, spec: GPUStorageSpec, exposure: str, mode: str
) -> Iterator[str]:
    """Yield the reasons why the storage can't have a page in this mode."""
    plan = area.allowance.plan
    if plan is not None and exposure not in ("Namespace", *plan.model.spec.allow.exposure):
        yield f"Your tariff plan doesn't allow the exposure {exposure}."
    if exposure == "Members" and has_no_users(area.allowance.declarations):
        yield "Nobody could log in to the page: first add a member with a subject."
    if mode == "ReadOnly":
        return
    if exposure == "Public":
        yield "The exposure of the page is Public, so anyone could change the files: first set the exposure Members."
    if spec.shared_with:
        yield "Other tenants may copy this storage, so nobody can change its files on a page: choose ReadOnly."
    mounts = area.running_mounts.get(row.name)
    if mounts and list_access(area).get(row.storage_spec or "") == "ReadWriteOnce":
        yield (
            f"{row.name} is a storage for one instance, and {mounts[0]} mounts it: first stop {mounts[0]}."
            f" Or copy files through the instance: `allot storage cp FILE {area.name}/{row.name}:/` prints the command."
        )
