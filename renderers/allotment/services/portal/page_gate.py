"""Decides for the server of the portal whether a request may read a page."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from allotment.manifests.cluster.portal import GROUPS_HEADER, SUBJECT_HEADER
from allotment.portal.access import TENANTS, AccessList, read_visitor

HEADERS = SUBJECT_HEADER, GROUPS_HEADER
OWN_AREA = f"{TENANTS}/index.html"  # the server sends a member of a single tenant from here to the pages of this tenant


class Decision(NamedTuple):
    """The status of a request, and the address of a redirect; empty without a redirect. OK means that the page may be read."""

    status: HTTPStatus
    location: str = ""


class PageGate:
    """The readers of the pages as of the last build. Before the first build, nobody may read anything."""

    def __init__(self) -> None:
        self._is_open = False
        self._access_list: AccessList | None = None

    def open(self, access_list: AccessList | None) -> None:
        """Set the readers. With None, each client of the server may read all pages."""
        self._access_list, self._is_open = access_list, True

    def decide(self, path: str, headers: tuple[str | None, ...]) -> Decision:
        """Return the decision for the page at a path. `headers` has the values of HEADERS."""
        access_list = self._access_list
        if not self._is_open:
            return Decision(HTTPStatus.SERVICE_UNAVAILABLE)
        if access_list is None:
            return Decision(HTTPStatus.OK)
        visitor = read_visitor(*headers)
        if path == OWN_AREA and len(own := access_list.list_tenants(visitor)) == 1:
            return Decision(HTTPStatus.FOUND, f"/{TENANTS}/{own[0]}/index.html")
        return Decision(HTTPStatus.OK if access_list.may_read(path, visitor) else HTTPStatus.FORBIDDEN)
