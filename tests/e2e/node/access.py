"""Tenants' pods behind the real gateway, in a cloud that declares a managed Gateway, limits and addresses; and its visitors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from allotment.manifests import names
from tests.conftest import PUBLIC_INSTANCE, copy_sample, edit
from tests.controlplane import gateway, images, internet, issuer, node, programs, rendered
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.node import pods
from tests.support.waiting import eventually

DOMAIN = "eu-1.gpu.northlight.example"
NAMESPACE = "access"  # of the managed Gateway
ADDRESS = "127.0.0.1"  # of Envoy in the node's world
REQUESTS_PER_SECOND = 30
RETENTION_DAYS = 45
IMAGE = f"registry.example/echo@sha256:{'e' * 64}"
MANAGED = f"""\
    name: edge
    namespace: {NAMESPACE}
    sectionName: https
    managed: true
    certificate:
      secretName: {gateway.CERTIFICATE}
    timeouts:
      idle: 4s
    requestsPerSecond: {REQUESTS_PER_SECOND}
    accessLog:
      retentionDays: {RETENTION_DAYS}
"""
# Answers with the request that it got; /requests answers with the method and the origin of each request before, /silent
# after some seconds, and an upgrade with a WebSocket.
ECHO = """
import base64, hashlib, http.server, json, socket, sys, time
seen = []
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        sent = hashlib.sha256()
        length = int(self.headers.get("Content-Length", 0))
        while length > 0 and (piece := self.rfile.read(min(length, 1 << 16))):
            sent.update(piece)
            length -= len(piece)
        key = self.headers.get("Sec-WebSocket-Key", "")
        if self.path != "/requests":
            seen.append([self.command, self.headers.get("Origin"), bool(key)])
        if self.headers.get("Upgrade", "").lower() == "websocket":
            digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
            self.end_headers()
            if self.path == "/silent":
                time.sleep(30)
            self.close_connection = True
            return
        if self.path == "/silent":
            time.sleep(30)
        answer = seen if self.path == "/requests" else {
            "method": self.command, "path": self.path, "headers": self.headers.items(), "pod": socket.gethostname(),
            "sha256": sent.hexdigest(),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_PUT = do_PATCH = do_DELETE = do_MKCOL = do_MOVE = do_COPY = do_OPTIONS = do_PROPFIND = do_GET
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Echo).serve_forever()
"""


def host(name: str, tenant: str) -> str:
    """Return the host of an instance, or of the files of a storage (`<storage>--files`)."""
    return f"{name}--{tenant}.{DOMAIN}"


def attack(at: str) -> str:
    """Return a script that sends a form and opens a WebSocket to a host with the visitor's login, and says what came of both."""
    return f"""(async () => {{
        const post = await fetch("https://{at}/attack", {{method: "POST", mode: "no-cors", credentials: "include"}})
            .then(answer => answer.type, error => "failed");
        const socket = await new Promise(done => {{
            const opened = new WebSocket("wss://{at}/attack");
            opened.onopen = () => done("open");
            opened.onerror = () => done("failed");
        }});
        return [location.origin, post, socket];
    }})()"""


class Doors(NamedTuple):
    """Tenants' pods behind the gateway, and the way of a visitor to them. `jars` has the cookies of logins before."""

    real_node: Node
    jars: dict[tuple[str, str], dict[str, Any]]
    provider: gateway.Provider

    def visit(self, url: str, person: str = "", **more: Any) -> dict[str, Any]:
        """Return the last answer that a visitor gets. A `person` logs in where the gateway asks for it."""
        jar = more.pop("jar", {}) | ({issuer.HOST: {"person": person}} if person else {})
        return self.visits([{"jar": jar, "url": url, **more}])[0]

    def visits(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the last answer to each of some visits, which begin one after the other."""
        answers: list[dict[str, Any]] = json.loads(
            self._run("visitor", [ADDRESS], [{"jar": {}, **request} for request in requests])
        )
        return answers

    def flood(self, at: str, count: int) -> list[str]:
        """Return the status of each of many requests, many of them at a time."""
        command = [
            "curl",
            "--silent",
            "--insecure",
            "--parallel",
            "--resolve",
            f"{at}:443:{ADDRESS}",
            "--output",
            "/dev/null",
        ]
        command += ["--write-out", "%{http_code} ", f"https://{at}/?request=[1-{count}]"]
        return self.real_node.world.run(command).split()

    def browse(self, steps: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return what a browser evaluates in each of some steps."""
        results: list[Any] = json.loads(
            self._run("browser", [ADDRESS, self.provider.host, self.provider.address], list(steps))
        )
        return results

    def _run(self, module: str, arguments: Sequence[str], stdin: Any) -> str:
        stated = [f"{name}={value}" for name, value in programs.OWN.items()]
        command = ["env", *stated, sys.executable, "-m", f"tests.e2e.node.{module}", *arguments]
        return self.real_node.world.run(command, json.dumps(stdin))

    def login(self, at: str, person: str) -> dict[str, Any]:
        """Return the cookies of a person who has logged in at a host, by host. Not everybody who logs in is admitted."""
        if (at, person) not in self.jars:
            answer = self.visit(f"https://{at}/", person)
            assert answer["status"] in (200, 403), answer
            self.jars[at, person] = answer["jar"]
        return {name: dict(cookies) for name, cookies in self.jars[at, person].items()}

    def log(self) -> list[dict[str, Any]]:
        """Return the entries of the access log."""
        return gateway.access_log(self.real_node.world)


def declare(root: Path) -> None:
    """Write the cloud: the sample with a managed Gateway, a Public instance, and tenants with declared addresses."""
    copy_sample(root)
    cluster = "clusters/eu-1/cluster.yaml"
    edit(root, cluster, "    name: edge\n    namespace: edge\n    sectionName: https\n", MANAGED)
    edit(
        root, cluster, "      name: oidc\n      namespace: edge\n", f"      name: oidc\n      namespace: {NAMESPACE}\n"
    )
    edit(root, "tenants/studio-kite/storages/outputs.yaml", "  accessor:\n", "  accessor:\n    mode: ReadWrite\n")
    (root / "tenants/ml-orbit/instances/demo.yaml").write_text(PUBLIC_INSTANCE, encoding="utf-8")
    for tenant, network in (("film-house", "198.51.100.0/24"), ("uni-lab", "127.0.0.0/8")):
        file = root / f"tenants/{tenant}/tenant.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text.rstrip()}\n  allowedCIDRs:\n    - {network}\n", encoding="utf-8")


