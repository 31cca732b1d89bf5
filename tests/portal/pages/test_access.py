"""The pages of a tenant are for its members, and those of the platform for the declared groups."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.portal_access import ACCESS

from allotment.portal.pages.access import Visitor, read_visitor

PUBLIC = ("index.html", "assets/portal.css", "catalog/offers.json", "start/index.html")
PROTECTED = (
    "tenants/kite/index.html",
    "tenants/kite-two/x.html",
    "tenants/empty/x.html",
    "platform/index.html",
    "provider/x",
)


def list_readable(subject: str, *groups: str) -> list[str]:
    return [path for path in PROTECTED if ACCESS.may_read(path, Visitor(subject, frozenset(groups)))]


def test_each_member_reads_the_own_tenant() -> None:
    assert list_readable("00u1mia") == ["tenants/kite/index.html"]
    assert list_readable("", "kite-team", "other") == ["tenants/kite/index.html"]
    assert list_readable("00u1zoe") == ["tenants/kite-two/x.html"]
    assert ACCESS.list_tenants(Visitor("00u1zoe", frozenset(["kite-team"]))) == ["kite", "kite-two"]


def test_the_platform_team_reads_everything() -> None:
    assert list_readable("", "platform-team") == list(PROTECTED)


@pytest.mark.parametrize("subject", ["", "mia", "nobody", "stranger"])
def test_strangers_read_the_public_pages_alone(subject: str) -> None:
    assert list_readable(subject, "", "kite", "Kite-Team") == []
    assert all(ACCESS.may_read(path, Visitor(subject, frozenset())) for path in PUBLIC)


@pytest.mark.parametrize(
    "path",
    [
        "tenants",
        "tenants/",
        "tenants/index.html",
        "tenants/unknown/index.html",
        "platform",
        "Tenants/solo-ada/",
        "PROVIDER/x",
    ],
)
def test_paths_without_an_owner_are_for_the_platform_team(path: str) -> None:
    assert not ACCESS.may_read(path, Visitor("00u1mia", frozenset()))


@given(st.lists(st.text()))
def test_groups_are_a_list_in_base64(groups: list[str]) -> None:
    header = base64.urlsafe_b64encode(json.dumps(groups).encode()).decode()
    for value in (header, header.rstrip("=")):
        assert read_visitor("s", value) == Visitor("s", frozenset(groups))


DEEP = base64.urlsafe_b64encode(b"[" * 40_000).decode()


@pytest.mark.parametrize("header", [None, "", "platform-team", "e30=", "bnVsbA==", "WzFd", "%%%", "ÿ", "W10", DEEP])
def test_another_header_is_no_group(header: str | None) -> None:
    assert read_visitor(None, header) == Visitor("", frozenset())
