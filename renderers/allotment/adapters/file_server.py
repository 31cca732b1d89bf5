"""Reads and changes the files of a storage through its file server, dufs 0.46.

The paths of files are absolute and not percent-encoded. All methods raise TransferError, which says whether a repetition may
succeed.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import NamedTuple, Self
from urllib.parse import quote

from allotment.problems import escape_unprintable

REQUEST_SECONDS = 60.0  # the longest wait for the next bytes, and for space to send more
_MIN_HASH_RATE = 20e6  # bytes per second; dufs 0.46 hashes 190 MB per second on one core
_CHUNK_BYTES = 1 << 20
_MAX_LISTING_BYTES = 256 << 20  # a listing of 100,000 files has 10 MB
_MAX_TEXT_BYTES = 1 << 10
_BUSY = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next request opens another connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def find_entry(self, path: str) -> RemoteEntry | None:
        """Return the file or folder at a path; None if there is none."""
        name = path.rstrip("/").rpartition("/")[2]
        answer = self._request("HEAD", path, expected=(HTTPStatus.OK, HTTPStatus.NOT_FOUND))
        answer.read()
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        length, version = answer.headers.get("Content-Length"), answer.headers.get("ETag", "")
        # The server answers for a folder with its page, which has no ETag.
        return RemoteEntry(name, False, int(length or 0), version) if version else RemoteEntry(name, True, 0)

    def list_folder(self, path: str) -> list[RemoteEntry]:
        """Return the entries of a folder."""
        answer = self._request("GET", f"{path.rstrip('/')}/", "json")
        body = answer.read(_MAX_LISTING_BYTES + 1)
        try:
            listing = json.loads(body)
            if len(body) > _MAX_LISTING_BYTES or listing.get("dir_exists") is False:
                raise ValueError
            return [
                RemoteEntry(str(entry["name"]), str(entry["path_type"]).endswith("Dir"), int(entry.get("size") or 0))
                for entry in listing["paths"]
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            answer.close()
            self.close()
            raise TransferError(f"{escape_unprintable(path)} is no folder that can be listed") from None

    def read_hash(self, path: str, size: int) -> str:
        """Return the SHA-256 hash of a file of `size` bytes, as 64 hexadecimal digits. The server reads the whole file."""
        seconds = REQUEST_SECONDS + size / _MIN_HASH_RATE
        return (
            self._request("GET", path, "hash", seconds=seconds).read(_MAX_TEXT_BYTES).decode("ascii", "replace").strip()
        )

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
        self._request("PATCH" if start else "PUT", path, headers=headers, body=pieces).read()

    def create_folder(self, path: str) -> None:
        """Create a folder, if it doesn't exist. Its parent folder exists."""
        self._request("MKCOL", path, expected=(HTTPStatus.CREATED, HTTPStatus.METHOD_NOT_ALLOWED)).read()

    def move(self, path: str, target: str) -> None:
        """Rename a file. An existing file at `target` is replaced."""
        self._request("MOVE", path, headers={"Destination": quote(target)}).read()

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        self._request("DELETE", path, expected=(HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND)).read()

    def _request(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        headers: dict[str, str] | None = None,
        body: Iterable[bytes] | None = None,
        seconds: float = REQUEST_SECONDS,
        expected: tuple[HTTPStatus, ...] = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT),
    ) -> http.client.HTTPResponse:
        """Return the response with an expected status, before its body is read."""
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
            raise TransferError(f"the connection broke off: {type(error).__name__}", is_temporary=True) from None
        except BaseException:  # the body can't be read, so the request is incomplete
            self.close()
            raise
        if answer.status in expected:
            return answer
        answer.close()
        self.close()  # the rest of the response isn't read
        reason = f"{method} {escape_unprintable(path)} was answered with {answer.status}"
        raise TransferError(reason, is_temporary=answer.status in _BUSY, status=answer.status)


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
