"""Connects a session to an editor: keeps its documents, and sends diagnostics after each change."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from lsprotocol import types
from pygls.exceptions import FeatureRequestError
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from allotment import VERSION
from allotment.adapters.folder_source import find_root
from allotment.editor.publisher import DiagnosticsPublisher, FileDiagnostics
from allotment.editor.session import ChooseDay, Session, Snapshot
from allotment.problems import OperationRefused
from allotment.services.check.check_options import OpenCache

NAME = "allot"


class ServerOptions(NamedTuple):
    """The options of a language server.

    `repository` is the folder of the repository. If it is None, the repository is the one around the folder that the
    editor opens, or around its first document. `choose_day` returns the day of the prices of a source. `open_cache`
    returns the opener of the cache of a repository.
    """

    repository: Path | None
    choose_day: ChooseDay
    open_cache: Callable[[Path], OpenCache]


class EditorServer(LanguageServer):
    """A language server with the open documents of a repository.

    The check runs in a thread, one check at a time. Changes that arrive during a check wait for the next check, so that
    a fast typist causes no queue. There is no delay before a check.
    """

    def __init__(self, options: ServerOptions) -> None:
        # Editors send the whole text of a document: it is small, and no two programs have to agree on line breaks.
        super().__init__(NAME, VERSION, types.TextDocumentSyncKind.Full)
        self.options = options
        self.session: Session | None = None
        self.publisher: DiagnosticsPublisher | None = None
        self.documents: dict[str, bytes] = {}
        self._versions: dict[str, int | None] = {}
        self._uris: dict[str, str] = {}
        self._edited_paths: set[str] = set()
        self._changed_paths: set[str] = set()
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hidden_file_count = 0

    @property
    def encoding(self) -> str:
        """The code units in which the editor counts columns."""
        return types.PositionEncodingKind(self.workspace.position_encoding).value

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Log an error of the protocol. By default, pygls would show each error in a window of the editor."""
        if source is not FeatureRequestError:
            self._log_message(f"message ignored: {type(error).__name__}: {error}", types.MessageType.Warning)

    def open_repository(self, places: Iterable[str | None]) -> None:
        """Open the repository of the options, or the first repository around one of `places`."""
        if self.session is not None:
            return
        candidates = [Path(place) for place in places if place and os.path.isabs(place)]
        for folder in [self.options.repository] if self.options.repository is not None else candidates:
            with contextlib.suppress(OperationRefused, OSError, ValueError):
                root = folder if self.options.repository is not None else find_root(folder)
                resolved = root.resolve()
                self.session = Session((resolved, root), self.options.choose_day, self.options.open_cache(resolved))
                self.publisher = DiagnosticsPublisher(self.session, self.encoding)
                return

    def start_checks(self) -> None:
        """Start the task that checks the repository after each change, unless it runs already."""
        if self._task is None and self.session is not None:
            self._task = asyncio.create_task(self._check_changes())
            self._wakeup.set()

    def report_missing_repository(self) -> None:
        """Log that nothing is checked, if the editor opened a folder outside of every repository."""
        if self.session is None:
            message = (
                "no platform/platform.yaml is here or in a folder above: open the repository, or name it with --repo"
            )
            self._log_message(message, types.MessageType.Warning)

    def find_path(self, uri: str) -> str | None:
        """Return the path of a document in the repository; None if it is outside the repository, or no file."""
        if self.session is None:
            return None
        with contextlib.suppress(ValueError):  # not a URI
            return self.session.find_path(to_fs_path(uri))
        return None

    def set_document(self, uri: str, text: str, version: int | None, *, edited: bool) -> None:
        """Set the text of an open document, and check it."""
        path = self.find_path(uri)
        if path is None:
            return
        self.documents[path] = text.encode("utf-8", "surrogatepass")
        self._versions[path], self._uris[path] = version, uri
        if edited:
            self._edited_paths.add(path)
        self.note_changes([path])

    def close_document(self, uri: str) -> None:
        """Use the file instead of the document from now on, and check it."""
        path = self.find_path(uri)
        if path is None or self.documents.pop(path, None) is None:
            return
        del self._versions[path]
        self.note_changes([path])

    def note_changes(self, paths: Iterable[str]) -> None:
        """Check the files at `paths` as soon as the running check ends."""
        self._changed_paths.update(paths)
        self._wakeup.set()

    async def _check_changes(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            try:
                await self._check_once()
            except Exception as error:  # the next change checks these files again
                self._log_message(f"the check failed: {type(error).__name__}: {error}", types.MessageType.Error)

    async def _check_once(self) -> None:
        """Check the changed files, then the stale tenants until the next change, and send the diagnostics."""
        snapshot = Snapshot(dict(self.documents), frozenset(self._edited_paths))
        versions = dict(self._versions)
        changed_paths, self._changed_paths = self._changed_paths, set()
        try:
            self._publish(await asyncio.to_thread(self._check, snapshot, changed_paths), versions)
        except BaseException:
            self._changed_paths |= changed_paths
            raise
        while self.session is not None and not self.session.is_complete and not self._wakeup.is_set():
            self._publish(await asyncio.to_thread(self._check, snapshot, None), versions)

    def _check(self, snapshot: Snapshot, changed_paths: set[str] | None) -> list[FileDiagnostics]:
        """Check the files at `changed_paths`, or a portion of the stale tenants if it is None."""
        session, publisher = self.session, self.publisher
        assert session is not None and publisher is not None
        if changed_paths is None:
            check = session.check_stale(snapshot)
        else:
            check = session.check_changed(snapshot, changed_paths)
        if check is None:
            return []
        return publisher.build_changes(check.problems, snapshot.documents, changed_paths or ())

    def _publish(self, files: list[FileDiagnostics], versions: dict[str, int | None]) -> None:
        publisher = self.publisher
        assert publisher is not None
        for path, diagnostics in files:
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(
                    self._uris.get(path) or publisher.uri_of(path), diagnostics, versions.get(path)
                )
            )
        if publisher.hidden_file_count > self._hidden_file_count:
            message = f"{publisher.hidden_file_count} more files have problems: `allot validate` prints all"
            self._log_message(message, types.MessageType.Warning)
        self._hidden_file_count = publisher.hidden_file_count

    def _log_message(self, message: str, kind: types.MessageType) -> None:
        with contextlib.suppress(Exception):  # the editor may have closed the connection
            self.window_log_message(types.LogMessageParams(kind, message))
