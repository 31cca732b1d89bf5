"""Answers the requests of an editor: completion, hover, corrections and formatting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lsprotocol import types

from allotment.declared.encoding import MAX_BYTES
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.layout import parse_path
from allotment.declared.reading import read_folder
from allotment.editor.completion import complete
from allotment.editor.facts import DeclaredFacts
from allotment.editor.hover import describe_position
from allotment.editor.quick_fixes import list_actions, list_format_edits
from allotment.editor.server import EditorServer
from allotment.editor.text_positions import TextPositions
from allotment.problems import Finding
from allotment.services.check.workers import read_scope


class OpenDocument(NamedTuple):
    """An open declaration: its path, its text, and the declarations that it can name."""

    path: str
    positions: TextPositions
    facts: DeclaredFacts


def register_features(server: EditorServer) -> None:
    """Register the features that need the last check."""

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" ", ":", "-"]))
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        document = find_document(server, params.text_document.uri)
        return complete(document.facts, document.positions, params.position) if document is not None else []

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document = find_document(server, params.text_document.uri)
        if document is None:
            return None
        return describe_position(document.facts, document.positions, params.position)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions([types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        document = find_document(server, uri)
        if document is None:
            return []
        actions = list_actions(document.facts, document.path, document.positions, uri, params.context.diagnostics)
        only = params.context.only
        return [action for action in actions if only is None or _is_of_kind(action.kind, only)]

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = find_document(server, params.text_document.uri)
        return list_format_edits(document.path, document.positions) if document is not None else []


def find_document(server: EditorServer, uri: str) -> OpenDocument | None:
    """Return an open declaration; None before the first check, and for a document that is no declaration or too long."""
    path, session = server.find_path(uri), server.session
    check = session.last if session is not None else None
    data = server.documents.get(path) if path is not None else None
    if session is None or check is None or path is None or data is None or len(data) > MAX_BYTES:
        return None
    declaration_path = parse_path(path)
    if declaration_path is None or isinstance(declaration_path, Finding):
        return None
    source = session.open_source(server.documents)
    if declaration_path.scope.kind == "tenant":
        try:
            folder = read_folder(declaration_path.scope, read_scope(source, declaration_path.scope).files)[0]
        except OSError:  # the folder was removed, or leads through a symbolic link
            folder = ScopeDeclarations(declaration_path.scope)
    else:
        clusters = check.catalog.clusters
        folder = (
            check.catalog.platform
            if declaration_path.scope.kind == "platform"
            else clusters.get(declaration_path.scope.name) or (ScopeDeclarations(declaration_path.scope))
        )
    facts = DeclaredFacts(declaration_path, check.catalog, folder, check.tally_entries.values())
    text = data.decode("utf-8", "surrogatepass")
    return OpenDocument(path, TextPositions(text, server.encoding), facts)


def _is_of_kind(kind: str | types.CodeActionKind | None, only: Sequence[types.CodeActionKind | str]) -> bool:
    """Return whether an editor asks for a kind of action: the kind itself, or a part of its name before a dot."""
    name = str(kind.value if isinstance(kind, types.CodeActionKind) else kind)
    wanted_kinds = [str(each.value if isinstance(each, types.CodeActionKind) else each) for each in only]
    return any(f"{name}.".startswith(f"{each}.") for each in wanted_kinds)
