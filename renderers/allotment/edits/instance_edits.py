"""Selects instances, starts, stops, restarts and deletes them, and mounts storages: the edits of `allot instance`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from allotment.declared.document_editor import AddItem, Edit, RemoveField, SetField, edit_document, set_enum_field
from allotment.declared.instance_selection import InstanceSelector, check_label_names, select_instances
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import Scope
from allotment.declared.tenant_facts import InstanceFacts, summarize_instance
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import list_option_problems
from allotment.edits.option_values import OptionParser
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused, escape_unprintable

InstanceState = Literal["Running", "Stopped"]
_VERBS: dict[InstanceState, str] = {"Running": "Start", "Stopped": "Stop"}
_HOLD_OPTIONS = {"spec.hold.reason": "--reason"}
MAX_RESTARTS = 999_999
RESTART_NOTE = "A restarted instance erases its disk. Its storages stay."
DELETE_NOTE = "A deleted instance releases its units and erases its disk. Its storages stay."
STOP_NOTE = "A stopped instance releases its units and erases its disk. Its storages stay."


def find_instances(declarations: Declarations, selector: InstanceSelector) -> list[tuple[str, str]]:
    """Return the tenant and the name of each selected instance, sorted.

    Raises OperationRefused if the selector names something unknown, if it selects nothing, or if a file of a tenant that it
    may select can't be read.
    """
    parser = OptionParser()
    _check_names(parser, "--tenant", selector.tenants, declarations.list_scopes("tenant"), "no tenant is named")
    _check_names(parser, "--cluster", selector.clusters, declarations.list_scopes("cluster"), "no cluster is named")
    _check_names(parser, "--spec", selector.gpu_specs, declarations.list_names(GPUSpec), "no GPUSpec is named")
    parser.raise_problems()
    tenants = sorted(set(selector.tenants)) or declarations.list_scopes("tenant")
    instances = [facts for tenant in tenants for facts in _list_instances(declarations, tenant)]
    check_label_names(selector.labels, instances)
    selected = select_instances(instances, selector, {})
    if not selected:
        raise OperationRefused("no instance has all of these properties: `allot instance list` lists the instances")
    return [(facts.tenant, facts.name) for facts in selected]


def set_states(declarations: Declarations, instances: list[tuple[str, str]], state: InstanceState) -> ChangeSet:
    """Return the change that starts or stops instances, given as tenant and name.

    `Running` is the default, so a start removes the field. Raises OperationRefused if an instance is not declared.
    """
    changes = [_set_state(declarations, tenant, name, state) for tenant, name in dict.fromkeys(instances)]
    return merge_change_sets(changes, f"{_VERBS[state]} {len(changes)} instances")


def restart_instances(declarations: Declarations, instances: list[tuple[str, str]]) -> ChangeSet:
    """Return the change that restarts instances, given as tenant and name.

    Raises OperationRefused if an instance is not declared, or is Stopped.
    """
    changes = [_restart(declarations, tenant, name) for tenant, name in dict.fromkeys(instances)]
    return merge_change_sets(changes, f"Restart {len(changes)} instances")


def delete_instances(declarations: Declarations, instances: list[tuple[str, str]]) -> ChangeSet:
    """Return the change that removes the files of instances, given as tenant and name.

    Raises OperationRefused if an instance is not declared.
    """
    changes = [_delete(declarations, tenant, name) for tenant, name in dict.fromkeys(instances)]
    return merge_change_sets(changes, f"Delete {len(changes)} instances")


def hold_instances(declarations: Declarations, instances: list[tuple[str, str]], reason: str) -> ChangeSet:
    """Return the change that puts instances on hold, given as tenant and name.

    Raises OperationRefused if an instance is not declared, or if the reason is invalid.
    """
    edits: list[Edit] = [SetField(("spec", "hold"), without_empty({"reason": reason}))]
    return _edit_holds(declarations, instances, "Hold", edits, STOP_NOTE)


def release_instances(declarations: Declarations, instances: list[tuple[str, str]]) -> ChangeSet:
    """Return the change that ends the hold of instances, given as tenant and name.

    Raises OperationRefused if an instance is not declared, or is not on hold.
    """
    note = "A released instance starts once a unit is free, if it is declared Running."
    return _edit_holds(declarations, instances, "Release", [RemoveField(("spec", "hold"))], note)


def mount_storage(declarations: Declarations, instance: tuple[str, str], text: str) -> ChangeSet:
    """Return the change that mounts the storage in a text such as `models:/workspace/models:ro` in an instance.

    Raises OperationRefused if the text is wrong, if the tenant has no such storage, or if the instance mounts it already, or
    mounts another storage at the path.
    """
    tenant, name = instance
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    parser = OptionParser()
    mount = parser.parse_mount(text, "STORAGE:/PATH")
    if mount is not None:
        names = declarations.list_names(GPUStorage, Scope("tenant", tenant))
        parser.check_name("STORAGE:/PATH", mount.name, names, f"{tenant} has no GPUStorage named")
    parser.raise_problems()
    assert mount is not None
    for other in declared.model.spec.storages:
        if other.mount_path == mount.path and other.name != mount.name:
            raise OperationRefused(
                f"{tenant}/{name} mounts {other.name} at {mount.path}: choose another path, or first run"
                f" `allot instance unmount {tenant}/{name} {other.name}`"
            )
    edit = AddItem(("spec", "storages"), mount.build_mount())
    return _edit_mounts(declarations, instance, f"Mount {mount.name} in {tenant}/{name}", edit)


def unmount_storage(declarations: Declarations, instance: tuple[str, str], storage: str) -> ChangeSet:
    """Return the change that unmounts a storage. Raises OperationRefused if the instance does not mount it."""
    tenant, name = instance
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    parser = OptionParser()
    names = [mount.name for mount in declared.model.spec.storages]
    parser.check_name("STORAGE", storage, names, f"{tenant}/{name} mounts no storage named")
    parser.raise_problems()
    edit = RemoveField(("spec", "storages", storage))
    return _edit_mounts(declarations, instance, f"Unmount {storage} from {tenant}/{name}", edit)


def _edit_mounts(declarations: Declarations, instance: tuple[str, str], title: str, edit: Edit) -> ChangeSet:
    tenant, name = instance
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    data = edit_document(declared.data, GPUInstance, [edit])
    if problems := list(list_option_problems(declared.path, data, {})):
        raise OperationRefused("\n".join(problems))
    notes = (RESTART_NOTE,) if declared.model.spec.state == "Running" else ()
    return ChangeSet(title, {declared.path: data}, (f"GPUInstance {tenant}/{name}",), notes)


def _edit_holds(
    declarations: Declarations, instances: list[tuple[str, str]], verb: str, edits: list[Edit], note: str
) -> ChangeSet:
    changes = []
    for tenant, name in dict.fromkeys(instances):
        declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
        if verb == "Release" and declared.model.spec.hold is None:
            raise OperationRefused(f"{tenant}/{name} is not on hold, so there is nothing to release")
        data = edit_document(declared.data, GPUInstance, edits)
        if problems := list(list_option_problems(declared.path, data, _HOLD_OPTIONS)):
            raise OperationRefused("\n".join(problems))
        changes.append(
            ChangeSet(f"{verb} {tenant}/{name}", {declared.path: data}, (f"GPUInstance {tenant}/{name}",), (note,))
        )
    return merge_change_sets(changes, f"{verb} {len(changes)} instances")


def list_suspension_notes(declarations: Declarations, tenant: str) -> tuple[str, ...]:
    """Return a note if the tenant is Suspended or Retired, so that its instances do not run; otherwise nothing."""
    try:
        lifecycle = declarations.find(Tenant, Scope("tenant", tenant), tenant).model.spec.lifecycle
    except OperationRefused:  # the plan of the change reports the problem
        return ()
    if lifecycle == "Active":
        return ()
    return (f"Tenant {tenant} is {lifecycle}, so its instances do not run: `allot tenant resume {tenant}` resumes it.",)


def _restart(declarations: Declarations, tenant: str, name: str) -> ChangeSet:
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    spec = declared.model.spec
    if spec.state == "Stopped":
        raise OperationRefused(
            f"{tenant}/{name} is Stopped, so there is nothing to restart: `allot instance start {tenant}/{name}` starts it"
        )
    edit = SetField(("spec", "restarts"), spec.restarts + 1 if spec.restarts < MAX_RESTARTS else 1)
    data = edit_document(declared.data, GPUInstance, [edit])
    return ChangeSet(
        f"Restart {tenant}/{name}", {declared.path: data}, (f"GPUInstance {tenant}/{name}",), (RESTART_NOTE,)
    )


def _delete(declarations: Declarations, tenant: str, name: str) -> ChangeSet:
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    return ChangeSet(
        f"Delete {tenant}/{name}", {declared.path: None}, (f"GPUInstance {tenant}/{name}",), (DELETE_NOTE,)
    )


def _set_state(declarations: Declarations, tenant: str, name: str, state: InstanceState) -> ChangeSet:
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    data = set_enum_field(declared, "state", state, "Running")
    notes = (STOP_NOTE,) if state == "Stopped" else list_suspension_notes(declarations, tenant)
    if state == "Running" and (hold := declared.model.spec.hold) is not None:
        reason = escape_unprintable(hold.reason, 200)
        notes += (f"{tenant}/{name} is on hold and does not start before the platform team releases it: {reason}.",)
    return ChangeSet(
        f"{_VERBS[state]} {tenant}/{name}", {declared.path: data}, (f"GPUInstance {tenant}/{name}",), notes
    )


def _check_names(
    parser: OptionParser, option: str, given_names: Iterable[str], names: Iterable[str], owner: str
) -> None:
    for name in given_names:
        parser.check_name(option, name, list(names), owner)


def _list_instances(declarations: Declarations, tenant: str) -> list[InstanceFacts]:
    scope = Scope("tenant", tenant)
    names = declarations.list_names(GPUInstance, scope)
    return [summarize_instance(tenant, declarations.find(GPUInstance, scope, name).model) for name in names]
