"""The real gateway proves itself to the portal: it sends a credential that no browser and no pod can forge."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from typing import Any

import pytest
import yaml

from allotment.adapters.page_server import Decision, PageServer
from allotment.manifests import names
from allotment.manifests.cluster.portal import CREDENTIAL_HEADER, GROUPS_HEADER, SUBJECT_HEADER
from allotment.portal.pages.access import AccessList
from allotment.portal.site.page_gate import HEADERS, PageGate
from tests.conftest import PROJECT
from tests.controlplane import gateway, internet, issuer, rendered
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.conftest import Render
from tests.e2e.node import access, pods
from tests.e2e.node.access import DOMAIN, NAMESPACE, Doors
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
HOST = f"portal.{DOMAIN}"
CREDENTIAL, SECRET = "correct-horse-battery", "portal-proxy"
ADA, TEAM = "00u1ada", "platform-team"
ACCESS = AccessList(frozenset({TEAM}), {"solo-ada": frozenset({ADA})}, {}, needs_credential=True)
DECLARED = f"""\
  portal:
    cluster: eu-1
    publicPages: Public
    groups:
      - {TEAM}
    proxySecretName: {SECRET}
"""
ADDRESSES = {
    "public": "/",
    "Ada": "/tenants/solo-ada/",
    "another tenant": "/tenants/studio-kite/",
    "platform": "/platform/",
}
FORGED = {
    SUBJECT_HEADER: ADA,
    GROUPS_HEADER: base64.urlsafe_b64encode(json.dumps([TEAM]).encode()).decode(),
    CREDENTIAL_HEADER: "a-forged-credential",
}
# Prints the status of each page for a visitor who writes the headers of the Gateway.
ASK = """
import json, sys, urllib.error, urllib.request
origin, headers, paths = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
def status_of(path):
    try:
        return urllib.request.urlopen(urllib.request.Request(origin + path, headers=headers), timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([status_of(path) for path in paths]))