RESOURCES: Mapping[str, int] = {  # of the tenants that take part, and the number of pods of each that run
    "solo-ada/compute/webui": 1,
    "solo-ada/storage/models": 1,
    "studio-kite/compute/webui": 1,
    "studio-kite/storage/outputs": 1,
    "ml-orbit/compute/demo": 1,
    "uni-lab/compute/group-a": 3,
    "film-house/compute/preview": 0,
}
HTTP_KINDS = ("BackendTrafficPolicy", "HTTPRoute", "SecurityPolicy", "Service")


@contextmanager
def open_doors(
    real_node: Node, tree: Path, provider: gateway.Provider, resources: Mapping[str, int] = RESOURCES
) -> Iterator[Doors]:
    """Give the rendered routes of some tenants with pods behind them, once the gateway serves them.

    Everything that Allotment rendered of the Gateway and the routes is applied as it is.
    """
    client, world = real_node.cluster.client, real_node.world
    node.take_in(world, {IMAGE: images.python(internet.authority(world))})
    shared = ("namespaces", "priority-classes", "managed-gateway", "gateway")
    client.apply(*rendered.objects(tree, *(f"platform/cluster/{name}.rendered.yaml" for name in shared)))
    for tenant in sorted({path.partition("/")[0] for path in resources}):
        client.apply(*rendered.objects(tree, f"control/namespaces/{tenant[0]}/{tenant}.rendered.yaml"))
    wanted: list[pods.Pod] = []
    for path, count in resources.items():
        manifests = [o for o in rendered.objects(tree, f"tenants/{path}.rendered.yaml") if o["kind"] in HTTP_KINDS]
        assert {"HTTPRoute", "SecurityPolicy", "Service"} <= {manifest["kind"] for manifest in manifests}, path
        client.apply(*manifests)
        (service,) = (manifest for manifest in manifests if manifest["kind"] == "Service")
        wanted += [_echo(service, number) for number in range(count)]
    try:
        with pods.running(real_node, *wanted):
            try:
                gateway.start(real_node.cluster, world, DOMAIN, NAMESPACE, provider)
                doors = Doors(real_node, {}, provider)
                for at in (host("webui", tenant) for tenant in ("solo-ada", "studio-kite")):
                    eventually(partial(_is_served, doors, at), f"{at} to be served")
                yield doors
            finally:
                gateway.stop(real_node.cluster, world)
    finally:
        rendered.clear(client)


def _is_served(doors: Doors, at: str) -> bool:
    status: int = doors.visit(f"https://{at}/", follow=False)["status"]
    return status in (200, 302)


def _echo(service: Object, number: int) -> pods.Pod:
    """Return a pod behind a rendered Service that answers with the request that it got."""
    ((name, port),) = ((served["targetPort"], served["port"]) for served in service["spec"]["ports"])
    metadata, labels = service["metadata"], service["spec"]["selector"]
    priority = names.INSTANCE_PRIORITY if names.INSTANCE in labels else names.STORAGE_PRIORITY
    pod = pods.pod(metadata["namespace"], f"{metadata['name']}-{number}", IMAGE, labels, priorityClassName=priority)
    pod["spec"]["containers"][0] |= {
        "command": ["python3", "-c", ECHO, str(port)],
        "ports": [{"name": name, "containerPort": port}],
    }
    return pod
