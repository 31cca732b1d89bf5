"""Selects the files with diagnostics that the editor does not show yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from lsprotocol.types import Diagnostic
from pygls.uris import from_fs_path

from allotment.adapters.overlay_source import OverlaySource
from allotment.editor.diagnostics import build_diagnostics
from allotment.editor.session import Session, group_by_path
from allotment.editor.text_positions import TextPositions
from allotment.problems import Problem

MAX_FILES = 500  # an editor gets the problems of at most this many files that are not open


class FileDiagnostics(NamedTuple):
    """All diagnostics of a file."""

    path: str
    diagnostics: list[Diagnostic]


class DiagnosticsPublisher:
    """Knows the problems that the editor shows, and builds the diagnostics of each file that differs."""

    def __init__(self, session: Session, encoding: str) -> None:
        self._session, self._encoding = session, encoding
        self._published: dict[str, list[Problem]] = {}
        self.hidden_file_count = 0

    def build_changes(
        self, problems: Collection[Problem], documents: Mapping[str, bytes], changed_paths: Collection[str]
    ) -> list[FileDiagnostics]:
        """Return the diagnostics that the editor must replace, for the problems of a check.

        The result has the files with other problems than at the last call, and the open documents among `changed_paths`. A
        file without problems has an empty list of diagnostics. `hidden_file_count` becomes the number of files with
        problems that exceed MAX_FILES.
        """
        groups = group_by_path(problems)
        closed_paths = [path for path in groups if path not in documents]
        for path in closed_paths[MAX_FILES:]:
            del groups[path]
        self.hidden_file_count = max(0, len(closed_paths) - MAX_FILES)
        source = self._session.open_source(documents)
        stale_paths = [
            path
            for path in sorted({*groups, *self._published})
            if groups.get(path, []) != self._published.get(path, [])
        ]
        stale_paths += [path for path in changed_paths if path in documents and path not in stale_paths]
        self._published = groups
        return [self._build_file(path, groups.get(path, []), source) for path in stale_paths]

    def uri_of(self, path: str) -> str:
        """Return the URI of a file."""
        return str(from_fs_path(self._session.absolute_path(path)))

    def _build_file(self, path: str, problems: list[Problem], source: OverlaySource) -> FileDiagnostics:
        if not problems:
            return FileDiagnostics(path, [])
        return FileDiagnostics(
            path, build_diagnostics(problems, TextPositions(read_text(source, path), self._encoding), self.uri_of)
        )


def read_text(source: OverlaySource, path: str) -> str:
    """Return the text of a file or an open document; empty if it can't be read, such as the text of a folder."""
    try:
        return source.read(path).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
