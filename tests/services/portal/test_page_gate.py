"""The gate is shut before the first build, and then lets the declared readers in."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus

from tests.portal.test_access import ACCESS

from allotment.services.portal.page_gate import HEADERS, PageGate

TEAM = base64.urlsafe_b64encode(json.dumps(["platform-team"]).encode()).decode()


def test_before_the_first_build_nobody_reads_anything() -> None:
    assert PageGate().decide("index.html", (None, TEAM)).status == HTTPStatus.SERVICE_UNAVAILABLE


def test_without_a_declared_portal_the_gate_is_open() -> None:
    gate = PageGate()
    gate.open(None)
    assert gate.decide("platform/index.html", (None, None)).status == HTTPStatus.OK


def test_the_declared_readers_pass() -> None:
    gate = PageGate()
    gate.open(ACCESS)
    assert HEADERS == ("x-portal-subject", "x-portal-groups")
    assert gate.decide("index.html", (None, None)).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", (None, TEAM)).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", ("00u1mia", None)).status == HTTPStatus.FORBIDDEN
    assert gate.decide("tenants/kite/index.html", ("00u1mia", None)).status == HTTPStatus.OK


def test_a_member_of_one_tenant_is_sent_there() -> None:
    gate = PageGate()
    gate.open(ACCESS)
    assert gate.decide("tenants/index.html", ("00u1mia", None)) == (HTTPStatus.FOUND, "/tenants/kite/index.html")
    assert gate.decide("tenants/index.html", ("stranger", None)).status == HTTPStatus.FORBIDDEN
