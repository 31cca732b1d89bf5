"""What reaches a container through the real gateway, and who gets there: Envoy Gateway, Envoy and logins at an issuer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import pytest

from allotment.manifests import names
from allotment.manifests.tenant.exposure import ACCESS_TOKEN_COOKIE, ID_TOKEN_COOKIE
from tests.controlplane import gateway, images, internet, issuer, node, processes, programs, rendered
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.node import pods

pytestmark = [pytest.mark.e2e, pytest.mark.node]
DOMAIN = "eu-1.gpu.northlight.example"
INSTANCE = f"webui--solo-ada.{DOMAIN}"
PUBLIC = f"public--solo-ada.{DOMAIN}"
FILES = f"models--files--solo-ada.{DOMAIN}"
OTHER = f"webui--studio-kite.{DOMAIN}"
IMAGE = f"registry.example/echo@sha256:{'e' * 64}"
ADDRESS = "127.0.0.1"  # of Envoy in the node's world
# Answers with the request that it got.
ECHO = """
import http.server, json, sys
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.close_connection = True
            return
        body = json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Echo).serve_forever()
"""
BLANKS = 55_000  # with the cookies of a login less than 60 KiB, the most that Envoy accepts as headers
ADA, STRANGER = "00u1ada", "stranger"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Doors(NamedTuple):
    """Tenants' pods behind the gateway, and the way of a visitor to them."""

    real_node: Node

    def visit(self, url: str, person: str = "", **more: Any) -> dict[str, Any]:
        """Return the last answer that a visitor gets. A `person` logs in where the gateway asks for it."""
        jar = more.pop("jar", {}) | ({issuer.HOST: {"person": person}} if person else {})
        stated = [f"{name}={value}" for name, value in programs.OWN.items()]
        command = ["env", *stated, sys.executable, "-m", "tests.e2e.node.visitor", ADDRESS]
        answer: dict[str, Any] = json.loads(
            self.real_node.world.run(command, json.dumps({"jar": jar, "url": url, **more}))
        )
        return answer

    def login(self, host: str, person: str = ADA) -> dict[str, Any]:
        """Return the cookies of a person who has logged in at a host, by host."""
        answer = self.visit(f"https://{host}/", person)
        assert answer["status"] == 200, answer
        jar: dict[str, Any] = answer["jar"]
        return jar


def _echo(service: Object, priority: str) -> pods.Pod:
    """Return a pod behind a rendered Service that answers with the request that it got."""
    ((name, port),) = ((served["targetPort"], served["port"]) for served in service["spec"]["ports"])
    metadata = service["metadata"]
    labels = service["spec"]["selector"]
    pod = pods.pod(metadata["namespace"], metadata["name"], IMAGE, labels, priorityClassName=priority)
    pod["spec"]["containers"][0] |= {
        "command": ["python3", "-c", ECHO, str(port)],
        "ports": [{"name": name, "containerPort": port}],
    }
    return pod


def _public(webui: Iterable[Object]) -> Iterator[Object]:
    """Yield a second route to the pod of an instance, without a login, from the rendered objects of the instance."""
    for manifest in webui:
        if manifest["kind"] in ("HTTPRoute", "SecurityPolicy"):
            spec = manifest["spec"]
            if manifest["kind"] == "HTTPRoute":
                spec = {**spec, "hostnames": [PUBLIC]}
            else:
                target = {**spec["targetRefs"][0], "name": "public"}
                spec = {"targetRefs": [target], "authorization": {"defaultAction": "Allow"}}
            yield {**manifest, "metadata": {**manifest["metadata"], "name": "public"}, "spec": spec}


@pytest.fixture(scope="module")
def doors(real_node: Node, sample_tree: Path) -> Iterator[Doors]:
    """Return the rendered routes of two tenants with a pod behind each, once the gateway serves them."""
    client, world = real_node.cluster.client, real_node.world
    node.take_in(world, {IMAGE: images.python(internet.authority(world))})
    issuer.introduce(internet.folder(world), {ADA: {}, STRANGER: {}})
    shared = [f"platform/cluster/{name}.rendered.yaml" for name in ("namespaces", "priority-classes", "gateway")]
    tenants = [f"control/namespaces/s/{name}.rendered.yaml" for name in ("solo-ada", "studio-kite")]
    routes = [
        manifest
        for path in ("solo-ada/compute/webui", "solo-ada/storage/models", "studio-kite/compute/webui")
        for manifest in rendered.objects(sample_tree, f"tenants/{path}.rendered.yaml")
        if manifest["kind"] in ("HTTPRoute", "SecurityPolicy", "Service")
    ]
    client.apply(*rendered.objects(sample_tree, *shared), *rendered.objects(sample_tree, *tenants), *routes)
    client.apply(*_public(rendered.objects(sample_tree, "tenants/solo-ada/compute/webui.rendered.yaml")))
    services = [manifest for manifest in routes if manifest["kind"] == "Service"]
    assert len(services) == 3
    wanted = [
        _echo(
            service,
            names.INSTANCE_PRIORITY if names.INSTANCE in service["spec"]["selector"] else names.STORAGE_PRIORITY,
        )
        for service in services
    ]
    with pods.running(real_node, *wanted):
        try:
            gateway.start(real_node.cluster, world, DOMAIN)
            served = Doors(real_node)
            for host in (INSTANCE, FILES):
                processes.eventually(partial(served.login, host), f"{host} to be served")
            processes.eventually(lambda: served.visit(f"https://{PUBLIC}/")["status"] == 200, f"{PUBLIC} to be served")
            yield served
        finally:
            gateway.stop(real_node.cluster, world)
    rendered.clear(client)


