"""The gate is shut before the first build, and then lets the declared readers in."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus

import pytest
from tests.support.portal_access import ACCESS

from allotment.adapters.page_server import Decision
from allotment.portal.pages.access import AccessList
from allotment.portal.site.page_gate import HEADERS, PageGate

SECRET = "correct-horse-battery"
TEAM = base64.urlsafe_b64encode(json.dumps(["platform-team"]).encode()).decode()


def test_before_the_first_build_nobody_reads_anything() -> None:
    gate = PageGate(is_local=True)
    gate.update(ACCESS)
    assert gate.decide("index.html", (None, TEAM, None, "localhost:8082")).status == HTTPStatus.SERVICE_UNAVAILABLE


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
    assert gate.decide(path, (None, TEAM, None, "localhost:8082")).status == status


def test_the_declared_readers_pass() -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS)
    gate.open()
    assert HEADERS == ("x-portal-subject", "x-portal-groups", "x-portal-credential", "Host")
    assert gate.decide("index.html", (None, None, None, "gpus.test")).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", (None, TEAM, None, "localhost:8082")).status == HTTPStatus.OK
    assert gate.decide("platform/index.html", ("00u1mia", None, None, "gpus.test")).status == HTTPStatus.FORBIDDEN
    assert gate.decide("tenants/kite/index.html", ("00u1mia", None, None, "gpus.test")).status == HTTPStatus.OK


@pytest.mark.parametrize("path", ["tenants", "tenants/index.html"])
def test_a_visitor_is_sent_to_the_own_pages(path: str) -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS)
    gate.open()
    assert gate.decide(path, ("00u1mia", None, None, "gpus.test")) == Decision(HTTPStatus.FOUND, ("/tenants/kite/",))
    assert gate.decide(path, (None, TEAM, None, "localhost:8082")) == Decision(HTTPStatus.FOUND, ("/platform/",))
    assert gate.decide(path, ("stranger", None, None, "gpus.test")).status == HTTPStatus.FORBIDDEN


def test_a_member_of_several_tenants_chooses() -> None:
    gate = PageGate(is_local=False)
    mia = frozenset({"mia"})
    gate.update(AccessList(frozenset(), {"a": mia, "b": mia, "c": frozenset()}, {}))
    gate.open()
    assert gate.decide("tenants", ("mia", None, None, "gpus.test")) == Decision(
        HTTPStatus.MULTIPLE_CHOICES, ("/tenants/a/", "/tenants/b/")
    )


def test_a_member_of_the_platform_team_with_a_tenant_chooses() -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS)
    gate.open()
    areas = ("/tenants/kite/", "/platform/")
    assert gate.decide("tenants", ("00u1mia", TEAM, None, "gpus.test")) == Decision(HTTPStatus.MULTIPLE_CHOICES, areas)


@pytest.mark.parametrize(
    ("host", "is_read"),
    [
        ("localhost", True),
        ("LocalHost:8082", True),
        ("127.0.0.1:8082", True),
        ("[::1]:8082", True),
        (None, True),
        ("attacker.example", False),
        ("localhost.attacker.example", False),
        ("127.0.0.1.attacker.example:8082", False),
        ("", False),
    ],
)
def test_without_a_declared_portal_the_scripts_of_other_websites_read_nothing(host: str | None, is_read: bool) -> None:
    """The name of any website may resolve to 127.0.0.1. The browser then sends this name in the header Host."""
    gate = PageGate(is_local=True)
    gate.update(None)
    gate.open()
    expected = HTTPStatus.OK if is_read else HTTPStatus.MISDIRECTED_REQUEST
    assert gate.decide("platform/index.html", (None, None, None, host)).status == expected


@pytest.mark.parametrize(
    ("is_declared", "path", "words"),
    [
        (True, "platform/index.html", "The groups in spec.portal"),
        (True, "provider/index.html", "The groups in spec.portal"),
        (True, "tenants/kite/index.html", "The admin of the tenant adds members"),
        (False, "platform/index.html", "the platform doesn't declare a portal"),
    ],
)
def test_a_refusal_says_who_may_read(is_declared: bool, path: str, words: str) -> None:
    gate = PageGate(is_local=False)
    gate.update(ACCESS if is_declared else None)
    gate.open()
    decision = gate.decide(path, ("stranger", None, None, "gpus.test"))
    assert decision.status == HTTPStatus.FORBIDDEN
    assert words in decision.reason


def decide(gate: PageGate, path: str, credential: str | None) -> Decision:
    return gate.decide(path, ("00u1mia", TEAM, credential, "gpus.test"))


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_login_counts_only_with_the_credential(is_declared: bool) -> None:
    gate = PageGate(is_local=False, credential=SECRET.encode())
    gate.update(ACCESS._replace(needs_credential=is_declared))
    gate.open()
    assert not gate.lacks_credential
    for path in ("platform/index.html", "tenants/kite/index.html", "provider/index.html"):
        assert decide(gate, path, SECRET).status == HTTPStatus.OK
        for credential in (None, "", SECRET[:-1], f"{SECRET}x", "corrécte"):
            decision = decide(gate, path, credential)
            assert decision.status == HTTPStatus.FORBIDDEN
            assert "no valid credential of the Gateway" in decision.reason
            assert SECRET not in decision.reason
    assert decide(gate, "tenants", SECRET).status == HTTPStatus.MULTIPLE_CHOICES
    assert decide(gate, "tenants", None).status == HTTPStatus.FORBIDDEN
    assert decide(gate, "catalog/index.html", None).status == HTTPStatus.OK


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("credential", [None, "", SECRET])
def test_without_the_file_of_a_declared_credential_no_login_counts(is_local: bool, credential: str | None) -> None:
    gate = PageGate(is_local=is_local)
    gate.update(ACCESS._replace(needs_credential=True))
    gate.open()
    assert gate.lacks_credential
    assert decide(gate, "index.html", credential).status == HTTPStatus.OK
    for path in ("platform/index.html", "tenants/kite/index.html", "tenants"):
        decision = decide(gate, path, credential)
        assert decision.status == HTTPStatus.FORBIDDEN
        assert "start allot run with --portal-secret-file" in decision.reason


def test_a_stranger_with_the_credential_learns_who_may_read() -> None:
    gate = PageGate(is_local=False, credential=SECRET.encode())
    gate.update(ACCESS._replace(needs_credential=True))
    gate.open()
    decision = gate.decide("tenants/kite/index.html", ("stranger", None, SECRET, "gpus.test"))
    assert "The admin of the tenant adds members" in decision.reason
