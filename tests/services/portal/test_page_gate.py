"""The gate is shut before the first build, and then lets the declared readers in."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus

import pytest
from tests.portal.test_access import ACCESS

from allotment.portal.access import AccessList
from allotment.services.portal.page_gate import HEADERS, PageGate

TEAM = base64.urlsafe_b64encode(json.dumps(["platform-team"]).encode()).decode()


def test_before_the_first_build_nobody_reads_anything() -> None:
    gate = PageGate(is_local=True)
    gate.update(ACCESS)
    assert gate.decide("index.html", (None, TEAM)).status == HTTPStatus.SERVICE_UNAVAILABLE


@pytest.mark.parametrize(
    ("is_local", "path", "status"),
    [
        (True, "platform/index.html", HTTPStatus.OK),
        (False, "platform/index.html", HTTPStatus.FORBIDDEN),
        (False, "tenants/index.html", HTTPStatus.FORBIDDEN),
        (False, "index.html", HTTPStatus.OK),
    ],
)
def test_without_a_declared_portal_only_this_machine_reads_all(is_local: bool, path: str, status: HTTPStatus) -> None:
    gate = PageGate(is_local=is_local)
    gate.update(None)
    gate.open()
    assert gate.decide(path, (None, TEAM)).status == status


def test_the_declared_readers_pass() -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS)
    gate.open()
    assert HEADERS == ("x-portal-subject", "x-portal-groups")
    assert gate.decide("index.html", (None, None)).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", (None, TEAM)).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", ("00u1mia", None)).status == HTTPStatus.FORBIDDEN
    assert gate.decide("tenants/kite/index.html", ("00u1mia", None)).status == HTTPStatus.OK


@pytest.mark.parametrize("path", ["tenants", "tenants/index.html"])
def test_a_visitor_is_sent_to_the_own_pages(path: str) -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS)
    gate.open()
    assert gate.decide(path, ("00u1mia", None)) == (HTTPStatus.FOUND, ("/tenants/kite/",))
    assert gate.decide(path, (None, TEAM)) == (HTTPStatus.FOUND, ("/platform/",))
    assert gate.decide(path, ("stranger", None)).status == HTTPStatus.FORBIDDEN


def test_a_member_of_several_tenants_chooses() -> None:
    gate = PageGate(is_local=False)
    mia = frozenset({"mia"})
    gate.update(AccessList(frozenset(), {"a": mia, "b": mia, "c": frozenset()}, {}))
    gate.open()
    assert gate.decide("tenants", ("mia", None)) == (HTTPStatus.MULTIPLE_CHOICES, ("/tenants/a/", "/tenants/b/"))
