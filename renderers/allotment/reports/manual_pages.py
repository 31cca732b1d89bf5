"""Generate the manual pages of kinds, fields and rules from the models and rules themselves."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from allotment.declared.kinds import KINDS, Kind
from allotment.declared.kinds.declaration import Metadata
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH, MAX_NAME_LENGTHS
from allotment.declared.reading import suggest_name, without_optional
from allotment.declared.values import NAME_PATTERN, Duration, format_duration
from allotment.problems import OperationRefused, quote_value
from allotment.reports.outputs.explain import ExplainOutput, FieldOutput
from allotment.reports.reason_pages import reason_pages
from allotment.reports.rule_pages import rule_page, rule_pages
from allotment.reports.state_pages import STATE_PAGES

NAME_RULE = "a-z, 0-9 and single '-', a letter first, no '-' last"
_IS_DURATION = typing.get_args(Duration)[1]  # each field of the type Duration has this entry in its metadata
KIND_DESCRIPTION = "What the file declares; its folder says it too."


def manual_page(subject: str) -> ExplainOutput:
    """Return the page of a subject of `allot explain`.

    A subject is a kind, `KIND.field.field`, the name of a field, `rule NAME`, the ID of a rule, or a state, condition
    or reason of a status. If the ID of a rule is also the name of a kind, the page of the kind ends with the rule.
    Raises OperationRefused for an unknown subject. The message of the error suggests the closest known subject.
    """
    name, *fields = subject.split(".")
    if name.startswith("rule "):
        rule = subject.removeprefix("rule ").strip()
        return ExplainOutput(subject=f"rule {rule}", description=rule_page(rule))
    rules = rule_pages()
    kind_name = next((candidate for candidate in KINDS if candidate.lower() == name.lower()), None)
    if kind_name is None and subject in rules:
        return manual_page(f"rule {subject}")
    if kind_name is None:
        return _reason_page(subject.removeprefix("reason ").strip())
    kind = KINDS[kind_name]
    model, itself, path = kind.model, None, kind.name
    for field in fields:
        fields_by_alias = (
            {str(field_info.alias): field_info for field_info in model.model_fields.values()} if is_model(model) else {}
        )
        if field not in fields_by_alias:
            raise OperationRefused(f"{path} has no field {quote_value(field)}{suggest_name(field, fields_by_alias)}")
        itself = field_page(kind, model, field)
        path += f".{field}"
        model = element_type(fields_by_alias[field].annotation)
    return ExplainOutput(
        subject=path,
        file=kind.path,
        description=describe_field(itself, model)
        + (f"\n\nRule {subject}: {rules[subject]}" if subject in rules else ""),
        itself=itself,
        fields=tuple(field_page(kind, model, str(field_info.alias)) for field_info in model.model_fields.values())
        if is_model(model)
        else (),
    )


def _reason_page(name: str) -> ExplainOutput:
    pages = reason_pages()
    reason = next((candidate for candidate in pages if candidate.lower() == name.lower()), None)
    state = next((candidate for candidate in STATE_PAGES if candidate.lower() == name.lower()), None)
    if reason is not None:
        also = f"\n\nAs a state: {STATE_PAGES[state]}" if state is not None else ""
        return ExplainOutput(subject=f"reason {reason}", description=pages[reason] + also)
    if state is not None:
        return ExplainOutput(subject=f"state {state}", description=STATE_PAGES[state])
    if name and (fields := _field_paths(name)):
        return ExplainOutput(
            subject=f"field {name}", description="The fields of this name, by their paths.", fields=fields
        )
    hint = suggest_name(name, [*KINDS, *rule_pages(), *pages, *STATE_PAGES])
    hint = hint if hint.startswith("; did you mean") else suggest_name(name, KINDS)
    raise OperationRefused(f"no kind, rule, state or reason is named {quote_value(name)}{hint}")


def _field_paths(name: str) -> tuple[FieldOutput, ...]:
    """Return the fields that are called `name` in any kind, each with its full path.

    `name` may also be the end of a path, such as `NAME.NAME`.
    """
    return tuple(
        msgspec.structs.replace(field_page(kind, model, path.rpartition(".")[2]), name=path)
        for kind in KINDS.values()
        for path, model in _walk_fields(kind.name, kind.model)
        if path.lower().endswith(f".{name.lower()}")
    )


def _walk_fields(above: str, model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path of each field of a model and of its nested models, with the model that contains the field."""
    for field in model.model_fields.values():
        path, below = f"{above}.{field.alias}", element_type(field.annotation)
        yield path, model
        if is_model(below) and below is not model:
            yield from _walk_fields(path, below)


def describe_field(itself: FieldOutput | None, model: Any) -> str:
    """Return the descriptions of a field and of its model as paragraphs."""
    below = inspect.getdoc(model) or "" if is_model(model) else ""
    above = itself.description if itself is not None else ""
    return "\n\n".join(
        dict.fromkeys(paragraph for paragraph in (above, below) if paragraph and not below.startswith(f"{paragraph}\n"))
    )


