"""Reads the objects for a diagnosis from an API server: each object once, with paginated GET requests."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.cluster.watching import JSON, PAGE_OBJECTS, PAGE_SECONDS
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.diagnosis import api_types
from allotment.diagnosis.cluster_snapshot import WHOLE_OBJECT_QUERIES, ClusterSnapshot, QueryAnswer, ResourceQuery
from allotment.observed.decoding import UnreadableResponse
from allotment.observed.objects import LiveObject
from allotment.problems import OperationRefused, escape_unprintable, pluralize

_UNREADABLE_TEXT = "its answer can't be read"
MAX_PAGE_BYTES = 32 << 20  # bytes of one response
MAX_TOTAL_BYTES = 256 << 20  # bytes of all pages of a kind
MOST_PAGES = 400  # pages of one kind: 200,000 objects
MAX_MESSAGE_LENGTH = 200  # characters of a message about an invalid response
LOOK_SECONDS = 300.0  # seconds for all requests of a snapshot together
_FORMAT_ERRORS = (msgspec.MsgspecError, ValueError, TypeError, AttributeError, KeyError, RecursionError)


def take_snapshot(
    tenant_api: ApiServer, argocd_api: ApiServer, kinds: Iterable[ResourceQuery], served: Iterable[str]
) -> ClusterSnapshot:
    """Return a snapshot: the objects of `kinds`, and the names of the resources in each API version of `served`.

    `tenant_api` is the diagnosed cluster, and `argocd_api` is the cluster in which Argo CD runs. Each kind says from which of the
    two clusters its objects are read. Raises OperationRefused if the cluster `tenant_api` doesn't answer or rejects the
    credentials.
    """
    end = time.monotonic() + LOOK_SECONDS
    limited_tenant_api = _DeadlineApi(tenant_api, end)
    limited_argocd_api = limited_tenant_api if argocd_api is tenant_api else _DeadlineApi(argocd_api, end)
    version = _server_version(limited_tenant_api)
    api_versions = sorted(set(served))
    apis = _served_resources(limited_tenant_api, api_versions)
    return ClusterSnapshot(
        version,
        apis,
        apis if limited_argocd_api is limited_tenant_api else _served_resources(limited_argocd_api, api_versions),
        {kind: _list_kind(limited_argocd_api if kind.hub else limited_tenant_api, kind) for kind in kinds},
        _server_time(tenant_api),
    )


class _DeadlineApi:
    """An API server that gets no requests after the monotonic time `end`."""

    def __init__(self, api: ApiServer, end: float) -> None:
        self._api, self._end = api, end
        self.host = api.host

    def read(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return the body of a response. Raises ApiError or ApiUnavailable."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise ApiUnavailable("too slow")
        return self._api.read(path, query, JSON, min(PAGE_SECONDS, remaining), MAX_PAGE_BYTES)

    def mapping(self, path: str) -> dict[str, Any]:
        """Return the mapping in a response. Raises ApiError, ApiUnavailable, or one of _FORMAT_ERRORS if
        the response is no mapping."""
        return _parse_mapping(self.read(path, {}))


def _parse_mapping(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


def _server_version(api: _DeadlineApi) -> Mapping[str, str]:
    try:
        version_info = api.mapping("/version")
    except ApiError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise OperationRefused(f"{api.host} doesn't know these credentials: it answers 401") from None
        return {}
    except (ApiUnavailable, *_FORMAT_ERRORS) as error:
        raise OperationRefused(f"{api.host} doesn't answer: {error}; --kubeconfig and --context name another") from None
    return {key: value for key, value in version_info.items() if isinstance(value, str)}


def _served_resources(api: _DeadlineApi, api_versions: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the API versions that a server serves, except those of the core group, with the names of their resources.

    Only the resources of `api_versions` are requested; other versions have an empty set. If a response is missing or
    unreadable, the result is empty.
    """
    try:
        groups = api.mapping("/apis").get("groups") or ()
        resources = {
            str(version["groupVersion"]): frozenset[str]() for group in groups for version in group["versions"]
        }
        for api_version in api_versions:
            if api_version in resources:
                listed = api.mapping(f"/apis/{api_version}").get("resources") or ()
                resources[api_version] = frozenset(str(each["name"]) for each in listed)
    except (ApiError, ApiUnavailable, *_FORMAT_ERRORS):
        return {}
    return resources


def _list_kind(api: _DeadlineApi, kind: ResourceQuery) -> QueryAnswer:
    try:
        if kind.name:
            return QueryAnswer((api_types.validate_object(kind, api.mapping(kind.path)),))
        return QueryAnswer(tuple(_list_objects(api, kind)))
    except ApiError as error:
        return QueryAnswer(status=error.status)
    except ApiUnavailable as error:
        return QueryAnswer(failure=f"{api.host} doesn't answer: {error}")
    except (UnreadableResponse, *_FORMAT_ERRORS) as error:
        return QueryAnswer(failure=f"{_UNREADABLE_TEXT}: {escape_unprintable(str(error), MAX_MESSAGE_LENGTH)}")


def _list_objects(api: _DeadlineApi, kind: ResourceQuery) -> list[Any]:
    """Return the objects on all pages. If the kind is in WHOLE_OBJECT_QUERIES, leave out objects without an owner.

    Raises ApiError, ApiUnavailable, or one of _FORMAT_ERRORS.
    """
    objects: list[Any] = []
    more, size = "", 0
    for _ in range(MOST_PAGES):
        query = {"limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        data = api.read(kind.path, {**query, **({"labelSelector": kind.selector} if kind.selector else {})})
        size += len(data)
        if size > MAX_TOTAL_BYTES:
            raise ValueError(f"it has more than {MAX_TOTAL_BYTES >> 20} MiB")
        if kind in WHOLE_OBJECT_QUERIES:
            object_page = WHOLE_OBJECT_QUERIES[kind].decode_page(data)
            if object_page.skipped:
                raise ValueError(f"{pluralize(object_page.skipped, 'object')} of another shape")
            objects += (item for item in object_page.objects if isinstance(item, LiveObject) and item.tenant)
            if not (more := object_page.continue_token):
                return objects
            continue
        page = _parse_mapping(data)
        items = msgspec.convert(page.get("items") or [], list[Any])
        may_have_nulls = b"null" in data
        objects += (api_types.validate_object(kind, item, may_have_nulls=may_have_nulls) for item in items)
        more = msgspec.convert((page.get("metadata") or {}).get("continue") or "", str)
        if not more:
            return objects
    raise ValueError(f"it has more than {MOST_PAGES} pages")


def _server_time(api: ApiServer) -> datetime.datetime:
    """Return the server's time; the local time if the server doesn't report it."""
    try:
        return datetime.datetime.fromisoformat(api.server_time())
    except (ValueError, OverflowError):
        return datetime.datetime.now(datetime.UTC)