"""


class RecordingGate(PageGate):
    """The gate of the portal, which remembers the headers of each request."""

    def __init__(self) -> None:
        super().__init__(is_local=False, credential=CREDENTIAL.encode())
        self.received: list[dict[str, str | None]] = []

    def decide(self, path: str, headers: tuple[str | None, ...]) -> Decision:
        self.received.append(dict(zip(HEADERS, headers, strict=True)))
        return super().decide(path, headers)


@pytest.fixture(scope="module")
def portal_gate() -> RecordingGate:
    """Return a gate that lets the declared readers in."""
    gate = RecordingGate()
    gate.update(ACCESS)
    gate.open()
    return gate


@pytest.fixture(scope="module")
def portal(
    real_node: Node, portal_gate: RecordingGate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageServer]:
    """Return a server of pages at the address of the machine, which the node and its pods reach."""
    folder = tmp_path_factory.mktemp("pages")
    for text, address in ADDRESSES.items():
        page = folder / address.strip("/") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    with closing(PageServer(real_node.world.network.machine, 0, folder, portal_gate, HEADERS)) as server:
        yield server


@pytest.fixture(scope="module")
def doors(
    real_node: Node, portal: PageServer, render: Render, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    """Return the ways to a gateway that serves the rendered routes of the portal."""
    root = tmp_path_factory.mktemp("portal") / "repo"
    access.declare(root)
    platform = root / "platform/platform.yaml"
    platform.write_text(platform.read_text(encoding="utf-8") + DECLARED, encoding="utf-8")
    issuer.introduce(internet.folder(real_node.world), {ADA: {}, "lead": {"groups": [TEAM]}})
    tree, client = render(root, "eu-1"), real_node.cluster.client
    resources = {"solo-ada/compute/webui": 1, "studio-kite/compute/webui": 1}
    with access.open_doors(real_node, tree, gateway.default_provider(real_node.world), resources) as opened:
        client.apply(*backend(real_node.world.network.machine, portal.port))
        try:
            client.apply(*rendered.objects(tree, "platform/cluster/portal.rendered.yaml"))
            eventually(lambda: opened.visit(f"https://{HOST}/")["status"] == HTTPStatus.OK, "the portal to be served")
            yield opened
        finally:
            client.delete("v1", "Namespace", names.SYSTEM_NAMESPACE)


def backend(address: str, port: int) -> list[Object]:
    """Return the Secret, and the Service and the ReferenceGrant of the add-on, which lead to a server of this machine."""
    service, grant = (
        yaml.safe_load((PROJECT / f"argo/add-ons/allot-portal/{name}.yaml").read_text(encoding="utf-8"))
        for name in ("service", "reference-grant")
    )
    for manifest in (service, grant):
        manifest["metadata"]["namespace"] = names.SYSTEM_NAMESPACE
    grant["spec"]["from"][0]["namespace"] = NAMESPACE
    service["spec"]["ports"] = [each for each in service["spec"]["ports"] if each["name"] == "pages"]
    labels = {"kubernetes.io/service-name": names.PORTAL}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": names.PORTAL, "namespace": names.SYSTEM_NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "pages", "port": port, "protocol": "TCP"}],
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}
    return [space, build_secret(CREDENTIAL), service, endpoints, grant]


def build_secret(credential: str) -> Object:
    """Return the Secret with the credential of the gateway."""
    metadata = {"name": SECRET, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"credential": credential}}


@pytest.mark.parametrize("headers", [{}, FORGED], ids=["as the browser sends it", "with forged headers"])
def test_the_gateway_sends_its_credential_and_the_login(
    headers: dict[str, str], doors: Doors, portal_gate: RecordingGate
) -> None:
    jar = doors.visit(f"https://{HOST}{ADDRESSES['Ada']}", ADA)["jar"]
    portal_gate.received.clear()
    answers = {
        name: doors.visit(f"https://{HOST}{address}", jar=jar, headers=headers) for name, address in ADDRESSES.items()
    }
    statuses = {name: answer["status"] for name, answer in answers.items()}
    assert statuses == {"public": 200, "Ada": 200, "another tenant": 403, "platform": 403}
    assert answers["Ada"]["body"] == "Ada"
    public, *protected = portal_gate.received
    assert {public[name] for name in FORGED} == {None}, "the public pages know no visitor, and get no credential"
    assert [(each[SUBJECT_HEADER], each[GROUPS_HEADER]) for each in protected] == [(ADA, None)] * 3
    assert {each[CREDENTIAL_HEADER] for each in protected} == {CREDENTIAL}


def test_without_a_login_no_forged_header_reaches_a_page(doors: Doors, portal_gate: RecordingGate) -> None:
    portal_gate.received.clear()
    headers = FORGED | {CREDENTIAL_HEADER: CREDENTIAL}
    for address in (ADDRESSES["Ada"], ADDRESSES["platform"]):
        assert doors.visit(f"https://{HOST}{address}", headers=headers, follow=False)["status"] == HTTPStatus.FOUND
    assert portal_gate.received == []


def test_a_pod_that_reaches_the_portal_reads_no_tenants_page(
    real_node: Node, doors: Doors, portal: PageServer, portal_gate: RecordingGate
) -> None:
    portal_gate.received.clear()
    origin = f"http://{real_node.world.network.machine}:{portal.port}"
    pod: dict[str, Any] = pods.pod("default", "stranger", access.IMAGE)
    pod["spec"]["containers"][0]["command"] = ["sleep", "infinity"]

    def ask(headers: dict[str, str]) -> list[int]:
        command = ["python3", "-c", ASK, origin, json.dumps(headers), *ADDRESSES.values()]
        statuses: list[int] = json.loads(pods.run_command(real_node.cluster, stranger, *command))
        return statuses

    with pods.running(real_node, pod) as (stranger,):
        without_credential = {name: value for name, value in FORGED.items() if name != CREDENTIAL_HEADER}
        for headers in (without_credential, FORGED):
            assert ask(headers) == [200, 403, 403, 403]
        assert {each[SUBJECT_HEADER] for each in portal_gate.received} == {ADA}, "the requests reached the portal"
        assert ask(FORGED | {CREDENTIAL_HEADER: CREDENTIAL}) == [200, 200, 200, 200], "only the credential was missing"


def test_without_its_secret_the_gateway_serves_only_public_pages(real_node: Node, doors: Doors) -> None:
    client, jar = real_node.cluster.client, doors.visit(f"https://{HOST}{ADDRESSES['Ada']}", ADA)["jar"]

    def list_statuses() -> list[int]:
        return [doors.visit(f"https://{HOST}{ADDRESSES[name]}", jar=jar)["status"] for name in ("public", "Ada")]

    assert list_statuses() == [200, 200]
    client.delete("v1", "Secret", SECRET, NAMESPACE)
    try:
        eventually(lambda: list_statuses() == [200, 500], "the page with a login to be refused")
    finally:
        client.apply(build_secret(CREDENTIAL))
    eventually(lambda: list_statuses() == [200, 200], "the page with a login to be served")
