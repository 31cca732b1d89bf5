"""Writes new declarations in canonical form, and names the option that causes each of their problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment import API_VERSION
from allotment.declared.autofix import build_schema_line
from allotment.declared.canonical import canonicalize
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.manifests.yaml_text import dump


def write_declaration(path: str, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> bytes:
    """Return a declaration in canonical form, with its schema line. `path` is the path of a declaration."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    metadata = {"name": spot.name, **({"labels": dict(labels)} if labels else {})}
    value = {"apiVersion": API_VERSION, "kind": spot.kind.name, "metadata": metadata, "spec": dict(spec)}
    text = build_schema_line(path, spot.kind.name) + dump([value]).decode().removeprefix("---\n")
    return canonicalize(text.encode(), spot.kind.model)


def list_option_problems(path: str, data: bytes, options: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of a new declaration. `options` maps the start of a field to its option."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    for problem in read_declaration(path, data, spot)[1]:
        starts = [start for start in options if problem.field.startswith(start)]
        yield f"{options[max(starts, key=len)] if starts else problem.field}: {problem.message}"
