"""Grows, snapshots, clones and deletes storages: the edits of `allot storage`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM, DeclarationPath, Scope, parse_path
from allotment.declared.reading import read_declaration, suggest_name
from allotment.declared.storage_uses import StorageUse, list_snapshot_uses, list_storage_uses
from allotment.declared.values import Size, format_duration, format_size
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration
from allotment.problems import OperationRefused, quote_value

# Returns the contents of a path in each revision that must have the first merge of a deletion; None: no such file.
ReadMerged = Callable[[str], list[bytes | None]]
Volume = GPUStorage | GPUStorageSnapshot
D = TypeVar("D", bound=Declaration)
_MAX_NAMED = 10  # uses in an error


def grow_storage(declarations: Declarations, tenant: str, name: str, size: str) -> ChangeSet:
    """Return the change that gives a storage a larger size, such as 200Gi. Raises OperationRefused if it is smaller."""
    declared = declarations.find(GPUStorage, Scope("tenant", tenant), name)
    number, current = _parse_size("SIZE", size), declared.model.spec.size
    if number < current:
        raise OperationRefused(
            f"SIZE: {size} is less than the {format_size(current)} of {tenant}/{name}, and a storage never shrinks:"
            " write a larger size, or create another storage"
        )
    edits = [SetField(("spec", "size"), size)] if number > current else []
    data = edit_document(declared.data, GPUStorage, edits) if edits else declared.data
    return ChangeSet(f"Grow {tenant}/{name} to {size}", {declared.path: data}, (f"GPUStorage {tenant}/{name}",))


def create_snapshot(declarations: Declarations, tenant: str, storage: str, name: str) -> ChangeSet:
    """Return the change that declares a snapshot of a storage."""
    scope = Scope("tenant", tenant)
    declarations.find(GPUStorage, scope, storage)
    path = declarations.create_path(GPUStorageSnapshot, scope, name)
    data = build_declaration(path, {"storage": storage})
    title = f"Create snapshot {tenant}/{name} of {storage}"
    return ChangeSet(title, {path: data}, (f"GPUStorageSnapshot {tenant}/{name}",))


def clone_storage(
    declarations: Declarations, source: tuple[str, str], new: tuple[str, str], snapshot: str, size: str
) -> ChangeSet:
    """Return the change that declares a copy of a storage, or of its snapshot if `snapshot` is not empty.

    `source` and `new` are tenant and name. An empty `size` stands for the size of the source.
    """
    tenant, name = new
    declared = declarations.find(GPUStorage, Scope("tenant", source[0]), source[1])
    path = declarations.create_path(GPUStorage, Scope("tenant", tenant), name)
    spec = declared.model.spec
    if size and _parse_size("--size", size) < spec.size:
        raise OperationRefused(
            f"--size: {size} is less than the {format_size(spec.size)} of {'/'.join(source)}: write at least that size"
        )
    data = build_declaration(
        path,
        {
            "cluster": spec.cluster,
            "storageSpec": spec.storage_spec,
            "size": size or format_size(spec.size),
            "prepare": {"source": _build_source(declarations, source, tenant, snapshot)},
        },
    )
    content = f"snapshot {snapshot} of {'/'.join(source)}" if snapshot else "/".join(source)
    return ChangeSet(f"Clone {content} as {tenant}/{name}", {path: data}, (f"GPUStorage {tenant}/{name}",))


def _build_source(declarations: Declarations, source: tuple[str, str], tenant: str, snapshot: str) -> dict[str, Any]:
    owner, storage = source
    if not snapshot:
        return {"storage": {"name": storage, **({"tenant": owner} if owner != tenant else {})}}
    if owner != tenant:
        raise OperationRefused(f"--snapshot: tenants share storages, but no snapshots: name a storage of {tenant}")
    _check_snapshot(declarations, owner, storage, snapshot)
    return {"snapshot": {"name": snapshot}}


def _check_snapshot(declarations: Declarations, tenant: str, storage: str, snapshot: str) -> None:
    """Raise OperationRefused if a snapshot is not declared, or is of another storage."""
    scope = Scope("tenant", tenant)
    declared = declarations.find(GPUStorageSnapshot, scope, snapshot)
    if declared.model.spec.storage != storage:
        names = [
            name
            for name in declarations.list_names(GPUStorageSnapshot, scope)
            if declarations.find(GPUStorageSnapshot, scope, name).model.spec.storage == storage
        ]
        raise OperationRefused(
            f"--snapshot: {snapshot} is a snapshot of {declared.model.spec.storage}, not of"
            f" {storage}{suggest_name(snapshot, names)}"
        )


def delete_storages(declarations: Declarations, storages: list[tuple[str, str]], read_merged: ReadMerged) -> ChangeSet:
    """Return the next of the two changes that delete each storage, given as tenant and name.

    The first change sets `deletionPolicy: Delete`. The second removes the file, once the first is merged. Raises
    OperationRefused if the first is made, but not merged.
    """
    changes = [_delete(declarations, GPUStorage, each, read_merged) for each in dict.fromkeys(storages)]
    return merge_change_sets(changes, f"Delete {len(changes)} storages")


def delete_snapshot(
    declarations: Declarations, storage: tuple[str, str], snapshot: str, read_merged: ReadMerged
) -> ChangeSet:
    """Return the next of the two changes that delete a snapshot of a storage, as `delete_storages` does."""
    tenant, name = storage
    _check_snapshot(declarations, tenant, name, snapshot)
    return _delete(declarations, GPUStorageSnapshot, (tenant, snapshot), read_merged)


def _delete(
    declarations: Declarations, kind: type[Volume], resource: tuple[str, str], read_merged: ReadMerged
) -> ChangeSet:
    tenant, name = resource
    declared = declarations.find(kind, Scope("tenant", tenant), name)
    word = "storage" if kind is GPUStorage else "snapshot"
    resources, uses = (f"{kind.__name__} {tenant}/{name}",), _list_uses(declarations, kind, tenant, name)
    if declared.model.spec.deletion_policy != "Delete":
        data = edit_document(declared.data, kind, [SetField(("spec", "deletionPolicy"), "Delete")])
        title = f"Permit the deletion of {word} {tenant}/{name}"
        notes = [_explain_first_merge(declarations, word)]
        if uses:
            notes.append(
                f"{_describe_uses(uses)} it, and the second merge is refused until then: {_join_remedies(uses)}."
            )
        return ChangeSet(title, {declared.path: data}, resources, tuple(notes))
    if not all(_permits_deletion(declared, data) for data in read_merged(declared.path)):
        raise OperationRefused(
            f"{declared.path} has deletionPolicy: Delete, which is not merged yet: merge it first, and then run the command"
            " again to remove the file"
        )
    if uses:
        raise OperationRefused(f"{_describe_uses(uses)} {tenant}/{name}: first {_join_remedies(uses)}")
    return ChangeSet(f"Delete {word} {tenant}/{name}", {declared.path: None}, resources)


def _list_uses(declarations: Declarations, kind: type[Volume], tenant: str, name: str) -> list[StorageUse]:
    """Return the declarations that name a storage or a snapshot."""
    storages = _read_models(declarations, GPUStorage, tenant)
    if kind is GPUStorageSnapshot:
        return list(list_snapshot_uses(tenant, name, storages))
    instances = _read_models(declarations, GPUInstance, tenant)
    snapshots = _read_models(declarations, GPUStorageSnapshot, tenant)
    return list(list_storage_uses(tenant, name, [*instances, *snapshots, *storages]))


def _read_models(declarations: Declarations, kind: type[D], tenant: str) -> list[D]:
    """Return the declarations of a kind. Unreadable files are left out: the plan reports their problems."""
    scope, models = Scope("tenant", tenant), list[D]()
    for name in declarations.list_names(kind, scope):
        with contextlib.suppress(OperationRefused):
            models.append(declarations.find(kind, scope, name).model)
    return models


def _describe_uses(uses: Sequence[StorageUse]) -> str:
    listed = ", ".join(use.subject for use in uses[:_MAX_NAMED]) + (" …" if len(uses) > _MAX_NAMED else "")
    return f"{listed} {'uses' if len(uses) == 1 else 'use'}"


def _join_remedies(uses: Sequence[StorageUse]) -> str:
    return ", then ".join(use.remedy for use in uses[:_MAX_NAMED])


def _explain_first_merge(declarations: Declarations, word: str) -> str:
    after = declarations.find(Platform, PLATFORM, "platform").model.spec.deletion.after
    return (
        "This is the first of two merges; it deletes no data. After the merge, run the same command again: it removes the file."
        f" The {'volume' if word == 'storage' else word} is deleted at the earliest {format_duration(after)} after the cluster reports the policy."
    )


def _permits_deletion(declared: DeclarationFile[Volume], data: bytes | None) -> bool:
    """Return whether a merged version of a storage or snapshot permits its deletion. A file that was never merged has no data."""
    if data is None:
        return True
    declaration_path = parse_path(declared.path)
    assert isinstance(declaration_path, DeclarationPath)
    merged = read_declaration(declared.path, data, declaration_path)[0]
    model = merged.model if merged is not None else None
    return isinstance(model, GPUStorage | GPUStorageSnapshot) and model.spec.deletion_policy == "Delete"


def _parse_size(option: str, text: str) -> int:
    try:
        number: int = TypeAdapter[int](Size).validate_python(text)
    except ValidationError:
        raise OperationRefused(
            f"{option}: {quote_value(text)} is not a size: write a whole number with Mi, Gi or Ti, such as 200Gi"
        ) from None
    return number
