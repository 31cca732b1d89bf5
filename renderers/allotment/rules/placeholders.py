"""Placeholders: the declarations of the platform and its clusters contain no sample values.

The rule warns about hosts below `.example` (RFC 2606), and about digests that repeat a single digit. It reports each
domain or digest once, even if several files contain it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.problems import Finding, quote_value

RULE = "placeholder"
_FREE_TEXT_FIELDS = (
    "description",
    "displayName",
    "labels",
    "env",
    "args",
    "command",
)  # these fields may contain any text
_DIGEST = re.compile(r"sha256:([0-9a-f])\1{63}")
_HOST_END = re.compile(r"[/:?#]")
_PlaceholderField = tuple[DeclarationFile[Declaration], str]  # a declaration, and one of its fields


def check(catalog: Catalog) -> Iterator[Finding]:
    """Check the declarations of the platform and its clusters."""
    places: dict[str, list[_PlaceholderField]] = {}
    for folder in (catalog.platform, *catalog.clusters.values()):
        for declaration in folder.all_declarations():
            if b".example" in declaration.data or b"sha256:" in declaration.data:
                for field, placeholder in _find_placeholders(declaration):
                    places.setdefault(placeholder, []).append((declaration, field))
    for placeholder, occurrences in places.items():
        (first, field), other_paths = (
            occurrences[0],
            sorted({declaration.path for declaration, _ in occurrences} - {occurrences[0][0].path}),
        )
        more = (
            f", here and in {len(other_paths)} more file{'' if len(other_paths) == 1 else 's'}" if other_paths else ""
        )
        message = f"{quote_value(placeholder)} is a placeholder{more}: write your own"
        yield first.make_finding(field, message, RULE, warning=True, related=tuple(other_paths))


def _find_placeholders(declaration: DeclarationFile[Declaration]) -> Iterator[tuple[str, str]]:
    """Yield each field with a placeholder, and the placeholder: a host's domain, or a digest."""
    for field, text in _text_values("spec", declaration.model.spec.model_dump(by_alias=True, exclude_none=True)):
        host = _HOST_END.split(text.partition("://")[2] or text, maxsplit=1)[0]
        if host.endswith(".example"):
            yield field, ".".join(host.split(".")[-2:])
        elif digest := _DIGEST.search(text):
            yield field, digest[0]


def _text_values(field: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text inside `value` that may be an address, with its field."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _FREE_TEXT_FIELDS:
                yield from _text_values(f"{field}.{key}", each)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _text_values(f"{field}.{index}", each)
    elif isinstance(value, str):
        yield field, value
