"""Reads HTTP responses within limits of time and size, and describes their faults."""

from __future__ import annotations

import email.utils
import json
import time

import urllib3

from allotment.problems import escape_unprintable

CONNECT_SECONDS = 10
MOST_BYTES = 256 << 20  # bytes of one response
_CHUNK_BYTES = 1 << 20
_MAX_REASON_BYTES = 8 << 10


# After one of these exceptions, there is no complete response. The message is that of the first matching type.
_ERROR_TEXTS: tuple[tuple[type[Exception], str], ...] = (
    (urllib3.exceptions.NameResolutionError, "its name could not be resolved"),
    (urllib3.exceptions.NewConnectionError, "nothing listens there, or no way leads there"),
    (urllib3.exceptions.ConnectTimeoutError, f"no connection within {CONNECT_SECONDS} s"),
    (urllib3.exceptions.TimeoutError, "too slow"),
    (urllib3.exceptions.ProxyError, "the proxy of HTTPS_PROXY, ALL_PROXY or the kubeconfig doesn't lead there"),
    (
        urllib3.exceptions.SSLError,
        "its certificate isn't trusted, or it speaks no TLS: name the file of its certificate authority in SSL_CERT_FILE",
    ),
    (urllib3.exceptions.ProtocolError, "the connection broke off"),
)


class ApiUnavailable(Exception):
    """The server gave no usable response; the message is the reason."""


class ApiError(Exception):
    """The server answered with an error.

    `retry_after` is in seconds, 0 if the response has no Retry-After. `message` is the reason in the body of the response;
    empty if the body was not read or has no reason.
    """

    def __init__(self, status: int, retry_after: float, message: str = "") -> None:
        super().__init__(f"answered {status}" + (f": {message}" if message else ""))
        self.status = status
        self.retry_after = retry_after
        self.message = message


def read_body(answer: urllib3.BaseHTTPResponse, seconds: float, limit: int) -> bytes:
    """Return the whole body of a response, and close the response. Raises ApiUnavailable.

    The body may take at most `seconds` and have at most `limit` bytes.
    """
    end, chunks, size = time.monotonic() + seconds, list[bytes](), 0
    try:
        while chunk := answer.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if time.monotonic() > end or size > limit:
                raise ApiUnavailable("too slow" if size <= limit else "too much")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiUnavailable(error_text(error)) from None
    finally:
        close_response(answer)
    return b"".join(chunks)


def error_text(error: Exception) -> str:
    """Return the text of _ERROR_TEXTS for an error that prevented a response, or else the name of the error's type.

    The error may contain the error of a single try.
    """
    for cause in (error, *error.args):
        each = getattr(cause, "reason", None) or cause
        for kind, message in _ERROR_TEXTS:
            if isinstance(each, kind):
                return message
    return type(error).__name__


def read_reason(answer: urllib3.BaseHTTPResponse) -> str:
    """Return the message of an error response of Kubernetes as a single line; empty if there is none."""
    try:
        return parse_reason(answer.read1(_MAX_REASON_BYTES))
    except (urllib3.exceptions.HTTPError, OSError):
        return ""


def parse_reason(body: bytes) -> str:
    """Return the message in the body of an error response as a single line; empty if there is none."""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = status.get("message") if isinstance(status, dict) else None
    return escape_unprintable(message, 300) if isinstance(message, str) else ""


def close_response(answer: urllib3.BaseHTTPResponse) -> None:
    """Close the connection without waiting for the rest of the response."""
    answer.close()
    answer.release_conn()


def parse_http_date(date: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date; None if it is invalid."""
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
