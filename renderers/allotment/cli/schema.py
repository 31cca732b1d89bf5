"""`allot schema`: writes a JSON Schema for each kind of declaration, and for the JSON output of each command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from allotment.adapters.folder_source import write_checkout_file
from allotment.cli.options import find_repository, output_option, print_note, repository_option
from allotment.declared.kinds import KINDS, Kind
from allotment.declared.values import format_duration


@click.command()
@repository_option
@click.option("--check", is_flag=True, help="Write nothing. Exit with 1 if a schema isn't up to date.")
@output_option()
def command(repo: Path | None, check: bool, style: str) -> None:
    """Write schemas/KIND.schema.json for every kind, and schemas/output/COMMAND.schema.json for the JSON output of commands.

    The first line of a declaration names the schema of its kind.

    \b
    Examples:
      allot schema
      allot schema --check
    """
    root = find_repository(repo)
    folder = root / "schemas"
    stale = []
    for name, text in _list_schemas():
        path = folder / name
        if path.is_file() and path.read_bytes() == text.encode():
            continue
        stale.append(name)
        if not check:
            write_checkout_file(root, f"schemas/{name}", text.encode())
    _print_result(stale, check, style)
    raise click.exceptions.Exit(1 if check and stale else 0)


def _print_result(stale: list[str], check: bool, style: str) -> None:
    if style == "json":
        from allotment.reports import outputs
        from allotment.reports.outputs.schema import SchemaOutput

        output = SchemaOutput(changed=tuple(f"schemas/{name}" for name in stale), written=not check)
        click.echo(outputs.as_json(output), nl=False)
        return
    for name in stale:
        if check:
            click.echo(f"schemas/{name}: stale: run `allot schema`")
        else:
            print_note(f"schemas/{name}: written")


def _list_schemas() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each schema."""
    from allotment.reports.outputs import OUTPUTS, output_schema, schema_file

    for kind in KINDS.values():
        yield f"{kind.name}.schema.json", format_schema(kind)
    for command in OUTPUTS:
        schema = output_schema(command)
        yield f"output/{schema_file(command)}", json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def format_schema(kind: Kind) -> str:
    """Return a kind's JSON Schema (draft 2020-12) as text."""
    schema: dict[str, Any] = kind.model.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.name}
    schema = {**head, **schema, "title": kind.name}
    return json.dumps(_simplify_schema(schema), indent=2, ensure_ascii=False) + "\n"


def _simplify_schema(node: Any) -> Any:
    """Return a schema without the titles that pydantic generates, and without `null`, which no declaration may contain.

    The default of a duration, which pydantic writes as a number of seconds, becomes text such as 1h30m.
    """
    if isinstance(node, list):
        return [_simplify_schema(child) for child in node]
    if not isinstance(node, dict):
        return node
    if "anyOf" in node and {"type": "null"} in node["anyOf"]:
        variants = [variant for variant in node["anyOf"] if variant != {"type": "null"}]
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        node = {**rest, **variants[0]} if len(variants) == 1 else {**rest, "anyOf": variants}
    if node.get("type") == "string" and isinstance(node.get("default"), int):
        node = {**node, "default": format_duration(node["default"])}
    return {
        key: _simplify_schema(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str) and "type" in node and "properties" not in node)
    }
