"""Sends requests to Argo CD's API with a user's token."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

from allotment.adapters.argocd.login import ArgoCDLogin
from allotment.adapters.http_connections import (
    build_websocket_options,
    create_connection_pool,
    create_tls_context,
    find_proxy,
)
from allotment.adapters.http_responses import (
    CONNECT_SECONDS,
    MOST_BYTES,
    ApiError,
    ApiUnavailable,
    close_response,
    error_text,
    parse_reason,
    read_body,
    read_reason,
)

if TYPE_CHECKING:
    import websocket

_READ_SECONDS = 30
_MAX_LINE_BYTES = 16 << 20
_CHUNK_BYTES = 64 << 10


class ArgoCDServer:
    """The API of an Argo CD, with the rights of a login. All methods raise ApiError or ApiUnavailable."""

    def __init__(self, login: ArgoCDLogin) -> None:
        self.url = login.url
        self._login = login
        self._pool = create_connection_pool(login.url, verifies=login.verifies)

    def read(self, path: str, query: Mapping[str, str]) -> Any:
        """Return the JSON value that answers a GET request for a path below /api/v1/."""
        body = read_body(self._open(path, query, _READ_SECONDS), _READ_SECONDS, MOST_BYTES)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise ApiUnavailable("the response is no JSON") from None

    def stream(self, path: str, query: Mapping[str, str], *, endless: bool) -> Iterator[Any]:
        """Yield the JSON value of each line that answers a GET request. `endless` waits for more lines forever."""
        answer, rest = self._open(path, query, None if endless else _READ_SECONDS), b""
        try:
            while piece := answer.read1(_CHUNK_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    raise ApiUnavailable("a line of the response is too long")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
            if rest.strip():
                yield json.loads(rest)
        except (ValueError, RecursionError):
            raise ApiUnavailable("a line of the response is no JSON") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(error_text(error)) from None
        finally:
            close_response(answer)

    def connect(self, path: str, query: Mapping[str, str]) -> websocket.WebSocket:
        """Return a WebSocket for a path below the URL of Argo CD."""
        import websocket

        url = f"ws{self.url.removeprefix('http')}/{path}?{urlencode(query)}"
        try:
            # Argo CD reads the token of a terminal from a cookie only.
            connection = websocket.create_connection(
                url,
                CONNECT_SECONDS,
                sslopt={"context": create_tls_context(verifies=self._login.verifies)},
                cookie=f"argocd.token={self._login.token}",
                redirect_limit=0,
                **build_websocket_options(find_proxy(self.url)),
            )
        except websocket.WebSocketBadStatusException as error:
            raise ApiError(error.status_code, 0, parse_reason(error.resp_body or b"")) from None
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise ApiUnavailable(error_text(error)) from None
        connection.settimeout(None)
        return connection

    def _open(self, path: str, query: Mapping[str, str], read_seconds: float | None) -> urllib3.BaseHTTPResponse:
        try:
            answer = self._pool.request(
                "GET",
                f"{self.url}/api/v1/{path}",
                fields=dict(query),
                headers={"Authorization": f"Bearer {self._login.token}"},
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiUnavailable(error_text(error)) from None
        if answer.status != HTTPStatus.OK:
            reason = read_reason(answer)
            close_response(answer)
            raise ApiError(answer.status, 0, reason)
        return answer
