"""Reads and changes the files of a storage through its file server, dufs 0.46.

The paths of files are absolute and not percent-encoded. All methods raise TransferError, which says whether a repetition may
succeed.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from typing import NamedTuple, Self
from urllib.parse import quote

from allotment.problems import escape_unprintable

REQUEST_SECONDS = 60.0  # the longest wait for the next bytes, and for space to send more
_MIN_HASH_RATE = 20e6  # bytes per second; dufs 0.46 hashes 190 MB per second on one core
_CHUNK_BYTES = 1 << 20
_MAX_LISTING_BYTES = 256 << 20  # a listing of 100,000 files has 10 MB
_MAX_TEXT_BYTES = 64 << 10  # of other answers, such as the text of an error
_MAX_DIGITS = 18  # of a size
_SUCCESS = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)
CANCELLED = "the copy was cancelled"
_BUSY = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
# dufs answers so when it deletes a part of an upload between finding the file and opening it.
_BUSY_READS = _BUSY | {HTTPStatus.INTERNAL_SERVER_ERROR}


class TransferError(Exception):
    """A request failed; the message is the reason. `is_temporary` says whether a repetition may succeed."""

    def __init__(self, message: str, *, is_temporary: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.status = status


class RemoteEntry(NamedTuple):
    """A file or a folder of a storage. `size` is in bytes; 0 for a folder. `version` changes with the content."""

    name: str
    is_folder: bool
    size: int
    version: str = ""


class FileServer:
    """A connection to a file server. `connect` opens it, and again after an error.

    `create_headers` returns the headers that are sent with each request. Both may raise TransferError.
    """

    def __init__(
        self,
        connect: Callable[[], http.client.HTTPConnection],
        create_headers: Callable[[], dict[str, str]] = dict,
    ) -> None:
        self._connect, self._create_headers = connect, create_headers
        self._connection: http.client.HTTPConnection | None = None
        self._is_cancelled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next request opens another connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def cancel(self) -> None:
        """Let the request that is running, and all further requests, fail. Another thread may call this method."""
        self._is_cancelled = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def find_entry(self, path: str) -> RemoteEntry | None:
        """Return the file or folder at a path; None if there is none."""
        name = path.rstrip("/").rpartition("/")[2]
        status, headers, _ = self._ask("HEAD", path, expected=(HTTPStatus.OK, HTTPStatus.NOT_FOUND))
        if status == HTTPStatus.NOT_FOUND:
            return None
        # The server answers for a folder with its page, which has no ETag.
        version, length = headers.get("ETag", ""), headers.get("Content-Length", "0")
        if not version:
            return RemoteEntry(name, True, 0)
        if not (length.isascii() and length.isdigit() and len(length) < _MAX_DIGITS):
            raise TransferError(f"{escape_unprintable(path)} has an invalid size on the storage")
        return RemoteEntry(name, False, int(length), version)

    def list_folder(self, path: str) -> list[RemoteEntry]:
        """Return the entries of a folder, without links and special files."""
        _, _, body = self._ask("GET", f"{path.rstrip('/')}/", "json", limit=_MAX_LISTING_BYTES)
        try:
            listing = json.loads(body)
            if listing.get("dir_exists") is False:
                raise ValueError
            kinds = {"Dir": True, "File": False}
            entries = [
                RemoteEntry(str(entry["name"]), kinds[entry["path_type"]], int(entry.get("size") or 0))
                for entry in listing["paths"]
                if entry["path_type"] in kinds
            ]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise TransferError(f"{escape_unprintable(path)} is no folder that can be listed") from None
        return [entry._replace(size=max(0, entry.size)) for entry in entries]

    def read_hash(self, path: str, size: int) -> str:
        """Return the SHA-256 hash of a file of `size` bytes, as 64 hexadecimal digits. The server reads the whole file."""
        _, _, body = self._ask("GET", path, "hash", seconds=REQUEST_SECONDS + size / _MIN_HASH_RATE)
        return body.decode("ascii", "replace").strip()

    def read_file(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the content of a file from byte `start` on."""
        expected = HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK
        answer = self._request("GET", path, headers={"Range": f"bytes={start}-"} if start else {}, expected=(expected,))
        try:
            while piece := answer.read(_CHUNK_BYTES):
                yield piece
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise TransferError(f"the connection broke off: {type(error).__name__}", is_temporary=True) from None
        finally:
            answer.close()

    def write_file(self, path: str, pieces: Iterable[bytes], length: int, start: int = 0) -> None:
        """Write `length` bytes to a file from byte `start` on. With `start` 0, create or replace the file.

        The bytes before `start` stay. Bytes that the file already has after `start` are replaced.
        """
        headers = {"Content-Length": str(length)}
        if start:
            headers["X-Update-Range"] = f"bytes={start}-"
        self._ask("PATCH" if start else "PUT", path, headers=headers, body=pieces)

    def create_folder(self, path: str) -> None:
        """Create a folder, if it doesn't exist. Its parent folder exists."""
        expected = (HTTPStatus.CREATED, HTTPStatus.METHOD_NOT_ALLOWED)
        if self._ask("MKCOL", path, expected=expected)[0] == HTTPStatus.METHOD_NOT_ALLOWED:
            entry = self.find_entry(path)
            if entry is not None and not entry.is_folder:
                raise TransferError(f"{escape_unprintable(path)} is a file on the storage, but a folder here")

    def move(self, path: str, target: str) -> None:
        """Rename a file. An existing file at `target` is replaced."""
        self._ask("MOVE", path, headers={"Destination": quote(target)})

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        self._ask("DELETE", path, expected=(HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND))

    def _ask(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        headers: dict[str, str] | None = None,
        body: Iterable[bytes] | None = None,
        seconds: float = REQUEST_SECONDS,
        limit: int = _MAX_TEXT_BYTES,
        expected: tuple[HTTPStatus, ...] = _SUCCESS,
    ) -> tuple[int, Message, bytes]:
        """Return the status, the headers and the body of a response with an expected status; at most `limit` bytes."""
        answer = self._request(method, path, query, headers=headers, body=body, seconds=seconds, expected=expected)
        try:
            content = answer.read(limit + 1)
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise TransferError(f"the connection broke off: {type(error).__name__}", is_temporary=True) from None
        finally:
            answer.close()
        if len(content) > limit:
            self.close()
            raise TransferError(f"the answer to {method} {escape_unprintable(path)} is too long")
        return answer.status, answer.headers, content

    def _request(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        headers: dict[str, str] | None = None,
        body: Iterable[bytes] | None = None,
        seconds: float = REQUEST_SECONDS,
        expected: tuple[HTTPStatus, ...] = _SUCCESS,
    ) -> http.client.HTTPResponse:
        """Return the response with an expected status, before its body is read."""
        if self._is_cancelled:
            raise TransferError(CANCELLED)
        url = quote(path) + (f"?{query}" if query else "")
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.timeout = seconds
            if self._connection.sock is not None:
                self._connection.sock.settimeout(seconds)
            answer = _exchange(self._connection, method, url, body, {**self._create_headers(), **(headers or {})})
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if self._is_cancelled:
                raise TransferError(CANCELLED) from None
            raise TransferError(f"the connection broke off: {type(error).__name__}", is_temporary=True) from None
        except BaseException:  # the body can't be read, so the request is incomplete
            self.close()
            raise
        if answer.status in expected:
            return answer
        answer.close()
        self.close()  # the rest of the response isn't read
        reason = f"{method} {escape_unprintable(path)} was answered with {answer.status}"
        temporary_statuses = _BUSY_READS if method in {"HEAD", "GET"} else _BUSY
        raise TransferError(reason, is_temporary=answer.status in temporary_statuses, status=answer.status)


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    url: str,
    body: Iterable[bytes] | None,
    headers: dict[str, str],
) -> http.client.HTTPResponse:
    """Send a request and return the response. A server may refuse a body before it has received all of the body."""
    try:
        connection.request(method, url, body, headers)
    except (BrokenPipeError, ConnectionResetError):
        if body is None:
            raise
    return connection.getresponse()
