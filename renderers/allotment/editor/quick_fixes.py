"""Offers corrections: a known name in place of an unknown name, and the changes of `allot fmt`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from lsprotocol.types import CodeAction, CodeActionKind, Diagnostic, TextEdit, WorkspaceEdit

from allotment.declared.autofix import autofix, is_fixable
from allotment.declared.canonical import quote_text
from allotment.declared.formatting import format_declaration
from allotment.declared.reading import read_declaration
from allotment.editor.candidates import list_keys, list_values
from allotment.editor.diagnostics import SOURCE
from allotment.editor.facts import DeclaredFacts
from allotment.editor.field_index import Cursor, Token, find_tokens
from allotment.editor.text_positions import TextPositions

MAX_NAMES = 3
_CUTOFF = 0.6
_NAME_RULES = frozenset(("api-version", "enum", "kind", "name", "reference", "sharing", "unknown-field"))
_NOTATION_RULES = frozenset(("encoding", "scalar", "type"))


def list_actions(
    facts: DeclaredFacts, path: str, positions: TextPositions, uri: str, diagnostics: Iterable[Diagnostic]
) -> list[CodeAction]:
    """Return the corrections for the diagnostics of a document, and the corrections of `allot fmt --fix`."""
    own = [diagnostic for diagnostic in diagnostics if diagnostic.source == SOURCE]
    tokens = find_tokens(positions.text)
    actions = [
        CodeAction(
            title,
            kind=CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            is_preferred=is_first or None,
            edit=WorkspaceEdit({uri: [edit]}),
        )
        for diagnostic in own
        if diagnostic.code in _NAME_RULES
        for title, edit, is_first in _list_names(facts, positions, tokens, diagnostic)
    ]
    fixable = [diagnostic for diagnostic in own if diagnostic.code in _NOTATION_RULES]
    data = positions.text.encode("utf-8", "surrogatepass")
    if fixable and any(map(is_fixable, read_declaration(path, data, facts.declaration_path)[1])):
        edits = compute_edits(positions, autofix(path, data, facts.declaration_path))
        if edits:
            title = "Correct the notation of all values"
            edit = WorkspaceEdit({uri: edits})
            actions.append(CodeAction(title, kind=CodeActionKind.QuickFix, diagnostics=fixable, edit=edit))
    if edits := compute_edits(positions, format_declaration(path, data, fix=True)[0]):
        title = "Format as allot fmt --fix does"
        actions.append(CodeAction(title, kind=CodeActionKind.SourceFixAll, edit=WorkspaceEdit({uri: edits})))
    return actions


def list_format_edits(path: str, positions: TextPositions) -> list[TextEdit]:
    """Return the changes of `allot fmt`; none if the document can't be read."""
    data = positions.text.encode("utf-8", "surrogatepass")
    return compute_edits(positions, format_declaration(path, data, fix=False)[0])


def compute_edits(positions: TextPositions, data: bytes) -> list[TextEdit]:
    """Return one edit that changes the text into `data`, and leaves the equal start and end alone; none if equal."""
    old, new = positions.text, data.decode("utf-8", "surrogatepass")
    if old == new:
        return []
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] != new[index]), most)
    most -= start
    end = next((index for index in range(most) if old[-index - 1] != new[-index - 1]), most)
    return [TextEdit(positions.to_range(start, len(old) - end), new[start : len(new) - end])]


def _list_names(
    facts: DeclaredFacts, positions: TextPositions, tokens: list[Token], diagnostic: Diagnostic
) -> Iterator[tuple[str, TextEdit, bool]]:
    """Yield a title and an edit for each name that is close to the wrong name, the closest first."""
    start = positions.to_offset(diagnostic.range.start)
    token = next((each for each in tokens if each.start == start), None)
    if token is not None and token.is_key and diagnostic.code != "unknown-field":
        # The problem is about a value on a later line than its key.
        token = next((each for each in tokens if each.field == token.field and not each.is_key), None)
    if token is None:
        return
    others = tuple(each for each in tokens if each is not token)
    cursor = Cursor(token.field[:-1] if token.is_key else token.field, token.is_key, token.start, token.end, others)
    candidates = list_keys(facts, cursor) if token.is_key else list_values(facts, cursor)
    names = {candidate.name: candidate for candidate in candidates if candidate.name != token.text}
    close_names = difflib.get_close_matches(token.text[:64], list(names), MAX_NAMES, _CUTOFF) or (
        list(names) if len(names) == 1 else []
    )
    for index, name in enumerate(close_names):
        text = quote_text(name) if names[name].is_text else name
        yield f"Replace by {name}", TextEdit(positions.to_range(token.start, token.end), text), index == 0
