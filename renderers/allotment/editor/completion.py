"""Offers the fields and values that may stand at the cursor."""

from __future__ import annotations

from lsprotocol.types import CompletionItem, CompletionItemKind, MarkupContent, MarkupKind, Position, TextEdit

from allotment.declared.canonical import quote_text
from allotment.declared.field_types import FieldType, find_field_type
from allotment.editor.candidates import list_keys, list_values
from allotment.editor.facts import DeclaredFacts
from allotment.editor.field_index import Cursor, find_cursor
from allotment.editor.text_positions import TextPositions


def complete(facts: DeclaredFacts, positions: TextPositions, position: Position) -> list[CompletionItem]:
    """Return the fields or values for a position, in the order in which an editor shows them."""
    cursor = find_cursor(positions.text, positions.to_offset(position))
    if cursor is None:
        return []
    model = facts.declaration_path.kind.model
    field_type = find_field_type(model, cursor.field)
    prefix = ""
    if cursor.is_key and field_type is not None and not field_type.fields and field_type.is_group:
        # The cursor is below the key of a list: a dash begins the first item.
        item_type = find_field_type(model, (*cursor.field, 0))
        if item_type is not None:
            field_type, prefix, cursor = item_type, "- ", cursor._replace(field=(*cursor.field, 0))
    if field_type is None:
        return []
    is_item = bool(prefix) or (bool(cursor.field) and isinstance(cursor.field[-1], int))
    if field_type.fields and (cursor.is_key or is_item):
        texts = [(each, f"{each.name}{_colon(cursor, field_type, each.name)}") for each in list_keys(facts, cursor)]
        kind = CompletionItemKind.Field
    else:
        texts = [(each, quote_text(each.name) if each.is_text else each.name) for each in list_values(facts, cursor)]
        kind = CompletionItemKind.Value
    if cursor.needs_space:
        prefix = f" {prefix}"
    is_quoted = positions.text[cursor.start : cursor.end].startswith(('"', "'"))
    return [
        CompletionItem(
            label=candidate.name,
            kind=kind,
            detail=candidate.summary or None,
            documentation=MarkupContent(MarkupKind.Markdown, candidate.description) if candidate.description else None,
            sort_text=f"{index:04}",
            filter_text=f'"{candidate.name}"' if is_quoted else None,
            text_edit=TextEdit(positions.to_range(cursor.start, cursor.end), prefix + text),
        )
        for index, (candidate, text) in enumerate(texts)
    ]


def _colon(cursor: Cursor, mapping: FieldType, name: str) -> str:
    """Return the text after a key: a colon if it is missing, and a space if the value stands on the same line."""
    value = find_field_type(mapping.annotation, (name,))
    if cursor.is_key and not cursor.needs_colon:
        return ""
    return ":" if value is not None and value.is_group else ": "
