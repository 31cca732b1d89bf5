"""Describes the changes of a resource that a form offers: the fields, the command, and the lines of the declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from allotment.capacity.pricing import format_money
from allotment.conditions import FAILED, SUPERSEDED
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import MAX_ATTEMPTS, GPUStorage, Reader
from allotment.declared.layout import NAME, Scope, path_of
from allotment.declared.secret_stores import SECRET_VALUE
from allotment.declared.tenant_facts import ON_HOLD
from allotment.edits.new_declaration import build_declaration
from allotment.edits.secret_creation import describe_place
from allotment.manifests.names import secret_folder
from allotment.manifests.yaml_text import without_empty
from allotment.portal.pages.accessor_action import list_accessor_actions
from allotment.portal.pages.deletion_actions import list_storage_deletions
from allotment.portal.pages.form_facts import SNAPSHOT_KIND, STORAGE_KIND
from allotment.portal.pages.item_actions import (
    list_erased_folders,
    list_mount_actions,
    list_reader_actions,
    list_restart_notes,
)
from allotment.portal.pages.page_action import Action, ActionField, add_item
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import InstanceDetail, StorageDetail, TenantArea

_QUOTED_FIELD = re.compile(r'"(\{\w+\})"')
_SECRET_PREFIXES = "hf_|gh[pousr]_|github_pat_|glpat-|AKIA|sk-|xox[abprs]-|AIza|eyJ"  # noqa: S105  # no secret
SECRET_KIND = "SecretReference"  # noqa: S105  # a kind, not a secret


def list_instance_actions(site: SiteFacts, area: TenantArea, instance: InstanceDetail) -> Iterator[Action]:
    """Yield the changes of a declared instance. Each change of a running instance names the folders that it erases."""
    erased = list_erased_folders(area, instance)
    for action in _list_instance_changes(site, area, instance):
        variants = {
            name: variant._replace(notes=(*variant.notes, *erased)) for name, variant in action.variants.items()
        }
        yield action._replace(notes=(*action.notes, *erased), variants=variants)


def _list_instance_changes(site: SiteFacts, area: TenantArea, instance: InstanceDetail) -> Iterator[Action]:
    row = instance.row
    target = f"{area.name}/{row.name}"
    is_stopped = row.state == "Stopped"
    if is_stopped:
        note = "It takes its units again, and costs money while it runs."
    else:
        note = "It releases its units, and costs nothing. Its own disk is erased, and its storages stay."
    if row.state != ON_HOLD:
        yield Action(
            "state",
            "Start the instance" if is_stopped else "Stop the instance",
            notes=(note,),
            form="state",
            change="Start" if is_stopped else "Stop",
            cost="",
        )
    if row.state == "Running":
        yield Action(
            "restart",
            "Restart the instance",
            ("allot", "instance", "restart", target, "--pr"),
            f"  restarts: {_find_number(instance.text, 'restarts') + 1}",
            ("Its own disk is erased, and its storages stay.",),
            change="Change",
        )
    yield Action(
        "resize",
        "Change the GPU spec or the number of replicas",
        notes=list_restart_notes(row),
        fields=(
            ActionField("gpuSpec", "GPU spec", options=()),
            ActionField("replicas", "Replicas", "a number of independent copies, 1 to 100", pattern="[1-9][0-9]?|100"),
        ),
        form="resize",
        change="Change",
        cost="",
    )
    yield from _list_upgrades(site, area, instance)
    yield from list_mount_actions(area, instance)
    if row.state != ON_HOLD:
        yield Action(
            "delete",
            "Delete the instance",
            ("allot", "instance", "delete", target, "--pr"),
            notes=(f"Its file {row.path} is removed. Its own disk is erased, and its storages stay.",),
            change="Delete",
        )


def _list_upgrades(site: SiteFacts, area: TenantArea, instance: InstanceDetail) -> Iterator[Action]:
    """Yield the change to another Active version of an instance's app, the newest version first."""
    name, _, current = (instance.row.app or "").partition(" ")
    versions = [
        version.version
        for app in site.apps
        for version in app.versions
        if app.name == name and version.lifecycle == "Active" and version.version != current
    ]
    if versions:
        target = f"instance/{area.name}/{instance.row.name}"
        yield Action(
            "app",
            "Change the version of the app",
            ("allot", "set", target, "app.version={version}", "--pr"),
            f"  app:\n    name: {name}\n    version: {{version}}",
            list_restart_notes(instance.row),
            (ActionField("version", "Version", options=tuple((version, version) for version in versions)),),
            change="Change",
        )


