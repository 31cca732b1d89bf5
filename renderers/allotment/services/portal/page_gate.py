"""Decides for the server of the portal whether a request may read a page."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from allotment.manifests.cluster.portal import GROUPS_HEADER, SUBJECT_HEADER
from allotment.portal.access import TENANTS, AccessList, read_visitor

HEADERS = SUBJECT_HEADER, GROUPS_HEADER
OWN_AREA = f"{TENANTS}/index.html"  # the server sends a member of a single tenant from here to the pages of this tenant


_NO_READERS = AccessList(frozenset(), {}, {})


class Decision(NamedTuple):
    """The status of a request, and the address of a redirect; empty without a redirect. OK means that the page may be read."""

    status: HTTPStatus
    location: str = ""


class PageGate:
    """The readers of the pages. Before the first build, nobody may read anything.

    `is_local` says that only programs of this machine reach the server. They may read all pages if the platform doesn't declare a
    portal. Otherwise, visitors without a declared portal may read only the public pages.
    """

    def __init__(self, *, is_local: bool) -> None:
        self._is_local, self._is_open = is_local, False
        self._access_list: AccessList | None = None

    def update(self, access_list: AccessList | None) -> None:
        """Set the readers; None if the platform doesn't declare a portal."""
        self._access_list = access_list

    def open(self) -> None:
        """Let the readers in, because the pages are complete."""
        self._is_open = True

    def decide(self, path: str, headers: tuple[str | None, ...]) -> Decision:
        """Return the decision for the page at a path. `headers` has the values of HEADERS."""
        if not self._is_open:
            return Decision(HTTPStatus.SERVICE_UNAVAILABLE)
        if self._access_list is None and self._is_local:
            return Decision(HTTPStatus.OK)
        access_list = self._access_list or _NO_READERS
        visitor = read_visitor(*headers)
        if path == OWN_AREA and len(own := access_list.list_tenants(visitor)) == 1:
            return Decision(HTTPStatus.FOUND, f"/{TENANTS}/{own[0]}/index.html")
        return Decision(HTTPStatus.OK if access_list.may_read(path, visitor) else HTTPStatus.FORBIDDEN)
