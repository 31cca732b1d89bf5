"""Write declarations in canonical form: fields in the order of the pydantic model, sorted lists, one item per line.

A free-form mapping, such as the values of a chart, keeps its order. The keys of a mapping of text, such as labels, are
sorted. Only the form changes: a parser reads the same values from `canonicalize(text)` as from `text`. A comment stays
above or beside its item. Comments above the first item stay at the top of the file.
"""

from __future__ import annotations

import json
import re
import typing
from typing import Any

from pydantic import BaseModel

from allotment.declared.commented_document import CommentedDocument, Entry, Group, read_commented_document
from allotment.declared.reading import without_optional
from allotment.declared.scalars import reads_as_text

LIST_KEYS = ("name", "version", "mountPath", "from", "storageSpec", "key")
ORDERED_LISTS = ("command", "args")

_PLAIN = re.compile(
    r"[^\W\d_](?:[\w ./@+()'*;!?-]|,(?= )|:(?=[\w/@-]))*|/[\w./@+-]*|[1-9][0-9]*(?:Mi|Gi|Ti|m)|(?:[0-9]+h)?(?:[0-9]+m)?[0-9]+[hms]"
)
_ESCAPED = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def canonicalize(data: bytes, model: type[BaseModel] | None) -> bytes:
    """Return the canonical form of a document.

    The document must have no syntax errors. `model` defines the order of the fields.
    """
    return write_document(read_commented_document(data), model)


def write_document(document: CommentedDocument, model: type[BaseModel] | None) -> bytes:
    """Return the text of a document in canonical form. `model` defines the order of the fields."""
    lines = [*document.header]
    _write(document.root, model, "", lines, "")
    lines += document.footer
    return ("\n".join(lines) + "\n").encode("utf-8")


def _write(group: Group, annotation: Any, pad: str, lines: list[str], first: str) -> None:
    """Append the lines of a group to `lines`.

    If the group is an item of a list, `first` is the start of its first line: the padding and a dash.
    """
    fields = _field_order(annotation) if group.is_mapping else {}
    entries = group.entries
    if group.is_mapping and fields:
        order = {alias: index for index, alias in enumerate(fields)}
        entries = sorted(entries, key=lambda entry: order.get(str(entry.key), len(order)))
    elif group.is_mapping:
        keeps = annotation is None or _is_free_form(annotation)
        entries = entries if keeps else sorted(entries, key=lambda entry: str(entry.key))
    inner = Any if _is_free_form(annotation) else annotation
    for entry in entries:
        lines += [f"{pad}{comment}" for comment in entry.comments.above]
        lead = first or pad
        first = ""
        start = f"{lead}{quote_text(str(entry.key))}:" if group.is_mapping else f"{lead}-"
        inline_comment = f"  {entry.comments.inline}" if entry.comments.inline else ""
        below = fields.get(str(entry.key)) if group.is_mapping and inner is not Any else inner
        _write_value(entry, below, pad, start, inline_comment, lines)


def _write_value(entry: Entry, annotation: Any, pad: str, start: str, inline_comment: str, lines: list[str]) -> None:
    value = entry.value
    if not isinstance(value, Group):
        lines.append(f"{start} {_write_scalar(value, pad)[0]}{inline_comment}")
        lines.extend(_write_scalar(value, pad)[1])
    elif not value.entries:
        lines.append(f"{start} {'{}' if value.is_mapping else '[]'}{inline_comment}")
    elif value.is_mapping and entry.key is None:
        inner = _order_fields(value, annotation)
        if inline_comment or inner.entries[0].comments.above:
            lines += [
                f"{pad}{comment}"
                for comment in ([inline_comment.strip()] if inline_comment else []) + inner.entries[0].comments.above
            ]
            inner.entries[0] = inner.entries[0]._replace(comments=inner.entries[0].comments._replace(above=[]))
        _write(inner, annotation, pad + "  ", lines, f"{pad}- ")
    elif value.is_mapping:
        lines.append(f"{start}{inline_comment}")
        _write(value, annotation, pad + "  ", lines, "")
    else:
        lines.append(f"{start}{inline_comment}")
        is_free = annotation is Any
        items = value if is_free else _sort_list(value, entry.key)
        _write(items, Any if is_free else _item_annotation(annotation), pad + "  ", lines, "")


def _order_fields(group: Group, annotation: Any) -> Group:
    order = {alias: index for index, alias in enumerate(_field_order(annotation))}
    return Group(True, sorted(group.entries, key=lambda entry: order.get(str(entry.key), len(order))))


def _sort_list(group: Group, key: str | None) -> Group:
    """Return a list sorted by the key field of its items, or by the items themselves if they are scalars.

    Lists in ORDERED_LISTS and lists of mappings without a key field stay unchanged.
    """
    if key in ORDERED_LISTS:
        return group
    keys: list[tuple[Any, ...]] = []
    for entry in group.entries:
        value = entry.value
        if not isinstance(value, Group):
            keys.append((value.value,))
            continue
        texts = {
            field_entry.key: field_entry.value.value
            for field_entry in value.entries
            if not isinstance(field_entry.value, Group)
        }
        name = next((name for name in LIST_KEYS if name in texts), None)
        if name is None:
            return group
        keys.append((texts[name], texts.get("mountPath", ""), texts.get("operator", "")))
    order = sorted(range(len(keys)), key=lambda index: keys[index])
    return Group(False, [group.entries[index] for index in order])


def _is_free_form(annotation: Any) -> bool:
    """Return whether a mapping may have any values, such as the values of a chart. Its order may have a meaning."""
    annotation = without_optional(annotation)
    return annotation is Any or typing.get_args(annotation)[-1:] == (Any,)


def _field_order(annotation: Any) -> dict[str, Any]:
    """Return the annotations of a model's fields by alias; empty if `annotation` is not a model."""
    annotation = without_optional(annotation)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return {}
    return {str(field.alias): field.annotation for field in annotation.model_fields.values()}


def _item_annotation(annotation: Any) -> Any:
    arguments = typing.get_args(without_optional(annotation)) if annotation is not None else ()
    return without_optional(arguments[-1]) if arguments else None


def _write_scalar(event: Any, pad: str) -> tuple[str, list[str]]:
    """Return the text for the line of the key, and the further lines if the scalar becomes a block scalar."""
    value: str = event.value
    if not event.style:
        return value, []
    if "\n" in value and _fits_block(value):
        ending = "" if value.endswith("\n") and not value.endswith("\n\n") else "-" if not value.endswith("\n") else "+"
        body = value.removesuffix("\n").split("\n")
        return f"|{ending}", [f"{pad}  {line}" if line else "" for line in body]
    return quote_text(value), []


def _fits_block(value: str) -> bool:
    lines = value.split("\n")
    return (
        bool(lines[0].strip())
        and not value.startswith(" ")
        and all(line == line.rstrip() and line.replace("\t", " ").isprintable() for line in lines)
        and not value.endswith("\n\n")
    )


def quote_text(value: str) -> str:
    """Return a text as a key or value: plain if every parser reads it as this text, and otherwise in double quotes."""
    if _PLAIN.fullmatch(value) and not value.endswith(" ") and reads_as_text(value):
        return value
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))
