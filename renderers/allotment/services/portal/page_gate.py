"""Decides for the server of the portal whether a request may read a page."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from allotment.manifests.cluster.portal import GROUPS_HEADER, SUBJECT_HEADER
from allotment.portal.access import PLATFORM, TENANTS, AccessList, Visitor, read_visitor

HEADERS = SUBJECT_HEADER, GROUPS_HEADER
OWN_AREA = (TENANTS, f"{TENANTS}/index.html")  # the server sends a visitor from here to the visitor's own pages


class Decision(NamedTuple):
    """The status of a request, and the address of a redirect or the addresses to choose from.

    OK means that the page may be read.
    """

    status: HTTPStatus
    addresses: tuple[str, ...] = ()


_NO_READERS = AccessList(frozenset(), {}, {})


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
        if path in OWN_AREA:
            return _choose_own_area(access_list, visitor)
        return Decision(HTTPStatus.OK if access_list.may_read(path, visitor) else HTTPStatus.FORBIDDEN)


def _choose_own_area(access_list: AccessList, visitor: Visitor) -> Decision:
    """Return the way to the pages of a visitor's tenants, or to those of the platform."""
    addresses = tuple(f"/{TENANTS}/{name}/" for name in access_list.list_tenants(visitor))
    if not addresses and access_list.may_read(PLATFORM, visitor):
        addresses = (f"/{PLATFORM}/",)
    if not addresses:
        return Decision(HTTPStatus.FORBIDDEN)
    return Decision(HTTPStatus.FOUND if len(addresses) == 1 else HTTPStatus.MULTIPLE_CHOICES, addresses)