def dump_of_envoy(doors: Doors) -> str:
    """Return the configuration that Envoy has now, as its administration page shows it."""
    world = doors.real_node.world
    listening = world.run(["ss", "-ltnpH"]).splitlines()
    (address,) = (
        line.split()[3] for line in listening if '"envoy"' in line and line.split()[3].startswith("127.0.0.1:")
    )
    return world.run(["curl", "-s", f"http://{address}/config_dump"])


def received(answer: dict[str, Any]) -> dict[str, str]:
    """Return the headers that the container received."""
    assert answer["status"] == 200, answer
    return {name.lower(): value for name, value in json.loads(answer["body"])["headers"]}


@pytest.mark.parametrize("host", [INSTANCE, FILES])
def test_a_container_receives_no_token_and_no_cookie_of_the_login(host: str, doors: Doors) -> None:
    jar = doors.login(host)
    assert {ID_TOKEN_COOKIE, ACCESS_TOKEN_COOKIE} <= jar[host].keys()
    answer = doors.visit(f"https://{host}/", jar=jar)
    assert "cookie" not in received(answer)
    assert "authorization" not in received(answer)
    assert not [value for value in received(answer).values() if value.startswith("ey") or "gcm." in value]


@pytest.mark.parametrize("host", [INSTANCE, FILES])
def test_a_container_receives_the_cookies_of_its_application(host: str, doors: Doors) -> None:
    jar = doors.login(host)
    jar[host] = {"theme": "dark", **jar[host], "view": "a=b", "__Host-app": "1"}
    answer = doors.visit(f"https://{host}/", jar=jar)
    assert {*received(answer)["cookie"].split("; ")} == {"theme=dark", "view=a=b", "__Host-app=1"}


def test_a_public_route_keeps_the_cookies_of_a_login_from_the_container(doors: Doors) -> None:
    jar = {PUBLIC: {**doors.login(INSTANCE)[INSTANCE], "theme": "dark"}}
    assert received(doors.visit(f"https://{PUBLIC}/", jar=jar))["cookie"] == "theme=dark"
    assert doors.visit(f"https://{PUBLIC}/", jar=jar, headers={"Origin": f"https://{OTHER}"})["status"] == 403


def test_the_cookies_of_a_login_are_of_one_host(doors: Doors) -> None:
    answer = doors.visit(f"https://{INSTANCE}/", ADA)
    assert ID_TOKEN_COOKIE.startswith("__Host-") and ACCESS_TOKEN_COOKIE.startswith("__Host-")
    assert answer["jar"].keys() == {INSTANCE, issuer.HOST}


def test_who_is_no_member_is_denied(doors: Doors) -> None:
    for host in (INSTANCE, FILES):
        assert doors.visit(f"https://{host}/", STRANGER)["status"] == 403
    assert doors.visit(f"https://{OTHER}/", ADA)["status"] == 403


def test_without_a_login_a_visitor_is_sent_to_the_issuer(doors: Doors) -> None:
    answer = doors.visit(f"https://{INSTANCE}/", follow=False)
    assert answer["status"] == 302
    place, _, query = answer["headers"]["location"].partition("?")
    assert (place, parse_qs(query)["scope"]) == (f"{issuer.URL}/authorize", ["openid groups"])


