"""A visitor of instances: follows redirects as a browser does, and keeps cookies by host. Runs in a node's world.

`python -m tests.e2e.node.visitor GATEWAY` reads a visit as JSON from standard input and prints the answer as JSON.
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


def visit(
    gateway: str, jar: Jar, url: str, method: str = "GET", headers: dict[str, str] | None = None, follow: bool = True
) -> dict[str, Any]:
    """Return the status, headers, body and URL of the last answer. `jar` has the cookies by host, and gets the new ones."""
    for _ in range(MOST):
        place = urlsplit(url)
        host = str(place.hostname)
        address = internet.ISSUER if host == issuer.HOST else gateway
        context = ssl._create_unverified_context()
        with context.wrap_socket(socket.create_connection((address, 443), 30), server_hostname=host) as connection:
            client = http.client.HTTPSConnection(host)
            client.sock = connection
            cookies = "; ".join(f"{name}={value}" for name, value in jar.get(host, {}).items())
            target = f"{place.path or '/'}{'?' if place.query else ''}{place.query}"
            client.request(method, target, headers={**({"Cookie": cookies} if cookies else {}), **(headers or {})})
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


if __name__ == "__main__":
    try:
        last_answer = visit(sys.argv[1], **json.load(sys.stdin))
    except OSError as error:  # nothing listens, or TLS ends
        last_answer = {"status": 0, "headers": {}, "body": str(error), "url": "", "jar": {}}
    print(json.dumps(last_answer))
