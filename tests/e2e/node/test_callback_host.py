"""One login for all hosts of a cluster, at a Gitea: it knows one address of the gateway, and returns people to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
import yaml

from allotment.declared.kinds.cluster import Oidc
from allotment.diagnosis.login import DiscoveryDocument, DiscoveryResponse, diagnose_login, discovery_url
from tests.conftest import edit
from tests.controlplane import gateway, processes, rendered
from tests.controlplane import gitea as gitea_program
from tests.controlplane.fixtures import Node
from tests.controlplane.gitea import Gitea
from tests.controlplane.web import call
from tests.e2e.conftest import Render
from tests.e2e.node import access
from tests.e2e.node.access import DOMAIN, Doors, host
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
CALLBACK_HOST = f"login.{DOMAIN}"
KITE, ADA = host("webui", "studio-kite"), host("webui", "solo-ada")
RESOURCES = {"solo-ada/compute/webui": 1, "studio-kite/compute/webui": 1}
MEMBER, GROUP, PASSWORD = "bob", "kite-leads", "correct-horse-battery"
CLUSTER = "clusters/eu-1/cluster.yaml"
DECLARED = """\
    issuer: https://id.northlight.example
    clientID: allotment
"""
ENDPOINTS = """\
    endpoints:
      authorization: https://id.northlight.example/authorize
      token: https://id.northlight.example/token
      endSession: https://id.northlight.example/logout
"""


@pytest.fixture(scope="module")
def gitea(real_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    """Return a Gitea that the node and its browser reach, with a person in a group of studio-kite."""
    folder = tmp_path_factory.mktemp("gitea")
    try:
        started = gitea_program.start(folder, real_node.world.network.machine)
        account = {"source_id": 0, "login_name": MEMBER, "password": PASSWORD, "must_change_password": False}
        started.api(f"admin/users/{MEMBER}", account, method="PATCH")
        started.api("orgs", {"username": GROUP}, user=MEMBER)
        yield started
    finally:
        processes.stop(folder)


@pytest.fixture(scope="module")
def issuer(gitea: Gitea) -> dict[str, Any]:
    """Return what Gitea says about itself as an issuer."""
    document: dict[str, Any] = call(f"{gitea.url}/.well-known/openid-configuration", authority=gitea.authority)
    return document


@pytest.fixture(scope="module")
def client(gitea: Gitea) -> dict[str, Any]:
    """Return the client that the gateway is at Gitea."""
    callback = f"https://{CALLBACK_HOST}/oauth2/callback"
    wanted = {"name": "eu-1", "redirect_uris": [callback], "confidential_client": True}
    created: dict[str, Any] = gitea.api("user/applications/oauth2", wanted)
    return created


@pytest.fixture(scope="module")
def root(client: dict[str, Any], issuer: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose cluster has a callback host and Gitea as its issuer."""
    root = tmp_path_factory.mktemp("callback") / "repo"
    access.declare(root)
    (root / "tenants/ml-orbit/instances/demo.yaml").unlink()  # no port may be Public
    declared = f"""\
    issuer: {issuer["issuer"]}
    clientID: {client["client_id"]}
    jwksURI: {issuer["jwks_uri"]}
    callbackHost: {CALLBACK_HOST}
"""
    edit(root, CLUSTER, DECLARED, declared)
    endpoints = f"""\
    endpoints:
      authorization: {issuer["authorization_endpoint"]}
      token: {issuer["token_endpoint"]}
"""
    edit(root, CLUSTER, ENDPOINTS, endpoints)
    return root


@pytest.fixture(scope="module")
def doors(real_node: Node, gitea: Gitea, client: dict[str, Any], root: Path, render: Render) -> Iterator[Doors]:
    """Return the routes of two tenants in a cluster with a callback host."""
    address, authority = real_node.world.network.machine, gitea.authority.read_bytes()
    provider = gateway.Provider(gitea_program.HOST, address, authority, client["client_secret"])
    with access.open_doors(real_node, render(root, "eu-1"), provider, RESOURCES) as opened:
        yield opened


PAGE = "[location.href, document.title, document.body.innerText]"
FILLED = f"""(() => {{
    document.querySelector("#user_name").value = "{MEMBER}";
    document.querySelector("#password").value = "{PASSWORD}";
    return location.href;
}})()"""


SIGN_IN: list[dict[str, Any]] = [
    {"open": f"https://{KITE}/page?a=1", "script": FILLED},
    {"click": "form button.primary"},
]


@pytest.fixture(scope="module")
def first_visit(doors: Doors) -> list[Any]:
    """Return the pages of a browser that opens an instance, signs in at Gitea, and lets Gitea tell the gateway who it is.

    Gitea asks for that once. A browser that comes later with `SIGN_IN` is at the instance.
    """
    steps = [*SIGN_IN, {"script": PAGE}, {"click": "#authorize-app", "script": PAGE}]
    steps += [{"open": f"https://{at}", "script": PAGE} for at in (f"{ADA}/", f"{KITE}/again")]
    form, _, *pages = doors.browse(steps)
    return [form, *pages]


