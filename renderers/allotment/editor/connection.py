"""Serves an editor over a pair of byte streams: receives its documents, and answers its requests."""

from __future__ import annotations

import logging
import os
from typing import BinaryIO

from lsprotocol import types
from pygls.uris import to_fs_path

from allotment.editor.features import register_features
from allotment.editor.server import EditorServer, ServerOptions

_WATCHED_FILES = "{platform,clusters,tenants}/**"
_log = logging.getLogger(__name__)


def serve(options: ServerOptions, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer the requests of an editor until it ends the connection."""
    # `report_server_error` reports errors to the editor. The library would also write a traceback for each wrong message.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = EditorServer(options)
    _register_notifications(server)
    register_features(server)
    server.start_io(requests, replies)


def _register_notifications(server: EditorServer) -> None:
    """Register the notifications of the editor about documents and files."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = [to_fs_path(folder.uri) for folder in params.workspace_folders or ()]
        server.open_repository([*folders, params.root_uri and to_fs_path(params.root_uri), params.root_path])

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        server.start_checks()
        server.report_missing_repository()
        await _watch_files(server)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        file = to_fs_path(document.uri)
        server.open_repository([os.path.dirname(file) if file else None])
        server.start_checks()
        server.set_document(document.uri, document.text, document.version, edited=False)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        document = server.workspace.get_text_document(params.text_document.uri)
        server.set_document(document.uri, document.source, params.text_document.version, edited=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.close_document(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        if (path := server.find_path(params.text_document.uri)) is not None:
            server.note_changes([path])

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [server.find_path(change.uri) for change in params.changes]
        server.note_changes(path for path in paths if path is not None)


async def _watch_files(server: EditorServer) -> None:
    """Ask the editor to report changes of files by other programs, such as Git, if it can."""
    workspace = server.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is None or not watching.dynamic_registration:
        return
    watchers = [types.FileSystemWatcher(f"**/{_WATCHED_FILES}")]
    registration = types.Registration(
        "watch", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesRegistrationOptions(watchers)
    )
    try:
        await server.client_register_capability_async(types.RegistrationParams([registration]))
    except Exception as error:  # without reports, an edit or a save still checks the files of its tenant
        _log.debug("the editor reports no changes of files: %s", error)
