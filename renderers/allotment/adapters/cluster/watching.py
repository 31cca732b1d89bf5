"""Lists and watches objects of a Kubernetes API server, and recovers from every error of the server.

`Watch` first lists all objects of a kind. It uses the list only if all pages of the list arrive. It then watches the
objects from the resourceVersion of the list. When a watch ends (410, silence, a broken connection, an error), `Watch`
waits for a delay that grows with each failure, and starts the next watch at the resourceVersion of the last event. If
the API server no longer has the changes since that event, `Watch` lists all objects again. Only a complete list or a
DELETED event removes an object.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple, Protocol

import urllib3

from allotment.adapters.backoff import Backoff
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.observed.decoding import ListPage, UnreadableResponse, WatchedKind, WatchEvent
from allotment.observed.objects import ObservedObject

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
PAGE_OBJECTS = 500
PAGE_SECONDS = 60.0  # the longest duration of the request for one page
ABSENT_SECONDS = 10.0  # if the API server answers 404 for this long, the kind is not installed
IMMEDIATE_RETRY_SECONDS = 1.0  # a stream that ends sooner than this without an event was not a watch
MAX_LINE_BYTES = 32 << 20  # bytes of one event
_CHUNK_BYTES = 1 << 16
_RANDOM = random.Random()  # noqa: S311  # no secret; other code may seed the shared generator


class WatchTiming(NamedTuple):
    """The timing of a watch, in seconds.

    `backoff` has the delays between attempts, with the values of client-go. `max_silence` is the longest time without
    data from the API server, which sends a bookmark event at least every minute.
    """

    backoff: Backoff = Backoff(0.8, 30.0)
    max_silence: float = 70.0
    stable_after: float = 60.0  # after an attempt that lasted this long, the delays start again with the shortest delay
    max_retry_after: float = 600.0  # the longest accepted Retry-After


class ObjectSink(Protocol):
    """The receiver of the objects."""

    def replace(self, kind: WatchedKind, objects: list[ObservedObject]) -> None:
        """Replace all known objects of a kind."""
        ...

    def put(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Add an object, or update it."""
        ...

    def remove(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Remove an object."""
        ...


class ResourceVersionExpired(Exception):
    """The API server no longer has the changes since a resourceVersion, so a new list is required."""


_WATCH_TIMING = WatchTiming()


class Watch:
    """Lists and watches the objects of a kind in its own thread, until `stop` is called.

    - `contact` is the monotonic time, in seconds, of the last page, event or 404 from the API server.
    - `synced` is true after the first complete list, or if the kind is not installed.
    - `trouble` is a short message about the current error, empty if there is none.
    """

    def __init__(
        self,
        api: ApiServer,
        kind: WatchedKind,
        sink: ObjectSink,
        timing: WatchTiming = _WATCH_TIMING,
        selector: str | None = None,
    ) -> None:
        self._api = api
        self.kind = kind
        self.name = kind.name
        self._sink = sink
        self._timing = timing
        self._selector = kind.selector if selector is None else selector
        self._stopped = threading.Event()
        self._version = ""
        self._failures = 0
        self._missing_since: float | None = None
        self.contact = time.monotonic()
        self.synced = False
        self.absent = False
        self.trouble = ""
        self.lists = 0
        self.skipped = 0

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.run, name=f"watch {self.kind.name}", daemon=True).start()

    def stop(self) -> None:
        """Stop after the next event or before the next attempt. Returns at once."""
        self._stopped.set()

    def run(self) -> None:
        """List and watch until `stop` is called."""
        while not self._stopped.is_set():
            begun, retry_after = time.monotonic(), 0.0
            try:
                if not self._version:
                    self._version = self._list_all()
                self._watch_events()
                self.trouble = ""
            except ResourceVersionExpired:
                self._version, self.trouble = "", "the changes since its last look are gone"
            except UnreadableResponse:
                self._version, self.trouble = "", "its answer can't be read"
            except ApiError as error:
                retry_after = error.retry_after
                self._record_error(error)
            except ApiUnavailable as error:
                self.trouble = f"it doesn't answer ({error})"
            self._wait_before_retry(time.monotonic() - begun, retry_after)

    def _record_error(self, error: ApiError) -> None:
        self.trouble = f"it answers {error.status}"
        if error.status == HTTPStatus.NOT_FOUND:
            # An API server that has just started may not serve a CRD yet, so the known objects are kept.
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            self.contact = now
            self.absent = now - self._missing_since >= ABSENT_SECONDS
            self.synced = self.synced or self.absent
        else:
            self._missing_since = None

    def _wait_before_retry(self, lived: float, retry_after: float) -> None:
        """Wait before the next attempt: longer after each failure, and at least `retry_after` seconds.

        `lived` is the duration of the last attempt. If that attempt lasted long enough, the delays start again with the
        shortest delay. The limit of `retry_after` is `max_retry_after`.
        """
        if lived >= self._timing.stable_after:
            self._failures = 0
        self._failures += 1
        wait = self._timing.backoff.delay(self._failures)
        self._stopped.wait(max(wait, min(retry_after, self._timing.max_retry_after)))

    def _accept_header(self, suffix: str) -> str:
        return METADATA.format(suffix) if self.kind.metadata_only else JSON

    def _list_all(self) -> str:
        """Replace all known objects with a complete list, and return the resourceVersion of the list.

        Raises ResourceVersionExpired, UnreadableResponse, ApiError or ApiUnavailable.
        """
        self.lists += 1
        objects, skipped, version = list[ObservedObject](), 0, ""
        for page in self._list_pages():
            objects += page.objects
            skipped += page.skipped
            version = page.version
            self.contact = time.monotonic()
            if not version:
                raise UnreadableResponse("no resourceVersion")
        self.skipped = skipped
        self._sink.replace(self.kind, objects)
        self.synced, self.absent, self._missing_since, self.trouble = True, False, None, ""
        return version

    def _list_pages(self) -> Iterator[ListPage]:
        """Yield the pages of a list."""
        more = ""
        while True:
            page = self.kind.decode_page(self._request_page(more))
            yield page
            more = page.continue_token
            if not more:
                return

    def _request_page(self, more: str) -> bytes:
        query = {"labelSelector": self._selector, "limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        try:
            return self._api.read(self.kind.path, query, self._accept_header("List"), PAGE_SECONDS)
        except ApiError as error:
            if error.status == HTTPStatus.GONE:
                raise ResourceVersionExpired from None
            raise

    def _watch_events(self) -> None:
        """Apply the events since the last resourceVersion, until the stream ends.

        Raises ResourceVersionExpired, UnreadableResponse, ApiError or ApiUnavailable.
        """
        query = {
            "labelSelector": self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_RANDOM.randint(240, 480)),  # so that the watches don't reconnect at the same time
        }
        try:
            answer = self._api.open(self.kind.path, query, self._accept_header(""), self._timing.max_silence)
        except ApiError as error:
            if error.status == HTTPStatus.GONE:
                raise ResourceVersionExpired from None
            raise
        begun, has_events = time.monotonic(), False
        for line in self._stream_lines(answer):
            event = self.kind.decode_event(line)
            self._apply_event(event)
            has_events, self.contact = True, time.monotonic()
            self._version = event.version or self._version
            if self._stopped.is_set():
                return
        if not has_events and time.monotonic() - begun < IMMEDIATE_RETRY_SECONDS:
            raise ResourceVersionExpired  # a response with status 200 and an empty body is not a watch

    def _apply_event(self, event: WatchEvent) -> None:
        if event.kind == "ERROR":
            if event.code == HTTPStatus.GONE:
                raise ResourceVersionExpired
            raise ApiError(event.code, 0)
        if event.object is None:
            return
        if event.kind == "DELETED":
            self._sink.remove(self.kind, event.object)
        else:
            self._sink.put(self.kind, event.object)

    def _stream_lines(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a stream until it ends.

        Raises ApiUnavailable if a line takes too long or is too long, or if the connection breaks.
        """
        buffer, last = bytearray(), time.monotonic()
        try:
            while chunk := answer.read1(_CHUNK_BYTES):
                buffer += chunk
                if b"\n" in chunk:
                    *lines, tail = bytes(buffer).split(b"\n")
                    buffer, last = bytearray(tail), time.monotonic()
                    yield from (line for line in lines if line.strip())
                elif time.monotonic() - last > self._timing.max_silence or len(buffer) > MAX_LINE_BYTES:
                    raise ApiUnavailable("silent" if len(buffer) <= MAX_LINE_BYTES else "too much")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(type(error).__name__) from None
        finally:
            answer.close()
            answer.release_conn()
