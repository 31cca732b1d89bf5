"""The JSON output of the commands: one type per command, from which `allot schema` writes schemas/output/."""

from __future__ import annotations

import inspect
import json
import re
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

import msgspec

from allotment.reports.outputs.output import Output

# The commands with JSON output. For example, the output type of `instance list` is `InstanceListOutput` in the module
# `instance_list`. A module is imported on first use.
OUTPUTS = (
    "validate",
    "explain",
    "fmt",
    "render",
    "publish",
    "recover",
    "init",
    "schema",
    "status",
    "history",
    "usage",
    "cost",
    "bill",
    "month close",
    "month list",
    "month verify",
    "portal build",
    "wait",
    "instance",
    "instance list",
    "instance show",
    "storage list",
    "storage show",
    "secret list",
    "secret show",
    "spec list",
    "cluster list",
    "node list",
    "pool list",
    "tariff list",
    "tenant list",
    "member list",
    "catalog",
    "stock",
    "stock search",
    "stock usage",
    "plan",
    "comment",
    "ownership",
    "app",
    "add-on",
    "change",
    "operation",
    "doctor",
)

_FRACTION_DIGITS = 12  # decimal places
_CUSTOM_SCHEMAS: dict[type, dict[str, Any]] = {Fraction: {"type": "number"}}
_FORMAT_TYPES = {"decimal": "number", "date": "string"}
_NON_ASCII = re.compile("[^\x00-\x7e]+")
_WORD_SEPARATOR = re.compile("[ -]")


def as_json(output: Output) -> str:
    """Return an output as indented JSON text.

    The text is in ASCII, so that text from others cannot control a terminal. An amount of money is a number with all
    its digits.
    """
    data = msgspec.json.Encoder(decimal_format="number", enc_hook=_encode_fraction).encode(output)
    text = msgspec.json.format(data, indent=2).decode()
    return _NON_ASCII.sub(lambda match: json.dumps(match.group())[1:-1], text) + "\n"


def _encode_fraction(value: Fraction) -> Decimal:
    return round(Decimal(value.numerator) / Decimal(value.denominator), _FRACTION_DIGITS).normalize()


def schema_file(command: str) -> str:
    """Return the name of the file with the JSON Schema of a command's output."""
    return f"{command.replace(' ', '-')}.schema.json"


def output_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a command's output with `--output json`."""
    module = import_module(f"{__name__}.{_WORD_SEPARATOR.sub('_', command)}")
    name = "".join(word.capitalize() for word in _WORD_SEPARATOR.split(command))
    return schema_of(getattr(module, f"{name}Output"), command)


def schema_of(output: type[Output], command: str) -> dict[str, Any]:
    """Return the JSON Schema of an output type."""
    (schema,), parts = msgspec.json.schema_components(
        [output], ref_template="#/$defs/{name}", schema_hook=_CUSTOM_SCHEMAS.__getitem__
    )
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"allot {command} --output json"}
    return {**head, **schema, "$defs": {name: _normalize_schema(parts[name]) for name in sorted(parts)}}


def _normalize_schema(node: Any) -> Any:
    """Return a schema node that matches the text of `as_json`.

    In that text, every field is present, decimals are numbers, and dates are text.
    """
    if isinstance(node, list):
        return [_normalize_schema(child) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") in _FORMAT_TYPES:
        return {"type": _FORMAT_TYPES[node["format"]]}
    clean_node = {key: _normalize_schema(value) for key, value in node.items()}
    # If the description is a mapping, it is the schema of a field that is called `description`.
    if isinstance(clean_node.get("description"), str):
        clean_node["description"] = inspect.cleandoc(clean_node["description"])
    if "properties" in clean_node:
        clean_node["required"] = sorted(clean_node["properties"])
    return clean_node
