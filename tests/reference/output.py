"""docs/reference/output.md: what commands print as JSON, from the published schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.reports.markdown import code_span, markdown_table
from allotment.reports.outputs import OUTPUTS, output_schema, schema_file
from tests.reference import paragraphs

HEAD = """# Output

`-o json` prints one JSON object, with `kind` and `apiVersion`, names in camelCase, numbers as numbers, and days and
times as RFC 3339 text. Within a version fields are only added, so ignore those that you don't know. The schemas lie in
`schemas/output/`, and `allot init` writes them into a repository. An error is plain text on standard error, also with
`-o json`; the exit status tells whether the command succeeded."""

WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page's path below docs/reference and its text."""
    lines = [HEAD]
    for command in OUTPUTS:
        schema = output_schema(command)
        parts = schema["$defs"]
        first = _name(schema["$ref"])
        about = f"`allot {command} -o json`, as `schemas/output/{schema_file(command)}` says it."
        lines += ["", f"## {command}", "", about, "", *_part(command, parts[first])]
        for name in sorted(set(parts) - {first}):
            lines += ["", f"### {command}: {name}", "", *_part(command, parts[name])]
    yield "output.md", "\n".join(lines) + "\n"


def _part(command: str, part: dict[str, Any]) -> list[str]:
    description = [paragraphs(part.get("description", "")), ""]
    if "enum" in part:
        return [*description, f"It is {type_of(command, part)}."]
    rows = [(code_span(name), type_of(command, node)) for name, node in part.get("properties", {}).items()]
    return [*description, *markdown_table(("Field", "Type"), rows)]


def type_of(command: str, node: dict[str, Any]) -> str:
    """Return a field's type as Markdown: words, the values it may have, or the part that it is."""
    if "$ref" in node:
        name = _name(node["$ref"])
        return f"[{name}](#{command.replace(' ', '-')}-{name.lower()})"
    if "enum" in node:
        return " or ".join(code_span(str(value)) for value in node["enum"])
    if "const" in node:
        return code_span(str(node["const"]))
    if "anyOf" in node:
        return " or ".join(type_of(command, alternative) for alternative in node["anyOf"])
    if node.get("type") == "array":
        return f"list of {type_of(command, node['items'])}" if node.get("items") else "list"
    if node.get("type") == "object":
        below = node.get("additionalProperties")
        return f"mapping of text to {type_of(command, below)}" if isinstance(below, dict) and below else "mapping"
    formats = {"date": "day", "date-time": "time"}
    return formats.get(node.get("format", "")) or WORDS.get(str(node.get("type")), "anything")


def _name(reference: str) -> str:
    return reference.rsplit("/", maxsplit=1)[-1]