def list_storage_actions(site: SiteFacts, area: TenantArea, storage: StorageDetail) -> Iterator[Action]:
    """Yield the changes of a declared storage."""
    row = storage.row
    target = f"{area.name}/{row.name}"
    size = ActionField("size", "New size", f"more than {row.size}")
    fields = {"cluster": row.cluster, "storageSpec": row.storage_spec, "size": row.size}
    copy = without_empty({**fields, "prepare": {"source": {"storage": {"name": row.name}}}})
    declared = area.allowance.declarations.of_kind(GPUStorage).get(row.name)
    readers = declared.model.spec.shared_with if declared is not None else []
    share_text, share_instruction = add_item(storage.text, ("sharedWith",), "    - tenant: {other}")
    yield Action("grow", "Grow the storage", fields=(size,), form="grow", change="Grow", cost="")
    yield from _list_retries(target, storage, declared)
    yield Action(
        "snapshot",
        "Take a snapshot",
        ("allot", "storage", "snapshot", target, "{name}", "--pr"),
        _build_file(SNAPSHOT_KIND, area, {"storage": row.name}),
        (f"The cluster takes the snapshot after the merge. {_describe_snapshot_cost(site, storage)}",),
        (ActionField("name", "Name of the snapshot"),),
        new_path=_find_path(SNAPSHOT_KIND, area),
        names=[snapshot.name for snapshot in area.snapshots],
        change="Snapshot",
        cost="" if storage.snapshot_cost is None else f"{storage.snapshot_cost:f}",
    )
    yield Action(
        "clone",
        "Copy it into a new storage",
        ("allot", "storage", "clone", target, "{name}", "--pr"),
        _build_file(STORAGE_KIND, area, copy),
        (_describe_copy(site, storage),),
        (ActionField("name", "Name of the copy"),),
        new_path=_find_path(STORAGE_KIND, area),
        names=area.storage_names,
        change="Create",
        cost="" if storage.cost_per_month is None else f"{storage.cost_per_month:f}",
    )
    yield Action(
        "share",
        "Let another tenant copy it",
        ("allot", "set", f"storage/{target}", "sharedWith+={tenant: {other}}", "--pr"),
        share_text,
        (
            "The other tenant can fill a storage of its own with the content. It can't change this storage.",
            "This page knows no other tenants: the plan of the pull request refuses a name that no tenant has.",
        ),
        (
            ActionField(
                "other",
                "Name of the other tenant",
                "the name of another tenant that can't copy it yet, such as team-b",
                pattern=f"(?!(?:{'|'.join([area.name, *(reader.tenant for reader in readers if reader.tenant)])})$)(?:{NAME.pattern})",
            ),
        ),
        barriers=tuple(_list_share_barriers(area, row.name, readers)),
        instruction=share_instruction,
        change="Access",
    )
    yield from list_reader_actions(area, storage)
    yield from list_accessor_actions(area, row)
    yield from list_storage_deletions(site, area, storage)


def _list_retries(
    target: str, storage: StorageDetail, declared: DeclarationFile[GPUStorage] | None
) -> Iterator[Action]:
    """Yield the next attempt of a preparation, if the declared attempt is reported as failed, as `allot recover` requires."""
    row, prepare = storage.row, declared.model.spec.prepare if declared is not None else None
    if prepare is None or (row.preparation, row.attempt) != (FAILED, prepare.attempt):
        return
    if row.reported_state == FAILED and row.reason != SUPERSEDED and prepare.attempt < MAX_ATTEMPTS:
        yield Action(
            "retry",
            "Try the preparation again",
            ("allot", "set", f"storage/{target}", f"prepare.attempt={prepare.attempt + 1}", "--pr"),
            f"  prepare:\n    attempt: {prepare.attempt + 1}",
            ("First correct the cause. The preparation can overwrite the files on the storage.",),
            change="Change",
            waiting_reason="it can overwrite data",
        )


