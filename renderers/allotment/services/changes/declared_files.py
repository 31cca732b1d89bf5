"""Reads the declarations that a command edits, from a folder or a commit."""

from __future__ import annotations

from allotment.adapters.declaration_source import Source
from allotment.declared.layout import Scope
from allotment.edits.declarations import Declarations


def open_declarations(source: Source) -> Declarations:
    """Return the declarations of a source. A file that is no regular file counts as absent."""

    def read(path: str) -> bytes | None:
        try:
            return source.read(path)
        except (KeyError, OSError):
            return None

    def list_paths(scope: Scope) -> list[str]:
        try:
            return list(source.files(scope).paths)
        except (KeyError, OSError):
            return []

    def list_scopes(kind: str) -> list[str]:
        return [scope.name for scope in source.scopes()[0] if scope.kind == kind]

    return Declarations(read, list_paths, list_scopes)
