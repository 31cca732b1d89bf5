"""Writes the file of a new declaration in canonical form, and checks it."""

from __future__ import annotations

from typing import Any

from allotment import API_VERSION
from allotment.declared.autofix import build_schema_line
from allotment.declared.canonical import canonicalize
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.manifests.yaml_text import dump
from allotment.problems import OperationRefused


def build_declaration(path: str, spec: dict[str, Any]) -> bytes:
    """Return the file of a declaration at a valid path, with its schema line."""
    spot = parse_path(path)
    assert isinstance(spot, DeclarationPath), path
    value = {"apiVersion": API_VERSION, "kind": spot.kind.name, "metadata": {"name": spot.name}, "spec": spec}
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
