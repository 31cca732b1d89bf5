"""Describes the field or the named declaration at a position: documentation, price and free units."""

from __future__ import annotations

from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position

from allotment.declared.field_types import find_field_type
from allotment.editor.candidates import summarize_field
from allotment.editor.facts import DeclaredFacts
from allotment.editor.field_index import Token, find_token, find_tokens
from allotment.editor.text_positions import TextPositions
from allotment.problems import OperationRefused
from allotment.reports.manual_pages import manual_page


def describe_position(facts: DeclaredFacts, positions: TextPositions, position: Position) -> Hover | None:
    """Return the description of the key or value at a position; None if there is nothing to describe."""
    tokens = find_tokens(positions.text)
    token = find_token(tokens, positions.to_offset(position))
    if token is None:
        return None
    text = (None if token.is_key else _describe_target(facts, tokens, token)) or _describe_field(facts, token)
    if text is None:
        return None
    return Hover(MarkupContent(MarkupKind.Markdown, text), positions.to_range(token.start, token.end))


def _describe_target(facts: DeclaredFacts, tokens: list[Token], token: Token) -> str | None:
    """Return the description of the declaration that a value names; None if it names none."""
    field_type = find_field_type(facts.declaration_path.kind.model, token.field)
    if field_type is None or field_type.reference is None:
        return None
    cluster = next((each.text for each in tokens if each.field == ("spec", "cluster") and not each.is_key), None)
    offers = facts.list_targets(field_type.reference.kind, cluster if cluster in facts.catalog.clusters else None)
    return next((offer.description for offer in offers if offer.name == token.text), None)


def _describe_field(facts: DeclaredFacts, token: Token) -> str | None:
    """Return the manual page of the field of a key or value; None if it is no declared field."""
    names = [part for part in token.field if isinstance(part, str)]
    try:
        page = manual_page(".".join([facts.declaration_path.kind.name, *names]))
    except OperationRefused:
        return None
    if page.itself is None:
        return None
    return f"**{'.'.join(names)}**: {summarize_field(page.itself)}\n\n{page.description}".strip()
