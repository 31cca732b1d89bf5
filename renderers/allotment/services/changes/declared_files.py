"""Reads the declarations that a command edits, from a folder or a commit."""

from __future__ import annotations

from allotment.adapters.declaration_source import Source
from allotment.declared.layout import Scope, folder_of
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused


def open_declarations(source: Source) -> Declarations:
    """Return the declarations of a source. A file that is no regular file counts as absent."""

    def read(path: str) -> bytes | None:
        try:
            return source.read(path)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise OperationRefused(f"{path} can't be read: {error.strerror}") from None

    def list_paths(scope: Scope) -> list[str]:
        try:
            return list(source.files(scope).paths)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise OperationRefused(f"{folder_of(scope)} can't be read: {error.strerror}") from None

    def list_scopes(kind: str) -> list[str]:
        return [scope.name for scope in source.scopes()[0] if scope.kind == kind]

    return Declarations(read, list_paths, list_scopes)
