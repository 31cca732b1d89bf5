"""Adds GPUSpecs and their prices, and changes their lifecycle: the edits of `allot spec`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from allotment.declared.document_editor import AddItem, SetField, edit_document, set_enum_field
from allotment.declared.kinds.declaration import Lifecycle
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.values import Date
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import InvalidField, build_declaration, check_declaration

_VERBS: dict[Lifecycle, str] = {"Active": "Activate", "Deprecated": "Deprecate", "Retired": "Retire"}
_NOTES: dict[Lifecycle, str] = {
    "Deprecated": "Instances with a deprecated GPUSpec keep running. Their declarations get a warning.",
    "Retired": "Instances with a retired GPUSpec keep running. No other instance can use it.",
}
_PRICES = ("spec", "prices")
_START = "spec.prices[].from"


def read_time_zone(declarations: Declarations) -> str:
    """Return the billing time zone, in which a price starts at midnight. Raises OperationRefused if it can't be read."""
    return declarations.find(Platform, PLATFORM, "platform").model.spec.billing.time_zone


def add_spec(declarations: Declarations, name: str, spec: Mapping[str, Any]) -> ChangeSet:
    """Return the change that declares a GPUSpec. `spec` has its fields.

    Raises OperationRefused if the GPUSpec exists, or if a field is invalid.
    """
    path = declarations.create_path(GPUSpec, PLATFORM, name)
    data = check_declaration(path, build_declaration(path, dict(spec)))
    note = f"No cluster has units of {name} yet: `allot stock add CLUSTER/NAME --spec {name} --count COUNT` adds them."
    model, models = spec["gpu"]["model"], list_gpu_models(declarations)
    if model not in models:
        note = (
            f"No node pool has GPUs of the model {model}. The models of node pools are {', '.join(models) or 'none'}."
        )
    return ChangeSet(f"Add GPUSpec {name}", {path: data}, (f"GPUSpec {name}",), (note,))


def list_gpu_models(declarations: Declarations) -> list[str]:
    """Return the sorted GPU models of all node pools. Raises OperationRefused if a node pool can't be read."""
    scopes = [Scope("cluster", name) for name in declarations.list_scopes("cluster")]
    pools = [
        declarations.find(NodePool, scope, name)
        for scope in scopes
        for name in declarations.list_names(NodePool, scope)
    ]
    return sorted({pool.model.spec.node.gpu.model for pool in pools})


def check_price_day(declarations: Declarations, name: str, start: str, today: datetime.date) -> None:
    """Raise OperationRefused if a price of a GPUSpec can't start on a day, because the day is not after today.

    `start` is a day such as 2027-01-01, and `today` the day in the billing time zone.
    """
    declared = declarations.find(GPUSpec, PLATFORM, name)
    day = _parse_day(start)
    if day <= today:
        tomorrow = today + datetime.timedelta(days=1)
        problem = f"a new price can't start on {day}, before tomorrow"
        if _has_price(declared.model, day):
            problem = f"the price from {day} already applies and can't change"
        raise InvalidField(_START, f"{problem}: write {tomorrow} or a later day")


def set_price(declarations: Declarations, name: str, amount: str, start: str) -> ChangeSet:
    """Return the change that adds a price per hour to a GPUSpec, or changes the price from a day.

    `start` is the first day of the price, such as 2027-01-01; `check_price_day` checks it. Raises OperationRefused if the
    GPUSpec is not declared, or if the amount is invalid.
    """
    declared = declarations.find(GPUSpec, PLATFORM, name)
    day = _parse_day(start)
    edit: AddItem | SetField = AddItem(_PRICES, {"from": start, "perHour": amount})
    if _has_price(declared.model, day):
        edit = SetField((*_PRICES, start, "perHour"), amount)
    data = check_declaration(declared.path, edit_document(declared.data, GPUSpec, [edit]))
    return ChangeSet(f"Set the price of {name} from {day}", {declared.path: data}, (f"GPUSpec {name}",))


def set_spec_lifecycles(declarations: Declarations, names: Sequence[str], lifecycle: Lifecycle) -> ChangeSet:
    """Return the change that activates, deprecates or retires GPUSpecs.

    `Active` is the default, so an active GPUSpec has no field. Raises OperationRefused if a GPUSpec is not declared.
    """
    changes = [_set_lifecycle(declarations, name, lifecycle) for name in dict.fromkeys(names)]
    return merge_change_sets(changes, f"{_VERBS[lifecycle]} {len(changes)} GPUSpecs")


def _set_lifecycle(declarations: Declarations, name: str, lifecycle: Lifecycle) -> ChangeSet:
    declared = declarations.find(GPUSpec, PLATFORM, name)
    data = set_enum_field(declared, "lifecycle", lifecycle, "Active")
    notes = (_NOTES[lifecycle],) if lifecycle in _NOTES else ()
    return ChangeSet(f"{_VERBS[lifecycle]} GPUSpec {name}", {declared.path: data}, (f"GPUSpec {name}",), notes)


def _has_price(spec: GPUSpec, day: datetime.date) -> bool:
    return any(price.start == day for price in spec.spec.prices)


def _parse_day(text: str) -> datetime.date:
    try:
        day: datetime.date = TypeAdapter(Date).validate_python(text)
    except ValidationError as error:
        raise InvalidField(_START, error.errors(include_url=False)[0]["msg"]) from None
    return day
