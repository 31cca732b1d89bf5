"""List and watch, as a client of Kubernetes should: whatever the API server does, the last state arrives.

A list is believed once its last page is there, and a watch goes on from there by resourceVersion. Whatever ends a watch
(410, silence, a cut, an error) it is resumed, or listed anew where it can't be, after a wait that grows. Nothing but a
complete list or a DELETED event ever takes an object away.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple, Protocol

import urllib3

from allotment.adapters.cluster.api import Answered, Api, Unanswered
from allotment.observed.decoding import Event, Page, Unreadable, WatchedKind
from allotment.observed.objects import Seen

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
PAGE_OBJECTS = 500
PAGE_SECONDS = 60.0  # the longest that a page may take
ABSENT_SECONDS = 10.0  # a kind that is missing for so long isn't installed
AT_ONCE = 1.0  # no watch ends so soon by itself
MOST_LINE = 32 << 20  # bytes of one event
_CHUNK = 1 << 16
_RANDOM = random.Random()  # noqa: S311  # no secret; watches run in threads, and nobody else's numbers depend on them


class Pace(NamedTuple):
    """How patient a watch is, in seconds: waits between tries, and the longest silence.

    The API server sends a bookmark every minute. Waits grow twofold from `first` to `longest`, as client-go's do.
    """

    first: float = 0.8
    longest: float = 30.0
    silence: float = 70.0
    settled: float = 60.0  # a watch that lived so long was well: waits begin anew
    longest_asked: float = 600.0  # of what a Retry-After may ask for


class Sink(Protocol):
    """Where objects go."""

    def replace(self, kind: WatchedKind, objects: list[Seen]) -> None:
        """Take all objects of a kind in place of what was known."""
        ...

    def put(self, kind: WatchedKind, resource: Seen) -> None:
        """Take an object as it is now."""
        ...

    def remove(self, kind: WatchedKind, resource: Seen) -> None:
        """Forget an object."""
        ...


class Gone(Exception):
    """The API server no longer has the changes since a version: list anew."""


_PACE = Pace()


class Watch:
    """Watches one kind in a thread of its own, until the process ends.

    `contact` is when the API server last said something complete (monotonic seconds), `synced` whether a whole list was
    there once, or the kind isn't installed; `trouble` says in a word what it suffers from.
    """

    def __init__(
        self, api: Api, kind: WatchedKind, sink: Sink, pace: Pace = _PACE, selector: str | None = None
    ) -> None:
        self._api = api
        self.kind = kind
        self.name = kind.name
        self._sink = sink
        self._pace = pace
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
        """Begin."""
        threading.Thread(target=self.run, name=f"watch {self.kind.name}", daemon=True).start()

    def stop(self) -> None:
        """End before the next try; a stream that is open isn't waited for."""
        self._stopped.set()

    def run(self) -> None:
        """List and watch until `stop` is called."""
        while not self._stopped.is_set():
            begun, retry_after = time.monotonic(), 0.0
            try:
                if not self._version:
                    self._version = self._list()
                self._follow()
                self.trouble = ""
            except Gone:
                self._version, self.trouble = "", "the changes since its last look are gone"
            except Unreadable:
                self._version, self.trouble = "", "its answer can't be read"
            except Answered as error:
                retry_after = error.retry_after
                self._note(error)
            except Unanswered as error:
                self.trouble = f"it doesn't answer ({error})"
            self._wait(time.monotonic() - begun, retry_after)

    def _note(self, error: Answered) -> None:
        self.trouble = f"it answers {error.status}"
        if error.status == HTTPStatus.NOT_FOUND:
            # An API server that has just begun knows no CRDs for a moment: what was seen stays.
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            self.contact = now
            self.absent = now - self._missing_since >= ABSENT_SECONDS
            self.synced = self.synced or self.absent
        else:
            self._missing_since = None

    def _wait(self, lived: float, retry_after: float) -> None:
        """Wait before the next try: longer each time, as long as the API server asked, and hardly after a good while."""
        if lived >= self._pace.settled:
            self._failures = 0
        wait = min(self._pace.longest, self._pace.first * 2**self._failures) * _RANDOM.uniform(0.75, 1.25)
        self._failures = min(self._failures + 1, 16)
        self._stopped.wait(max(wait, min(retry_after, self._pace.longest_asked)))

    def _accept(self, suffix: str) -> str:
        return METADATA.format(suffix) if self.kind.metadata_only else JSON

    def _list(self) -> str:
        """Take all pages of a list, and return its version. Raises Gone, Unreadable, Answered or Unanswered."""
        self.lists += 1
        objects, skipped, version = list[Seen](), 0, ""
        for page in self._pages():
            objects += page.objects
            skipped += page.skipped
            version = page.version
            self.contact = time.monotonic()
            if not version:
                raise Unreadable("no resourceVersion")
        self.skipped = skipped
        self._sink.replace(self.kind, objects)
        self.synced, self.absent, self._missing_since, self.trouble = True, False, None, ""
        return version

    def _pages(self) -> Iterator[Page]:
        """Yield the pages of a list."""
        more = ""
        while True:
            page = self.kind.page(self._ask(more))
            yield page
            more = page.more
            if not more:
                return

    def _ask(self, more: str) -> bytes:
        query = {"labelSelector": self._selector, "limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        try:
            return self._api.read(self.kind.path, query, self._accept("List"), PAGE_SECONDS)
        except Answered as error:
            if error.status == HTTPStatus.GONE:
                raise Gone from None
            raise

    def _follow(self) -> None:
        """Take events from the last version on, until the stream ends. Raises Gone, Unreadable, Answered or Unanswered."""
        query = {
            "labelSelector": self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(240, 480)),  # noqa: S311  # so that they don't all come back together
        }
        try:
            answer = self._api.open(self.kind.path, query, self._accept(""), self._pace.silence)
        except Answered as error:
            if error.status == HTTPStatus.GONE:
                raise Gone from None
            raise
        begun, has_events = time.monotonic(), False
        for line in self._lines(answer):
            event = self.kind.event(line)
            self._take(event)
            has_events, self.contact = True, time.monotonic()
            self._version = event.version or self._version
            if self._stopped.is_set():
                return
        if not has_events and time.monotonic() - begun < AT_ONCE:
            raise Gone  # 200 and nothing in it: whatever answered there isn't a watch

    def _take(self, event: Event) -> None:
        if event.kind == "ERROR":
            if event.code == HTTPStatus.GONE:
                raise Gone
            raise Answered(event.code, 0)
        if event.object is None:
            return
        if event.kind == "DELETED":
            self._sink.remove(self.kind, event.object)
        else:
            self._sink.put(self.kind, event.object)

    def _lines(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a stream until it ends. Raises Unanswered when no whole line comes for too long."""
        buffer, last = bytearray(), time.monotonic()
        try:
            while chunk := answer.read1(_CHUNK):
                buffer += chunk
                if b"\n" in chunk:
                    *lines, tail = bytes(buffer).split(b"\n")
                    buffer, last = bytearray(tail), time.monotonic()
                    yield from (line for line in lines if line.strip())
                elif time.monotonic() - last > self._pace.silence or len(buffer) > MOST_LINE:
                    raise Unanswered("silent" if len(buffer) <= MOST_LINE else "too much")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unanswered(type(error).__name__) from None
        finally:
            answer.close()
            answer.release_conn()
