"""One file over HTTP, in parts: what has come stays, and a try that breaks off is followed by one that goes on from there."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import BinaryIO, NamedTuple
from urllib.parse import urljoin

from . import ending, volume

CHUNK = 1024 * 1024
TRIES = 8  # without a byte in between
REDIRECTS = 10
WAIT_SECONDS = 1.0
LONGEST_WAIT = 30.0
_REDIRECTED = (301, 302, 303, 307, 308)
_AFTER_PLACE = re.compile(r"[/?#]")
_RANGE = re.compile(r"bytes (\d{1,20})-\d{1,20}/(?:\d{1,20}|\*)")

Connect = Callable[[str], http.client.HTTPConnection]
Headers = Callable[[str], dict[str, str]]


class Wanted(NamedTuple):
    """A file to fetch: its URL, what its part is called (which changes with the content), and its size, if that is known."""

    url: str
    key: str
    size: int | None = None


def no_headers(url: str) -> dict[str, str]:
    """Return no headers of our own."""
    return {}


class Web:
    """Requests by `connect`; a connection is used again as long as the host is the same. `headers` are those for a URL.

    With `stays` no redirect leads to another host.
    """

    def __init__(
        self, connect: Connect, headers: Headers = no_headers, wait: float = WAIT_SECONDS, *, stays: bool = False
    ) -> None:
        self._connect = connect
        self._stays = stays
        self._headers = headers
        self._wait = wait
        self._open: tuple[str, http.client.HTTPConnection] | None = None

    def get(self, url: str, **headers: str) -> http.client.HTTPResponse:
        """Return the answer to a GET, redirects followed, each checked as the first. Raises Failed, OSError, HTTPException."""
        for _ in range(REDIRECTS):
            answer = self._once(url, headers)
            if answer.status not in _REDIRECTED:
                return answer
            to = answer.headers.get("Location", "")
            self.close()
            before, url = url, _joined(url, to)
            if self._stays and _place(url) != _place(before):
                raise ending.Failed(ending.ADDRESS_REFUSED, f"it sends to another host: {_place(url)!r}")
        raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"more than {REDIRECTS} redirects")

    def _once(self, url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        place = _place(url)
        target = url.removeprefix(place)
        target = target if target.startswith("/") else f"/{target}"
        if self._open is None or self._open[0] != place:
            self.close()
            self._open = place, self._connect(url)
        connection = self._open[1]
        try:
            connection.request("GET", target.partition("#")[0], headers={**self._headers(url), **headers})
            if connection.sock is not None and hasattr(socket, "TCP_QUICKACK"):
                # A server that sends head and body apart waits for our acknowledgement in between: 40 ms, a file.
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            return connection.getresponse()
        except UnicodeError:
            self.close()
            shown = url.partition("?")[0]
            raise ending.Failed(
                ending.ADDRESS_REFUSED, f"{shown!r} is no address: letters beyond ASCII need %"
            ) from None
        except BaseException:
            self.close()
            raise

    def whole(self, url: str, most: int) -> bytes:
        """Return an answer's body, of `most` bytes, in as many tries as it takes. Raises Failed."""
        body = b""

        def once() -> bool:
            nonlocal body
            answer = self.get(url)
            body = answer.read(most)
            refuse(answer, url)
            return True

        self.trying(once)
        return body

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def trying(self, work: Callable[[], bool], come: Callable[[], int] = lambda: 0) -> None:
        """Do a piece of work until it says that it is done. Only tries after which no more has `come` are counted. Raises Failed."""
        tries, trouble = 0, ""
        while tries < TRIES:
            before = come()
            try:
                if work():
                    return
                trouble = "it broke off"
            except ssl.SSLCertVerificationError as error:
                raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"its certificate isn't right: {error}") from None
            except http.client.HTTPException as error:
                trouble = f"{type(error).__name__}: {error}"
            except OSError as error:
                if error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise  # the volume's, not the network's
                trouble = f"{type(error).__name__}: {error}"
            self.close()
            tries = 1 if come() > before else tries + 1
            seconds = min(LONGEST_WAIT, self._wait * 2**tries)
            print(f"again in {seconds:.0f} s: {trouble}", file=sys.stderr)
            time.sleep(seconds)
        raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"given up after {TRIES} tries: {trouble}")


