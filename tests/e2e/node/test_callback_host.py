"""One login for all hosts of a cluster: the issuer knows one address, and returns people to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.conftest import edit
from tests.controlplane import issuer
from tests.controlplane.fixtures import Node
from tests.e2e.conftest import Render
from tests.e2e.node import access
from tests.e2e.node.access import DOMAIN, Doors, host

pytestmark = [pytest.mark.e2e, pytest.mark.node]
CALLBACK_HOST = f"login.{DOMAIN}"
KITE, ADA = host("webui", "studio-kite"), host("webui", "solo-ada")
RESOURCES = {"solo-ada/compute/webui": 1, "studio-kite/compute/webui": 1}


@pytest.fixture(scope="module")
def doors(real_node: Node, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return the routes of two tenants in a cluster with a callback host."""
    root = tmp_path_factory.mktemp("callback") / "repo"
    access.declare(root)
    (root / "tenants/ml-orbit/instances/demo.yaml").unlink()  # no port may be Public
    callback = f"    clientID: allotment\n    callbackHost: {CALLBACK_HOST}\n"
    edit(root, "clusters/eu-1/cluster.yaml", "    clientID: allotment\n", callback)
    people: dict[str, dict[str, Any]] = {"00u1mio": {}, "00u1ada": {}}
    with access.open_doors(real_node, render(root, "eu-1"), people, RESOURCES) as opened:
        yield opened


def test_a_browser_logs_in_once_for_all_hosts_and_containers_get_no_cookie(doors: Doors) -> None:
    page = "[location.href, document.body.innerText]"
    steps = [
        {"person": "00u1mio", "open": f"https://{KITE}/page?a=1", "script": page},
        {
            "person": "nobody",
            "open": f"https://{ADA}/",
            "script": "[location.href, document.title, document.body.innerText]",
        },
        {"open": f"https://{KITE}/again", "script": page},
    ]
    first, other, again = doors.browse(steps)
    assert first[0] == f"https://{KITE}/page?a=1"
    assert "cookie" not in {name.lower() for name, _ in json.loads(first[1])["headers"]}
    assert other[0] == f"https://{ADA}/" and "RBAC: access denied" in other[2], "logged in, but no member"
    assert again[0] == f"https://{KITE}/again"


def test_the_issuer_is_asked_to_return_people_to_one_host(doors: Doors) -> None:
    for at in (KITE, ADA):
        answer = doors.visit(f"https://{at}/", follow=False)
        place, _, query = answer["headers"]["location"].partition("?")
        assert (answer["status"], place) == (302, f"{issuer.URL}/authorize")
        assert parse_qs(query)["redirect_uri"] == [f"https://{CALLBACK_HOST}/oauth2/callback"]


def test_the_callback_host_serves_nothing_else(doors: Doors) -> None:
    assert doors.visit(f"https://{CALLBACK_HOST}/", follow=False)["status"] == 302
    assert doors.visit(f"https://{CALLBACK_HOST}/", headers={"Accept": "application/json"})["status"] == 401
    _, callback = doors.browse(
        [
            {"person": "00u1mio", "open": f"https://{KITE}/"},
            {"open": f"https://{CALLBACK_HOST}/x", "script": "[location.href, document.body.innerText]"},
        ]
    )
    assert callback[0] == f"https://{CALLBACK_HOST}/x" and "RBAC: access denied" in callback[1], "with a login, too"


def test_a_page_of_another_tenant_does_nothing_with_the_shared_login(doors: Doors) -> None:
    steps = [
        {"person": "00u1mio", "open": f"https://{KITE}/", "script": access.attack(KITE)},
        {"open": f"https://{ADA}/", "script": access.attack(KITE)},
        {"open": f"https://{KITE}/requests", "script": "document.body.innerText"},
    ]
    own, foreign, requests = doors.browse(steps)
    assert (own, foreign) == ([f"https://{KITE}", "basic", "open"], [f"https://{ADA}", "opaque", "failed"])
    origins = [origin for method, origin, _ in json.loads(requests) if origin is not None]
    assert origins and set(origins) == {f"https://{KITE}"}
