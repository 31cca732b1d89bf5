"""Writes the file of a new declaration in canonical form, and checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment import API_VERSION
from allotment.declared.autofix import build_schema_line
from allotment.declared.canonical import canonicalize
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.manifests.yaml_text import dump
from allotment.problems import OperationRefused


def build_declaration(path: str, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> bytes:
    """Return the file of a declaration at a valid path, with its schema line."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    metadata = {"name": spot.name, **({"labels": dict(labels)} if labels else {})}
    value = {"apiVersion": API_VERSION, "kind": spot.kind.name, "metadata": metadata, "spec": dict(spec)}
    text = build_schema_line(path, spot.kind.name) + dump([value]).decode().removeprefix("---\n")
    return canonicalize(text.encode(), spot.kind.model)


def check_declaration(path: str, data: bytes) -> bytes:
    """Return the file of a declaration. Raises OperationRefused, with the field and the reason, if it is invalid."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    declared, problems = read_declaration(path, data, spot)
    if declared is None:
        raise OperationRefused(f"{problems[0].field}: {problems[0].message}")
    return data


def list_option_problems(path: str, data: bytes, options: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of a new declaration. `options` maps the start of a field to its option."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    for problem in read_declaration(path, data, spot)[1]:
        starts = [start for start in options if problem.field.startswith(start)]
        yield f"{options[max(starts, key=len)] if starts else problem.field}: {problem.message}"