def _joined(url: str, to: str) -> str:
    """Return the URL that a redirect leads to. Raises Failed where it is no URL."""
    try:
        return urljoin(url, to)
    except ValueError:
        raise ending.Failed(
            ending.ADDRESS_REFUSED, f"it sends to {to.partition('?')[0]!r}, which is no address"
        ) from None


def _place(url: str) -> str:
    """Return a URL's scheme, host and port, as they are written."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{_AFTER_PLACE.split(rest, maxsplit=1)[0]}"


def fetch(web: Web, wanted: Wanted, root: str) -> str:
    """Return the path of a file's bytes, in our own folder of the volume; what an earlier try brought is kept. Raises Failed."""
    name = hashlib.sha256(wanted.key.encode()).hexdigest()
    part = os.path.join(root, volume.OWN, f"part-{name[:32]}")

    def there() -> int:
        return os.path.getsize(part) if os.path.exists(part) else 0

    def once() -> bool:
        return bool(wanted.size and there() == wanted.size) or _receive(web, wanted, part, there())

    if os.path.islink(part):
        os.unlink(part)  # somebody's, from before: what it leads to is not ours to write
    web.trying(once, there)
    return part


def opened(part: str, *, go_on: bool = False) -> BinaryIO:
    """Return a file of our own folder, open for writing: emptied, or to `go_on` at its end. No link is followed."""
    if os.path.islink(part):
        os.unlink(part)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_APPEND if go_on else os.O_TRUNC)
    return os.fdopen(os.open(part, flags, 0o644), "ab" if go_on else "wb")


def _receive(web: Web, wanted: Wanted, part: str, there: int) -> bool:
    """Append what comes; return whether that was all. Raises Failed where there is nothing to be had."""
    answer = web.get(wanted.url, **({"Range": f"bytes={there}-"} if there else {}))
    if there and answer.status == 416:
        answer.read()
        os.unlink(part)
        return False
    begun = _RANGE.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    if answer.status == 206 and (begun is None or int(begun[1]) != there):
        raise http.client.HTTPException("it answers with another range")
    refuse(answer, wanted.url)
    with opened(part, go_on=answer.status == 206) as file:
        while data := answer.read(CHUNK):
            file.write(data)
            if wanted.size is not None and file.tell() > wanted.size:
                raise ending.Failed(ending.SOURCE_UNREADABLE, "it is larger than it said")
        # A stream that ends early says so by what it still owes.
        return not answer.length and (wanted.size is None or file.tell() == wanted.size)


def refuse(answer: http.client.HTTPResponse, url: str) -> None:
    """Raise Failed where an answer says no, HTTPException where it may be another later; nothing where it is what was asked for."""
    if answer.status in (200, 206):
        return
    shown = url.partition("?")[0]
    if answer.status in (401, 403):
        raise ending.Failed(ending.ACCESS_DENIED, f"{shown!r} answers {answer.status}: it isn't open to us")
    if answer.status in (408, 425, 429) or answer.status >= 500:
        raise http.client.HTTPException(f"{shown!r} answers {answer.status}")
    raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"{shown!r} answers {answer.status}")


def digest(path: str) -> str:
    """Return a file's SHA-256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def place(part: str, root: str, path: str) -> None:
    """Give a whole file its name below the volume."""
    inner, _, name = path.rpartition("/")
    os.replace(part, os.path.join(folder(root, inner), name))


def folder(root: str, path: str) -> str:
    """Return a folder below the volume, made with all that lead to it. What isn't a folder there, a link too, gives way."""
    target = root
    for name in filter(None, path.split("/")):
        target = os.path.join(target, name)
        if os.path.islink(target) or (os.path.lexists(target) and not os.path.isdir(target)):
            os.unlink(target)
        os.makedirs(target, exist_ok=True)
    return target
