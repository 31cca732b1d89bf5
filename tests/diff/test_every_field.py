"""Every field of every kind is told where it changes. What these are is read from the models, so that a new field can't be
forgotten."""

from __future__ import annotations

import datetime
import json
import re
import types
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import Scope
from allotment.diff.declaration_diff import declared_changes, unrendered_changes
from allotment.diff.field_diff import DiffCache

BARE = re.compile(r"\[[^\]]*\]| from .*")  # which entry of a list it is of, and from which day
IDENTITY = ("api_version", "kind", "metadata.name")


def values(annotation: Any) -> list[Any]:
    """Return some values that a field may have, all different."""
    origin, of = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values(of[0])
    if origin is Literal:
        return list(of)
    if origin in (Union, types.UnionType):
        return [each for argument in of if argument is not type(None) for each in values(argument)] + [None]
    if origin is list:
        entries = [value for value in values(of[0]) if value is not None]
        return [entries, entries[:1], entries[1:], []]
    if origin is dict:
        keys, dict_values = values(of[0]), values(of[1])
        return [dict(zip(keys, dict_values, strict=False)), {keys[0]: dict_values[1]}, {keys[1]: dict_values[0]}, {}]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [whole(annotation, 0), whole(annotation, 1)]
    of_type: dict[Any, list[Any]] = {
        str: ["one", "other"],
        Any: ["one", 3],
        int: [3, 4],
        bool: [False, True],
        Decimal: [Decimal(1), Decimal(2)],
        datetime.date: [datetime.date(2026, 12, 1), datetime.date(2027, 1, 1), datetime.date(2027, 2, 1)],
    }
    return of_type[annotation]


def whole(model: type[BaseModel], at: int) -> BaseModel:
    """Return a model with all its fields, unchecked; `at` says which of each one's values it has."""
    values_by_name = {name: values(field.rebuild_annotation()) for name, field in model.model_fields.items()}
    return model.model_construct(
        **{name: choices[min(at, len(choices) - 1)] for name, choices in values_by_name.items()}
    )


def variants(model: BaseModel, at: str = "") -> Iterator[tuple[str, BaseModel, BaseModel]]:
    """Yield a model twice, with each value of each of its fields and the next one; and the field."""
    for name, field in type(model).model_fields.items():
        here = f"{at}.{field.alias}".lstrip(".")
        if name in IDENTITY or here in IDENTITY:
            continue
        choices = values(field.rebuild_annotation())
        for was, is_now in zip(choices, [*choices[1:], choices[0]], strict=True):
            if was != is_now and here != "metadata":  # whose name is another file's
                yield here, model.model_copy(update={name: was}), model.model_copy(update={name: is_now})
        inner = getattr(model, name)
        first = inner[0] if isinstance(inner, list) and inner else inner
        for below, was, is_now in variants(first, here) if isinstance(first, BaseModel) else ():
            ends = [[each, *inner[1:]] if isinstance(inner, list) else each for each in (was, is_now)]
            if not any(_on_one_day(each) for each in ends):
                yield (below, *(model.model_copy(update={name: each}) for each in ends))  # type: ignore[misc]  # there are two


def _on_one_day(entries: Any) -> bool:
    """Return whether two prices begin on one day, which no file may have."""
    days = [entry.start for entry in entries if hasattr(entry, "start")] if isinstance(entries, list) else []
    return len(days) > len(set(days))


def in_file(model: BaseModel) -> bytes:
    """Return a declaration as its file has it."""
    return json.dumps(model.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1).encode()


def list_changes(kind: str, old: BaseModel, new: BaseModel) -> list[str]:
    """Return the fields that are told as changed."""
    path = KINDS[kind].path.format(name="one", cluster="one", tenant="one")
    scope = Scope(KINDS[kind].scope, "one")
    ends = [
        ScopeDeclarations(scope, [DeclarationFile(path, in_file(model), model)])  # type: ignore[arg-type]  # each kind is a Declaration
        for model in (old, new)
    ]
    changes = [*declared_changes(*ends, "EUR", DiffCache()), *unrendered_changes(*ends, (), DiffCache())]
    return [BARE.sub("", change.field) for change in changes]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_told_where_it_changes(kind: str) -> None:
    model: type[Declaration] = KINDS[kind].model
    begin = whole(model, 0)
    begin = begin.model_copy(update={"kind": kind})
    unsaid = set()
    count = 0
    for field, was, is_now in variants(begin):
        count += 1
        if not any(
            changed_field.startswith(field) or field.startswith(changed_field)
            for changed_field in list_changes(kind, was, is_now)
        ):
            unsaid.add(field)
    # A new operation ID has no effect, and the plan of its change shows the command's other fields.
    assert unsaid == {"metadata.operationID"}
    assert count > 4
