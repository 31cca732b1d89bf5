"""A visitor of instances: follows redirects as a browser does, and keeps cookies by host. Runs in a node's world.

`python -m tests.e2e.node.visitor GATEWAY` reads a list of visits as JSON from standard input and prints the answers as JSON.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
from typing import Any
from urllib.parse import urlsplit

from tests.controlplane import internet, issuer

MOST = 10  # redirects
Jar = dict[str, dict[str, str]]  # values by host and name


def _connect(address: str, scheme: str, host: str) -> socket.socket:
    connection = socket.create_connection((address, 443 if scheme == "https" else 80), 30)
    if scheme != "https":
        return connection
    return ssl._create_unverified_context().wrap_socket(connection, server_hostname=host)


def visit(
    gateway: str,
    jar: Jar,
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    follow: bool = True,
    zeros: int = 0,
) -> dict[str, Any]:
    """Return the status, headers, body and URL of the last answer. `jar` has the cookies by host, and gets the new ones.

    The body of the request is as many bytes of zero as `zeros` says.
    """
    for _ in range(MOST):
        place = urlsplit(url)
        host = str(place.hostname)
        address = internet.ISSUER if host == issuer.HOST else gateway
        with _connect(address, place.scheme, host) as connection:
            client = http.client.HTTPConnection(host)
            client.sock = connection
            cookies = "; ".join(f"{name}={value}" for name, value in jar.get(host, {}).items())
            target = f"{place.path or '/'}{'?' if place.query else ''}{place.query}"
            client.request(
                method,
                target,
                bytes(zeros) or None,
                headers={**({"Cookie": cookies} if cookies else {}), **(headers or {})},
            )
            answer = client.getresponse()
            body = answer.read().decode() if answer.status != http.HTTPStatus.SWITCHING_PROTOCOLS else ""
        for cookie in answer.headers.get_all("Set-Cookie", ()):
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0]
            jar.setdefault(host, {}).pop(name, None)
            if value != "deleted":
                jar[host][name] = value
        if not follow or answer.status not in (301, 302, 303, 307, 308):
            return {"status": answer.status, "headers": dict(answer.getheaders()), "body": body, "url": url, "jar": jar}
        url = answer.headers["Location"]
    raise ValueError(f"more than {MOST} redirects, the last to {url}")


def try_visit(gateway: str, jar: Jar, url: str, **more: Any) -> dict[str, Any]:
    """Return the answer of a visit; its status is 0 where nothing listens, or where the connection ends."""
    try:
        return visit(gateway, jar, url, **more)
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "headers": {}, "body": str(error), "url": url, "jar": jar}


if __name__ == "__main__":
    print(json.dumps([try_visit(sys.argv[1], **request) for request in json.load(sys.stdin)]))
