"""Starts and stops instances: the edits of `allot instance`."""

from __future__ import annotations

from typing import Literal

from allotment.declared.document_editor import RemoveField, SetField, edit_document
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.layout import Scope
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations

InstanceState = Literal["Running", "Stopped"]
_VERBS: dict[InstanceState, str] = {"Running": "Start", "Stopped": "Stop"}
STOP_NOTE = "A stopped instance releases its units and erases its disk. Its storages stay."


def set_states(declarations: Declarations, instances: list[tuple[str, str]], state: InstanceState) -> ChangeSet:
    """Return the change that starts or stops instances, given as tenant and name.

    `Running` is the default, so a start removes the field. Raises OperationRefused if an instance is not declared.
    """
    changes = [_set_state(declarations, tenant, name, state) for tenant, name in dict.fromkeys(instances)]
    title = changes[0].title if len(changes) == 1 else f"{_VERBS[state]} {len(changes)} instances"
    return merge_change_sets(title, changes)


def _set_state(declarations: Declarations, tenant: str, name: str, state: InstanceState) -> ChangeSet:
    declared = declarations.find(GPUInstance, Scope("tenant", tenant), name)
    path, data = ("spec", "state"), declared.data
    if declared.model.spec.state != state:
        edit = RemoveField(path) if state == "Running" else SetField(path, state)
        data = edit_document(data, GPUInstance, [edit])
    notes = (STOP_NOTE,) if state == "Stopped" else ()
    return ChangeSet(
        f"{_VERBS[state]} {tenant}/{name}", {declared.path: data}, (f"GPUInstance {tenant}/{name}",), notes
    )
