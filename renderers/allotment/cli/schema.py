"""`allot schema`: a JSON Schema a kind, for editors and pre-commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from allotment.adapters.folder import write_file
from allotment.cli.options import repository, repository_option
from allotment.declared.kinds import KINDS, Kind


@click.command()
@repository_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a schema isn't up to date.")
def command(repo: Path | None, check: bool) -> None:
    """Write schemas/KIND.schema.json for every kind; files name theirs in their first line."""
    folder = repository(repo) / "schemas"
    stale = []
    for kind in KINDS.values():
        path, text = folder / f"{kind.name}.schema.json", schema_text(kind)
        if path.is_file() and path.read_bytes() == text.encode():
            continue
        stale.append(path.name)
        if not check:
            folder.mkdir(exist_ok=True)
            write_file(path, text.encode())
    for name in stale:
        click.echo(f"schemas/{name}: {'stale: run `allot schema`' if check else 'written'}")
    raise click.exceptions.Exit(1 if check and stale else 0)


def schema_text(kind: Kind) -> str:
    """Return a kind's JSON Schema (draft 2020-12) as text."""
    schema: dict[str, Any] = kind.model.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.name}
    schema = {**head, **schema, "title": kind.name}
    return json.dumps(_tidy(schema), indent=2, ensure_ascii=False) + "\n"


def _tidy(node: Any) -> Any:
    """Leave out what pydantic adds for itself: generated titles of fields, and `null` that we don't read."""
    if isinstance(node, list):
        return [_tidy(one) for one in node]
    if not isinstance(node, dict):
        return node
    if "anyOf" in node and {"type": "null"} in node["anyOf"]:
        others = [one for one in node["anyOf"] if one != {"type": "null"}]
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        node = {**rest, **others[0]} if len(others) == 1 else {**rest, "anyOf": others}
    return {
        key: _tidy(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str) and "type" in node and "properties" not in node)
    }
