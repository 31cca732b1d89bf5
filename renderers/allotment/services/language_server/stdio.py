"""Runs a language server over a pair of byte streams, such as standard input and output."""

from __future__ import annotations

import logging
from typing import BinaryIO

from allotment.services.language_server.features import register_features
from allotment.services.language_server.server import ServerOptions, create_server


def serve(options: ServerOptions, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer the requests of an editor until it ends the connection."""
    # `report_server_error` reports errors to the editor. The library would also write a traceback for each wrong message.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = create_server(options)
    register_features(server)
    server.start_io(requests, replies)