def test_a_browser_logs_in_once_for_all_hosts_and_containers_get_no_cookie(
    first_visit: list[Any], issuer: dict[str, Any]
) -> None:
    form, grant, first, other, again = first_visit
    assert form.partition("?")[0] == f"{issuer['issuer']}/user/login"
    assert grant[0].partition("?")[0] == issuer["authorization_endpoint"]
    assert first[0] == f"https://{KITE}/page?a=1"
    assert "cookie" not in {name.lower() for name, _ in json.loads(first[2])["headers"]}
    assert other[0] == f"https://{ADA}/" and "RBAC: access denied" in other[2], "logged in, but no member"
    assert again[0] == f"https://{KITE}/again" and '"path": "/again"' in again[2]


def test_the_issuer_is_asked_to_return_people_to_one_host(doors: Doors, issuer: dict[str, Any]) -> None:
    for at in (KITE, ADA):
        answer = doors.visit(f"https://{at}/", follow=False)
        place, _, query = answer["headers"]["location"].partition("?")
        assert (answer["status"], place) == (302, issuer["authorization_endpoint"])
        assert parse_qs(query)["redirect_uri"] == [f"https://{CALLBACK_HOST}/oauth2/callback"]


def test_doctor_finds_that_the_declared_login_is_that_of_gitea(root: Path, issuer: dict[str, Any]) -> None:
    spec = yaml.safe_load((root / CLUSTER).read_text(encoding="utf-8"))["spec"]
    response = DiscoveryResponse(msgspec.convert(issuer, DiscoveryDocument))
    diagnoses = diagnose_login(Oidc.model_validate(spec["oidc"]), response, ["studio-kite"])
    assert [(diagnosis.severity, diagnosis.message) for diagnosis in diagnoses] == [
        ("ok", f"agrees with {discovery_url(issuer['issuer'])}")
    ]


@pytest.mark.usefixtures("first_visit")
def test_the_callback_host_serves_nothing_else(doors: Doors) -> None:
    assert doors.visit(f"https://{CALLBACK_HOST}/", follow=False)["status"] == 302
    assert doors.visit(f"https://{CALLBACK_HOST}/", headers={"Accept": "application/json"})["status"] == 401
    *_, callback = doors.browse([*SIGN_IN, {"open": f"https://{CALLBACK_HOST}/x", "script": PAGE}])
    assert callback[0] == f"https://{CALLBACK_HOST}/x" and "RBAC: access denied" in callback[2], "with a login, too"


@pytest.mark.usefixtures("first_visit")
def test_a_page_of_another_tenant_does_nothing_with_the_shared_login(doors: Doors) -> None:
    steps = [
        {"script": access.attack(KITE)},
        {"open": f"https://{ADA}/", "script": access.attack(KITE)},
        {"open": f"https://{KITE}/requests", "script": "document.body.innerText"},
    ]
    *_, own, foreign, requests = doors.browse([*SIGN_IN, *steps])
    assert (own, foreign) == ([f"https://{KITE}", "basic", "open"], [f"https://{ADA}", "opaque", "failed"])
    origins = [origin for method, origin, _ in json.loads(requests) if origin is not None]
    assert origins and set(origins) == {f"https://{KITE}"}


@pytest.mark.usefixtures("first_visit")
def test_programs_are_admitted_where_all_hosts_share_a_login(
    doors: Doors, root: Path, render: Render, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The listener's policy has the login, and Envoy Gateway rejects it if it skips tokens that nothing checks."""
    admitting = tmp_path_factory.mktemp("programs") / "repo"
    shutil.copytree(root, admitting)
    edit(
        admitting,
        CLUSTER,
        f"    callbackHost: {CALLBACK_HOST}\n",
        f"    callbackHost: {CALLBACK_HOST}\n    cliClientID: cli\n",
    )
    files = ["platform/cluster/gateway.rendered.yaml", *(f"tenants/{path}.rendered.yaml" for path in RESOURCES)]
    client, bearer = doors.real_node.cluster.client, {"Authorization": "Bearer sk-none"}

    def policies(repository: Path) -> list[dict[str, Any]]:
        manifests = rendered.objects(render(repository, "eu-1"), *files)
        return [manifest for manifest in manifests if manifest["kind"] in ("SecurityPolicy", "HTTPRoute")]

    def statuses() -> list[int]:
        return [
            doors.visit(f"https://{at}/", headers=bearer, follow=False)["status"] for at in (KITE, ADA, CALLBACK_HOST)
        ]

    plain = policies(root)
    assert statuses() == [302, 302, 302]
    client.apply(*policies(admitting))
    try:
        eventually(lambda: statuses() == [401, 401, 401] or None, "all hosts to take tokens")
        for at in (KITE, ADA, CALLBACK_HOST):
            assert doors.visit(f"https://{at}/", follow=False)["status"] == 302
        *_, page = doors.browse([*SIGN_IN, {"open": f"https://{KITE}/again", "script": PAGE}])
        assert page[0] == f"https://{KITE}/again" and '"path": "/again"' in page[2]
        names_received = {name.lower() for name, _ in json.loads(page[2])["headers"]}
        assert names_received.isdisjoint({"authorization", "cookie"})
        *_, callback = doors.browse([*SIGN_IN, {"open": f"https://{CALLBACK_HOST}/x", "script": PAGE}])
        assert "RBAC: access denied" in callback[2]
    finally:
        client.apply(*plain)
        eventually(lambda: statuses() == [302, 302, 302] or None, "no host to take tokens")
