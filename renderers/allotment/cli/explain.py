"""`allot explain`: the manual page of a kind or a field, from the models themselves."""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from typing import Any

import click

from allotment import API_VERSION
from allotment.declared.kinds import KINDS
from allotment.problems import Refused, quoted


@click.command()
@click.argument("what", required=False, metavar="[KIND[.FIELD...]]")
def command(what: str | None) -> None:
    """Show the manual page of a kind or field, such as GPUInstance.spec.storages."""
    if what is None:
        width = max(len(kind) for kind in KINDS)
        for kind in KINDS.values():
            click.echo(
                f"{click.style(kind.name.ljust(width), bold=True)}  {kind.path.ljust(46)}  {_first_line(kind.model)}"
            )
        return
    name, *fields = what.split(".")
    kind_name = next((known for known in KINDS if known.lower() == name.lower()), None)
    if kind_name is None:
        from allotment.declared.reading import nearest

        raise Refused(f"no kind is named {quoted(name)}{nearest(name, KINDS)}")
    kind = KINDS[kind_name]
    click.echo(
        f"{click.style('KIND', bold=True)}     {kind.name}\n{click.style('VERSION', bold=True)}  {API_VERSION}\n{click.style('FILE', bold=True)}     {kind.path}\n"
    )
    _show(kind.model, fields, kind.name)


def _show(model: Any, fields: list[str], path: str) -> None:
    from allotment.declared.reading import nearest

    info = None
    for field in fields:
        known = {one.alias: one for one in model.model_fields.values()} if _is_model(model) else {}
        if field not in known:
            raise Refused(f"{path} has no field {quoted(field)}{nearest(field, known)}")
        info = known[field]
        path += f".{field}"
        model = _element(info.annotation)
    if info is not None:
        click.echo(f"{click.style('FIELD', bold=True)}    {path} <{type_text(info)}>{_required(info)}\n")
        if info.description:
            click.echo(_indented(info.description) + "\n")
    if _is_model(model):
        click.echo(_indented(inspect.getdoc(model) or "") + "\n")
        click.echo(click.style("FIELDS", bold=True))
        for one in model.model_fields.values():
            click.echo(f"  {click.style(one.alias, bold=True)} <{type_text(one)}>{_required(one)}")
            about = one.description or (
                _first_line(_element(one.annotation)) if _is_model(_element(one.annotation)) else ""
            )
            if about:
                click.echo(textwrap.indent(textwrap.fill(about, 92), "      "))


def _indented(text: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(textwrap.indent(textwrap.fill(paragraph, 92), "    ") for paragraph in paragraphs)


def _first_line(model: Any) -> str:
    return (inspect.getdoc(model) or "").split("\n")[0]


def _is_model(annotation: Any) -> bool:
    return hasattr(annotation, "model_fields")


def _element(annotation: Any) -> Any:
    """Return what a field's page goes into: a list's or mapping's entry, or the type itself."""
    from allotment.declared.reading import without_optional

    annotation = without_optional(annotation)
    if typing.get_origin(annotation) in (list, dict):
        return _element(typing.get_args(annotation)[-1])
    return annotation


def _required(field: Any) -> str:
    if field.is_required():
        return click.style(" -required-", fg="red")
    default = field.default
    if default is None or default in ([], {}) or _is_model(type(default)):
        return ""
    shown = (
        f"{default // 3600}h"
        if isinstance(default, int) and not isinstance(default, bool) and default >= 3600 and default % 3600 == 0
        else default
    )
    return f" (default {str(shown).lower() if isinstance(shown, bool) else shown})"


def type_text(field: Any) -> str:
    """Return a field's type in the words of its schema: text, integer, a list of …, or the values it may have."""
    return _type(field.annotation, field.metadata)


def _type(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    for one in metadata:
        schema = getattr(one, "json_schema", None)
        if isinstance(schema, dict):
            examples = schema.get("examples")
            return (
                f"text such as {examples[0]}"
                if examples
                else {"string": "text"}.get(str(schema.get("type")), "text or integer")
            )
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], annotation.__metadata__)
    if origin in (typing.Union, types.UnionType):
        return _type(next(one for one in arguments if one is not type(None)))
    if origin is typing.Literal:
        return " | ".join(str(one) for one in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of {_type(arguments[0])} to {_type(arguments[1])}"
    if _is_model(annotation):
        return str(annotation.__name__)
    return {str: "text", int: "integer", bool: "true | false"}.get(annotation, "any")