@pytest.mark.parametrize(
    "headers",
    [
        UPGRADE,
        {"Accept": "application/json"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Mode": "websocket", **UPGRADE},
    ],
    ids=lambda headers: " ".join(f"{name}={value}" for name, value in sorted(headers.items()))[:40],
)
def test_without_a_login_only_a_page_is_redirected(headers: dict[str, str], doors: Doors) -> None:
    for host in (INSTANCE, FILES):
        assert doors.visit(f"https://{host}/", headers=headers, follow=False)["status"] == 401
    assert doors.visit(f"https://{PUBLIC}/", headers=headers)["status"] in (101, 200)
    page = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html,application/xhtml+xml", "Upgrade-Insecure-Requests": "1"}
    assert doors.visit(f"https://{INSTANCE}/", headers=page, follow=False)["status"] == 302


def test_a_forged_token_opens_nothing(doors: Doors) -> None:
    key = issuer.create_key()
    token = issuer.sign(key, {"iss": issuer.URL, "aud": issuer.CLIENT, "sub": ADA, "exp": 4102444800})
    answer = doors.visit(f"https://{INSTANCE}/", jar={INSTANCE: {ID_TOKEN_COOKIE: token}}, follow=False)
    assert answer["status"] in (302, 401, 403)


@pytest.mark.parametrize("origin", [f"https://{OTHER}", "null", "https://evil.example", f"http://{INSTANCE}"])
@pytest.mark.parametrize(
    ("method", "headers"), [("GET", UPGRADE), ("POST", {}), ("GET", {})], ids=["socket", "post", "get"]
)
def test_a_page_of_another_host_does_nothing_with_the_visitors_login(
    method: str, headers: dict[str, str], origin: str, doors: Doors
) -> None:
    jar = doors.login(INSTANCE)
    own = doors.visit(
        f"https://{INSTANCE}/", jar=jar, method=method, headers={**headers, "Origin": f"https://{INSTANCE}"}
    )
    assert own["status"] == (101 if headers else 200), own
    answer = doors.visit(f"https://{INSTANCE}/", jar=jar, method=method, headers={**headers, "Origin": origin})
    assert (answer["status"], answer["body"]) == (403, "The request comes from a page of another host.\n")


@pytest.mark.parametrize(("origin", "status"), [(f"https://{INSTANCE}", 200), (f"https://{OTHER}", 403)])
def test_a_container_receives_no_cookie_of_a_refreshed_login(origin: str, status: int, doors: Doors) -> None:
    jar = doors.login(INSTANCE)
    jar[INSTANCE] = {name: value for name, value in jar[INSTANCE].items() if name.startswith("RefreshToken-")}
    answer = doors.visit(f"https://{INSTANCE}/", jar=jar, headers={"Origin": origin}, follow=False)
    assert answer["status"] == status
    assert {ID_TOKEN_COOKIE, ACCESS_TOKEN_COOKIE} <= answer["jar"][INSTANCE].keys()
    assert status != 200 or "cookie" not in received(answer)


def test_blanks_in_a_long_cookie_do_not_block_the_gateway(doors: Doors) -> None:
    """The shortest of three visits counts, because the machine is busy."""
    jar = doors.login(INSTANCE)
    seconds: dict[int, float] = {}
    for blanks in (1, BLANKS) * 3:
        jar[INSTANCE]["theme"] = f"a{' ' * blanks}b"
        begin = time.monotonic()
        answer = doors.visit(f"https://{INSTANCE}/", jar=jar)
        seconds[blanks] = min(seconds.get(blanks, 60), time.monotonic() - begin)
        assert received(answer)["cookie"] == f"theme={jar[INSTANCE]['theme']}"
    assert seconds[BLANKS] < 3 * seconds[1] + 1, "Envoy took as long as for the square of its length"


def test_sessions_and_new_routes_survive_an_outage_of_the_issuer(doors: Doors) -> None:
    """Envoy Gateway translates all routes again when an object changes, and would deny all logins if it asked the issuer."""
    cluster, world = doors.real_node.cluster, doors.real_node.world
    jar = doors.login(INSTANCE)
    down = internet.folder(world) / issuer.DOWN
    route = cluster.client.get("gateway.networking.k8s.io/v1", "HTTPRoute", "webui", names.namespace("studio-kite"))
    down.touch()
    try:
        route["spec"]["rules"][0]["timeouts"] = {"request": "77s"}
        cluster.client.apply(
            {key: value for key, value in route.items() if key != "status"}
            | {"metadata": {"name": "webui", "namespace": names.namespace("studio-kite")}}
        )
        processes.eventually(lambda: "77s" in dump_of_envoy(doors) or None, "Envoy to have the change")
        assert received(doors.visit(f"https://{INSTANCE}/", jar=jar))
        answer = doors.visit(f"https://{INSTANCE}/", follow=False)
        assert (answer["status"], answer["headers"]["location"].partition("?")[0]) == (302, f"{issuer.URL}/authorize")
    finally:
        down.unlink()
    assert doors.login(INSTANCE)
