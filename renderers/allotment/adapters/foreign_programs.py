"""Starts programs of the person that need no token of the forge: browsers, and the plugins of kubeconfigs."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

_TOKEN_VARIABLE = "ALLOT_FORGE_TOKEN"  # noqa: S105  # the name of a variable, not a token
_lock = threading.RLock()


@contextmanager
def without_forge_token() -> Iterator[None]:
    """Inside the block, leave the forge's token out of the environment, which programs inherit."""
    with _lock:
        token = os.environ.pop(_TOKEN_VARIABLE, None)
        try:
            yield
        finally:
            if token is not None:
                os.environ[_TOKEN_VARIABLE] = token


def open_browser(url: str) -> threading.Thread:
    """Open a URL in the browser of the person, in a thread: a browser in a terminal keeps the call busy until it ends."""

    def run() -> None:
        with without_forge_token():
            webbrowser.open(url)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
