"""Decides which pages a visitor of the portal may read, from the subject and the groups of the visitor's ID token."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.declared.tenant_facts import TenantFacts

TENANTS, PLATFORM, PROVIDER = "tenants", "platform", "provider"


class Visitor(NamedTuple):
    """A person with a login at the Gateway. Without a login, both fields are empty."""

    subject: str
    groups: frozenset[str]


class AccessList(NamedTuple):
    """The readers of the protected pages. Members of `platform_groups` may read all pages.

    `subjects` and `groups` are those of each tenant's members. `needs_credential` says that a login counts only with the credential
    of the Gateway.
    """

    platform_groups: frozenset[str]
    subjects: Mapping[str, frozenset[str]]
    groups: Mapping[str, frozenset[str]]
    needs_credential: bool = False

    def may_read(self, path: str, visitor: Visitor) -> bool:
        """Return whether a visitor may read the page at a path. All visitors may read the public pages."""
        area, _, rest = path.partition("/")
        # A file system may find a folder by another case.
        if area.casefold() not in (TENANTS, PLATFORM, PROVIDER) or visitor.groups & self.platform_groups:
            return True
        return area == TENANTS and self._is_member(rest.partition("/")[0], visitor)

    def list_tenants(self, visitor: Visitor) -> list[str]:
        """Return the tenants of a visitor, sorted."""
        return sorted(name for name in self.subjects if self._is_member(name, visitor))

    def _is_member(self, tenant: str, visitor: Visitor) -> bool:
        is_user = bool(visitor.subject) and visitor.subject in self.subjects.get(tenant, frozenset())
        return is_user or bool(visitor.groups & self.groups.get(tenant, frozenset()))


def build_access_list(
    platform_groups: Iterable[str], tenants: Iterable[TenantFacts], *, needs_credential: bool = False
) -> AccessList:
    """Return the readers that the tenants' members and the platform declare."""
    facts = list(tenants)
    return AccessList(
        frozenset(platform_groups),
        {each.tenant: frozenset(member.subject for member in each.members if member.subject) for each in facts},
        {each.tenant: frozenset(member.name for member in each.members if member.kind == "Group") for each in facts},
        needs_credential,
    )


def read_visitor(subject: str | None, groups: str | None) -> Visitor:
    """Return the visitor of the headers that Envoy sets from the ID token. A list is base64url of JSON.

    Source: Envoy, extensions.filters.http.jwt_authn.v3.JwtClaimToHeader.
    """
    return Visitor(subject or "", frozenset(_decode_list(groups or "")))


def _decode_list(header: str) -> list[str]:
    """Return the texts of a list in a header; empty if the header has no list."""
    try:
        value = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):  # also binascii.Error
        return []
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
