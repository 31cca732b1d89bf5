"""Decides for the server of the portal whether a request may read a page."""

from __future__ import annotations

import hmac
import re
from http import HTTPStatus

from allotment.adapters.page_server import Decision
from allotment.manifests.cluster.portal import CREDENTIAL_HEADER, GROUPS_HEADER, SUBJECT_HEADER
from allotment.portal.pages.access import PLATFORM, TENANTS, AccessList, Visitor, read_visitor

HEADERS = SUBJECT_HEADER, GROUPS_HEADER, CREDENTIAL_HEADER, "Host"
OWN_AREA = (TENANTS, f"{TENANTS}/index.html")  # the server sends a visitor from here to the visitor's own pages

_NO_READERS = AccessList(frozenset(), {}, {})
_ANONYMOUS = read_visitor(None, None)
_LOCAL_HOST = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
_UNBUILT = Decision(HTTPStatus.SERVICE_UNAVAILABLE, reason="The pages are not built yet.")
_FOREIGN_HOST = Decision(
    HTTPStatus.MISDIRECTED_REQUEST,
    reason="Open this page at localhost: the platform doesn't declare a portal with readers.",
)
_UNDECLARED = Decision(
    HTTPStatus.FORBIDDEN,
    reason="Only public pages can be read, because the platform doesn't declare a portal: set spec.portal in platform/platform.yaml.",
)
_NO_SECRET_FILE = Decision(
    HTTPStatus.FORBIDDEN,
    reason="Only public pages can be read, because the portal can't check logins: the platform declares spec.portal.proxySecretName,"
    " so start allot run with --portal-secret-file.",
)
_NO_CREDENTIAL = Decision(
    HTTPStatus.FORBIDDEN,
    reason="Only public pages can be read, because the request has no valid credential of the Gateway: --portal-secret-file of allot run"
    " and the Secret of spec.portal.proxySecretName must have the same credential.",
)
_NO_TENANT = Decision(
    HTTPStatus.FORBIDDEN,
    reason="Your login has no access to this page. The admin of the tenant adds members.",
)
_NO_GROUP = Decision(
    HTTPStatus.FORBIDDEN,
    reason="Your login has no access to this page. The groups in spec.portal of the platform have access.",
)


class PageGate:
    """The readers of the pages. Before the first build, nobody may read anything.

    `is_local` says that only programs of this machine reach the server. They may read all pages if the platform doesn't declare a
    portal. Otherwise, visitors without a declared portal may read only the public pages.

    With a `credential`, only a request with this credential has a login. If the platform declares a credential and the gate has
    none, no request has a login.
    """

    def __init__(self, *, is_local: bool, credential: bytes = b"") -> None:
        self._is_local, self._is_open, self._credential = is_local, False, credential
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
            return _UNBUILT
        *identity, credential, host = headers
        if self._access_list is None and self._is_local:
            # The name of another website may resolve to this machine, and then its scripts could read the pages.
            return Decision(HTTPStatus.OK) if host is None or _LOCAL_HOST.fullmatch(host) else _FOREIGN_HOST
        access_list = self._access_list or _NO_READERS
        has_proof = self._is_proven(credential)
        visitor = read_visitor(*identity) if has_proof else _ANONYMOUS
        if path in OWN_AREA and (addresses := _list_own_areas(access_list, visitor)):
            return Decision(HTTPStatus.FOUND if len(addresses) == 1 else HTTPStatus.MULTIPLE_CHOICES, addresses)
        if access_list.may_read(path, visitor):
            return Decision(HTTPStatus.OK)
        if self._access_list is None:
            return _UNDECLARED
        if self.lacks_credential:
            return _NO_SECRET_FILE
        if not has_proof:
            return _NO_CREDENTIAL
        return _NO_TENANT if path.partition("/")[0] == TENANTS else _NO_GROUP

    @property
    def lacks_credential(self) -> bool:
        """Whether the platform declares a credential, and the gate has none to compare with."""
        return self._access_list is not None and self._access_list.needs_credential and not self._credential

    def _is_proven(self, credential: str | None) -> bool:
        """Return whether the Gateway has sent a request, as far as a credential can prove it."""
        if not self._credential:
            return not self.lacks_credential
        return hmac.compare_digest((credential or "").encode(), self._credential)


def _list_own_areas(access_list: AccessList, visitor: Visitor) -> tuple[str, ...]:
    """Return the addresses of a visitor's tenants, and of the platform."""
    areas = [f"/{TENANTS}/{name}/" for name in access_list.list_tenants(visitor)]
    return tuple([*areas, f"/{PLATFORM}/"] if access_list.may_read(PLATFORM, visitor) else areas)
