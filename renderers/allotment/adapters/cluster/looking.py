"""Asks an API server, once, for what a diagnosis needs: GET requests alone, page by page."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from allotment.adapters.cluster.api import Answered, Api, Unanswered
from allotment.adapters.cluster.watching import JSON, PAGE_OBJECTS, PAGE_SECONDS
from allotment.diagnosis.looked import Answer, Kind, Looked, Object
from allotment.problems import Refused

_UNREADABLE = "its answer can't be read"


def look(here: Api, hub: Api, kinds: Iterable[Kind], served: Iterable[str]) -> Looked:
    """Return what a cluster, and the one that Argo CD runs in, have of some kinds, and which resources of the API versions
    `served` they have. Raises Refused when the cluster doesn't answer, or not to these credentials."""
    version = _version(here)
    wanted = sorted(set(served))
    apis = _apis(here, wanted)
    return Looked(
        version,
        apis,
        apis if hub is here else _apis(hub, wanted),
        {kind: _answer(hub if kind.hub else here, kind) for kind in kinds},
        _now(here),
    )


def _version(api: Api) -> Mapping[str, str]:
    try:
        found = _json(api, "/version", {})
    except Answered as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise Refused(f"{api.host} doesn't know these credentials: it answers 401") from None
        return {}
    except (Unanswered, ValueError) as error:
        raise Refused(f"{api.host} doesn't answer: {error}; --kubeconfig and --context name another") from None
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _apis(api: Api, wanted: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the API versions that a server has, with the resources of those that are wanted; nothing where it doesn't say."""
    try:
        groups = _json(api, "/apis", {}).get("groups") or ()
        found = {str(one["groupVersion"]): frozenset[str]() for group in groups for one in group["versions"]}
        for one in wanted:
            if one in found:
                listed = _json(api, f"/apis/{one}", {}).get("resources") or ()
                found[one] = frozenset(str(each["name"]) for each in listed)
    except (Answered, Unanswered, ValueError, KeyError, TypeError):
        return {}
    return found


def _answer(api: Api, kind: Kind) -> Answer:
    try:
        if kind.name:
            return Answer((_json(api, kind.path, {}),))
        return Answer(tuple(_listed(api, kind)))
    except Answered as error:
        return Answer(status=error.status)
    except Unanswered as error:
        return Answer(trouble=f"{api.host} doesn't answer: {error}")
    except (ValueError, TypeError, AttributeError):
        return Answer(trouble=_UNREADABLE)


def _listed(api: Api, kind: Kind) -> list[Object]:
    found: list[Object] = []
    more = ""
    while True:
        query = {"limit": str(PAGE_OBJECTS), **({"continue": more} if more else {})}
        page = _json(api, kind.path, {**query, **({"labelSelector": kind.selector} if kind.selector else {})})
        found += page.get("items") or ()
        more = (page.get("metadata") or {}).get("continue", "")
        if not more:
            return found


def _json(api: Api, path: str, query: Mapping[str, str]) -> Any:
    """Return an answer. Raises Answered, Unanswered, or ValueError where it is no JSON."""
    return msgspec.json.decode(api.read(path, query, JSON, PAGE_SECONDS))


def _now(api: Api) -> datetime.datetime:
    """Return the time by the server's clock; by ours where it doesn't say."""
    try:
        return datetime.datetime.fromisoformat(api.now())
    except ValueError:
        return datetime.datetime.now(datetime.UTC)
