"""Asks an API server, once, for what a diagnosis needs: GET requests alone, page by page."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from allotment.adapters.cluster.api import Answered, Api, Unanswered
from allotment.adapters.cluster.watching import JSON, PAGE_OBJECTS, PAGE_SECONDS
from allotment.diagnosis import shapes
from allotment.diagnosis.looked import WHOLE, Answer, Kind, Looked
from allotment.observed.decoding import Unreadable
from allotment.observed.objects import LiveObject
from allotment.problems import Refused, counted, printable

_UNREADABLE = "its answer can't be read"
MOST_PAGE = 32 << 20  # bytes of one answer
MOST_ALL = 256 << 20  # bytes of all pages of a kind
MOST_PAGES = 400  # of a kind: 200,000 objects
MOST_WORDS = 200  # characters about a wrong answer
LOOK_SECONDS = 300.0  # for everything
_WRONG = (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError)


def look(here: Api, hub: Api, kinds: Iterable[Kind], served: Iterable[str]) -> Looked:
    """Return what a cluster, and the one that Argo CD runs in, have of some kinds, and which resources of the API versions
    `served` they have. Raises Refused when the cluster doesn't answer, or not to these credentials."""
    end = time.monotonic() + LOOK_SECONDS
    near = _Asked(here, end)
    far = near if hub is here else _Asked(hub, end)
    version = _version(near)
    wanted = sorted(set(served))
    apis = _apis(near, wanted)
    return Looked(
        version,
        apis,
        apis if far is near else _apis(far, wanted),
        {kind: _answer(far if kind.hub else near, kind) for kind in kinds},
        _now(here),
    )


class _Asked:
    """An API server that is asked until a time, `end`, in monotonic seconds."""

    def __init__(self, api: Api, end: float) -> None:
        self._api, self._end = api, end
        self.host = api.host

    def read(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return an answer. Raises Answered or Unanswered."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise Unanswered("too slow")
        return self._api.read(path, query, JSON, min(PAGE_SECONDS, remaining), MOST_PAGE)

    def mapping(self, path: str) -> dict[str, Any]:
        """Return an answer's mapping. Raises Answered, Unanswered, or one of _WRONG where it has none."""
        return _mapping(self.read(path, {}))


def _mapping(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


def _version(api: _Asked) -> Mapping[str, str]:
    try:
        version_info = api.mapping("/version")
    except Answered as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise Refused(f"{api.host} doesn't know these credentials: it answers 401") from None
        return {}
    except (Unanswered, *_WRONG) as error:
        raise Refused(f"{api.host} doesn't answer: {error}; --kubeconfig and --context name another") from None
    return {key: value for key, value in version_info.items() if isinstance(value, str)}


def _apis(api: _Asked, wanted: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the API versions that a server has, with the resources of those that are wanted; nothing where it doesn't say."""
    try:
        groups = api.mapping("/apis").get("groups") or ()
        resources = {
            str(version["groupVersion"]): frozenset[str]() for group in groups for version in group["versions"]
        }
        for api_version in wanted:
            if api_version in resources:
                listed = api.mapping(f"/apis/{api_version}").get("resources") or ()
                resources[api_version] = frozenset(str(each["name"]) for each in listed)
    except (Answered, Unanswered, *_WRONG):
        return {}
    return resources


def _answer(api: _Asked, kind: Kind) -> Answer:
    try:
        if kind.name:
            return Answer((shapes.check(kind, api.mapping(kind.path)),))
        return Answer(tuple(_listed(api, kind)))
    except Answered as error:
        return Answer(status=error.status)
    except Unanswered as error:
        return Answer(trouble=f"{api.host} doesn't answer: {error}")
    except (Unreadable, *_WRONG) as error:
        return Answer(trouble=f"{_UNREADABLE}: {printable(str(error), MOST_WORDS)}")


def _listed(api: _Asked, kind: Kind) -> list[Any]:
    """Return the objects of all pages; of a kind of WHOLE those in tenants' namespaces. Raises Answered, Unanswered, or one of _WRONG."""
    objects: list[Any] = []
    more, size = "", 0
    for _ in range(MOST_PAGES):
        query = {"limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        data = api.read(kind.path, {**query, **({"labelSelector": kind.selector} if kind.selector else {})})
        size += len(data)
        if size > MOST_ALL:
            raise ValueError(f"it has more than {MOST_ALL >> 20} MiB")
        if kind in WHOLE:
            object_page = WHOLE[kind].page(data)
            if object_page.skipped:
                raise ValueError(f"{counted(object_page.skipped, 'object')} of another shape")
            objects += (item for item in object_page.objects if isinstance(item, LiveObject) and item.tenant)
            if not (more := object_page.more):
                return objects
            continue
        page = _mapping(data)
        items = msgspec.convert(page.get("items") or [], list[Any])
        objects += (shapes.check(kind, item) for item in items)
        more = msgspec.convert((page.get("metadata") or {}).get("continue") or "", str)
        if not more:
            return objects
    raise ValueError(f"it has more than {MOST_PAGES} pages")


def _now(api: Api) -> datetime.datetime:
    """Return the time by the server's clock; by ours where it doesn't say."""
    try:
        return datetime.datetime.fromisoformat(api.now())
    except (ValueError, OverflowError):
        return datetime.datetime.now(datetime.UTC)
