"""Writes the file of a new declaration in canonical form, and checks the file of a new or edited declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from allotment import API_VERSION
from allotment.declared.autofix import build_schema_line
from allotment.declared.canonical import canonicalize
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.manifests.yaml_text import dump
from allotment.problems import Finding, OperationRefused

_INDEX = re.compile(r"\[[0-9]+\]")
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


class InvalidField(OperationRefused):
    """A field of a new or edited declaration can't have its value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message

    def name_input(self, inputs: Mapping[str, str]) -> str:
        """Return the message with the name of the input that has the value, such as `--count`.

        `inputs` maps fields such as `spec.prices[].perHour` to their inputs. An entry also names the
        fields below its field, if they have no entry. Without an entry, the message has the field.
        """
        pattern = _INDEX.sub("[]", self.field)
        fields = [field for field in inputs if pattern == field or pattern.startswith((f"{field}.", f"{field}["))]
        message = self.message.replace(" quoted ", " ")  # a file has quotes, an option has none
        return f"{inputs[max(fields, key=len)] if fields else self.field}: {message}"


def build_declaration(path: str, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> bytes:
    """Return the file of a declaration at a valid path, with its schema line. Raises OperationRefused for a reserved name."""
    declaration_path = parse_path(path)
    if isinstance(declaration_path, Finding):
        raise OperationRefused(declaration_path.message)
    assert isinstance(declaration_path, DeclarationPath), path
    metadata = {"name": declaration_path.name, **({"labels": dict(labels)} if labels else {})}
    value = {"apiVersion": API_VERSION, "kind": declaration_path.kind.name, "metadata": metadata, "spec": dict(spec)}
    text = build_schema_line(path, declaration_path.kind.name) + dump([value]).decode().removeprefix("---\n")
    return canonicalize(text.encode(), declaration_path.kind.model)


def check_declaration(path: str, data: bytes) -> bytes:
    """Return the file of a declaration. Raises InvalidField, with the field and the reason, if it is invalid."""
    declaration_path = parse_path(path)
    assert isinstance(declaration_path, DeclarationPath), path
    declared, problems = read_declaration(path, data, declaration_path)
    if declared is None:
        raise InvalidField(problems[0].field, problems[0].message)
    return data


def list_option_problems(path: str, data: bytes, options: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of a new declaration. `options` maps the start of a field to its option."""
    declaration_path = parse_path(path)
    assert isinstance(declaration_path, DeclarationPath), path
    for problem in read_declaration(path, data, declaration_path)[1]:
        starts = [start for start in options if problem.field.startswith(start)]
        yield f"{options[max(starts, key=len)] if starts else problem.field}: {problem.message}"


def parse_number(text: str) -> int | str:
    """Return a whole number, or the text itself, which the check of the declaration then reports."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else text