def _list_share_barriers(area: TenantArea, storage: str, readers: Iterable[Reader]) -> Iterator[str]:
    """Yield the reasons why no other tenant can become a reader of a storage."""
    if any(reader.tenants for reader in readers):
        yield "Every tenant may copy it already."
    if storage in area.edited_storages:
        yield "Its accessor changes files, and a shared storage can't change: first make the accessor ReadOnly."


def list_secret_actions(site: SiteFacts, area: TenantArea) -> Iterator[Action]:
    """Yield the declaration of a secret."""
    clusters = tuple((cluster.name, cluster.title) for cluster in site.clusters if cluster.lifecycle != "Retired")
    action = Action(
        "secret",
        "Declare a secret",
        ("allot", "secret", "create", f"{area.name}/{{name}}", "--cluster", "{cluster}", "--key", "{key}", "--pr"),
        _build_file(
            SECRET_KIND,
            area,
            {"cluster": "{cluster}", "keys": [{"name": "{key}", "path": "{name}", "property": "{key}"}]},
        ),
        ("The value stays in the secret store of the cluster: never write it into a file of the repository.",),
        (
            ActionField("name", "Name", "a-z, 0-9 and '-'"),
            ActionField(
                "key",
                "Key",
                "a name such as token, never the secret: letters, digits, '.', '_' and '-', a letter, digit or '_' first",
                pattern=rf"(?!(?:{_SECRET_PREFIXES})[A-Za-z0-9_\-]{{16}}|(?:{SECRET_VALUE.pattern})$)[A-Za-z0-9_][A-Za-z0-9._\-]{{0,252}}",
            ),
            ActionField("cluster", "Cluster", options=clusters),
        ),
        new_path=_find_path(SECRET_KIND, area),
        names=area.secret_names,
        change="Create",
    )
    yield action._replace(variants={name: _name_store(area, action, name) for name, _ in clusters})


def _name_store(area: TenantArea, action: Action, cluster: str) -> Action:
    """Return the declaration of a secret in a cluster, with the place of its value."""
    folder = area.allowance.catalog.clusters.get(cluster)
    declared = folder.get_singleton(Cluster) if folder is not None else None
    store = declared.model.spec.secret_store if declared is not None else None
    if store is None:
        return action._replace(barriers=(f"{cluster} has no secret store: choose another cluster.",))
    place = f"{secret_folder(store.prefix, area.name)}{{name}}"
    note = describe_place(cluster, store, place, "{key}=-", "standard input")
    return action._replace(notes=(*action.notes, note))


def _find_path(kind: str, area: TenantArea, name: str = "{name}") -> str:
    """Return the path of a new file of a tenant."""
    return path_of(kind, Scope("tenant", area.name), name)


def _build_file(kind: str, area: TenantArea, spec: Mapping[str, Any]) -> str:
    """Return the new file at `_find_path`. Its name, and values of `spec` such as `{key}`, stand for the values of fields."""
    text = build_declaration(_find_path(kind, area, "new"), spec).decode()
    return _QUOTED_FIELD.sub(r"\1", text.replace("name: new\n", "name: {name}\n", 1))


def _describe_snapshot_cost(site: SiteFacts, storage: StorageDetail) -> str:
    if storage.snapshot_cost is None:
        return "It costs money while it exists: the plan shows how much."
    return f"It costs {format_money(storage.snapshot_cost)} {site.currency} a month while it exists."


def _describe_copy(site: SiteFacts, storage: StorageDetail) -> str:
    cost = (
        f" and costs {format_money(storage.cost_per_month)} {site.currency} a month"
        if storage.cost_per_month is not None
        else ""
    )
    return f"The copy has {storage.row.size}{cost}."


def _find_number(text: str, field: str) -> int:
    """Return the number in a field of the spec; 0 without the field."""
    digits = next(
        (line.split(":", 1)[1].split("#")[0].strip() for line in text.splitlines() if line.startswith(f"  {field}:")),
        "",
    )
    return int(digits) if digits.isdigit() else 0
