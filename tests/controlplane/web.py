"""JSON over HTTP to programs on this machine."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Answered(Exception):
    """A server said no: its status and its words."""

    def __init__(self, url: str, status: int, text: str) -> None:
        super().__init__(f"{url} answered {status}: {text[:500]}")
        self.status = status
        self.text = text


def call(
    url: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    authority: Path | None = None,
) -> Any:
    """Return what a URL answers, decoded where it is JSON; with a body it is POSTed. Raises Answered for 400 and above.

    `authority` is the certificate that an https:// server is trusted by.
    """
    trust = ssl.create_default_context(cafile=authority) if authority else None
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            raise Answered(url, error.code, error.read().decode(errors="replace")) from None
    try:
        return json.loads(text)
    except ValueError:
        return text