def field_page(kind: Kind, model: Any, alias: str) -> FieldOutput:
    """Return the page of one field of a model."""
    field = next(field_info for field_info in model.model_fields.values() if field_info.alias == alias)
    below = element_type(field.annotation)
    about = field.description or (first_line(below) if is_model(below) else "")
    if model is Metadata and alias == "name":
        longest = MAX_NAME_LENGTHS.get(kind.name) or MAX_NAME_LENGTHS.get(_file_location(kind), DEFAULT_MAX_NAME_LENGTH)
        limit_text = f"3 to {longest} characters of {NAME_RULE}"
    else:
        limit_text = limits_text(_schema(model)["properties"][alias])
    return FieldOutput(
        name=alias,
        type=type_text(field),
        limits=limit_text,
        required=field.is_required(),
        default=_default_text(field),
        description=about or (KIND_DESCRIPTION if alias == "kind" else ""),
    )


def _file_location(kind: Kind) -> str:
    """If each scope has only one file of the kind, return the scope of the kind. For other kinds, return an empty string.

    The declaration in this single file has the name of its scope, such as the name of a tenant.
    """
    return kind.scope if kind.singleton else ""


@functools.cache
def _schema(model: Any) -> dict[str, Any]:
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    return schema


def limits_text(node: dict[str, Any]) -> str:
    """Return the limits of a field's JSON Schema in words. For a list, the words include the limits of its items."""
    if "anyOf" in node:
        node = next((alternative for alternative in node["anyOf"] if alternative.get("type") != "null"), node)
    constraints = []
    for least, most, unit in (
        ("minimum", "maximum", None),
        ("minLength", "maxLength", ("character", "characters")),
        ("minItems", "maxItems", ("entry", "entries")),
        ("minProperties", "maxProperties", ("entry", "entries")),
    ):
        bounds = node.get(least), node.get(most)
        if words := _range_text(*bounds):
            constraints.append(f"{words} {unit[bounds not in _SINGULAR]}" if unit else words)
    if node.get("pattern") == NAME_PATTERN:
        constraints.append(NAME_RULE)
    if isinstance(node.get("items"), dict) and (each := limits_text(node["items"])):
        constraints.append(f"each {each}")
    return ", ".join(constraints)


_SINGULAR = ((1, None), (None, 1), (1, 1))  # the lower and upper bounds that precede a singular noun


def _range_text(least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f"{least:,} to {most:,}" if least != most else f"{least:,}"
    if most is not None:
        return f"at most {most:,}"
    return f"at least {least:,}" if least is not None else ""


def first_line(model: Any) -> str:
    """Return the first line of a model's docstring."""
    return (inspect.getdoc(model) or "").split("\n", maxsplit=1)[0]


def is_model(annotation: Any) -> bool:
    """Return whether a field's type has fields of its own."""
    return hasattr(annotation, "model_fields")


def element_type(annotation: Any) -> Any:
    """Return the type that may have nested fields: the item type of a list or mapping, or else `annotation` itself."""
    annotation = without_optional(annotation)
    if typing.get_origin(annotation) in (list, dict):
        return element_type(typing.get_args(annotation)[-1])
    return annotation


def _default_text(field: Any) -> str:
    default = field.default
    if field.is_required() or default is None or default in ([], {}, "") or is_model(type(default)):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if _IS_DURATION in field.metadata:
        return format_duration(default)
    return ", ".join(default) if isinstance(default, list) else str(default)


def type_text(field: Any) -> str:
    """Return a field's type in words: text, integer, a list of …, or the allowed values."""
    return _annotation_text(field.annotation, field.metadata)


def _annotation_text(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    for constraint in metadata:
        schema = getattr(constraint, "json_schema", None)
        if isinstance(schema, dict):
            return _schema_type_text(schema)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotation_text(arguments[0], annotation.__metadata__)
    if len(arguments) > 1 and type(None) in arguments:
        return _annotation_text(next(argument for argument in arguments if argument is not type(None)))
    if origin is typing.Literal:
        return " | ".join(str(argument) for argument in arguments)
    if origin is list:
        return f"list of {_annotation_text(arguments[0])}"
    if origin is dict:
        return f"mapping of {_annotation_text(arguments[0])} to {_annotation_text(arguments[1])}"
    if is_model(annotation):
        return str(annotation.__name__)
    return {str: "text", int: "integer", bool: "true | false"}.get(annotation, "any")


def _schema_type_text(schema: dict[str, Any]) -> str:
    """Return the type that the JSON Schema in a field's annotation declares, in words."""
    if examples := schema.get("examples"):
        return f"text such as {examples[0]}"
    if schema.get("type") == "object":
        return "mapping of text to text"
    return "text" if schema.get("type") == "string" else "integer or text"
