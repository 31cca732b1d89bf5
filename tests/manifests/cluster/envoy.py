"""A real Envoy that checks ID tokens, copies their claims to headers and injects a credential, as Envoy Gateway configures it."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.support.waiting import Final, eventually

_TYPES = "type.googleapis.com/envoy.extensions.filters"
ISSUER, AUDIENCE, COOKIE = "https://id.gpu.test", "allotment", "id-token"
CREDENTIAL = "correct-horse-battery"  # which the Secret of the injection has


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(key: rsa.RSAPrivateKey, **claims: Any) -> str:
    """Return an ID token with claims."""
    body = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600, **claims}
    parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, body)]
    signed = ".".join(parts)
    return f"{signed}.{_encode(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Backend(http.server.BaseHTTPRequestHandler):
    """Answers with the headers of the request."""

    def do_GET(self) -> None:
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Write no access log."""


class Envoy:
    """A running Envoy. `claim_headers` maps each header to the claim that it gets. `injection` is that of an HTTPRouteFilter."""

    def __init__(self, folder: Path, claim_headers: Mapping[str, str], injection: Mapping[str, Any]) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Backend)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._config = folder / "envoy.json"
        self._log = folder / "envoy.log"
        self._config.write_text(json.dumps(self._configure(claim_headers, injection)), encoding="utf-8")

    def __enter__(self) -> Envoy:
        threading.Thread(target=self._backend.serve_forever, daemon=True).start()
        program = str(files("envoy") / "_bin" / "envoy")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "--config-path", str(self._config), "--use-dynamic-base-id", "--log-level", "warning"],
                stdout=log,
                stderr=log,
            )

        def is_open() -> bool:
            if self._process.poll() is not None:
                raise Final(self._log.read_text())
            socket.create_connection(("127.0.0.1", self._port), 1).close()
            return True

        eventually(is_open, f"Envoy of {self._log} to listen", pause=0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._backend.shutdown()
        self._backend.server_close()

    def get(self, id_token: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that the backend received; nothing if Envoy refused the request."""
        cookie = {"Cookie": f"{COOKIE}={id_token}"} if id_token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/", headers={**headers, **cookie})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                received: dict[str, str] = json.load(answer)
                return received
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == 401
            return {}

    def _configure(self, claim_headers: Mapping[str, str], injection: Mapping[str, Any]) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "kid": "1", "e": _encode(numbers.e.to_bytes(3, "big"))}
        key["n"] = _encode(numbers.n.to_bytes(256, "big"))
        provider = {
            "issuer": ISSUER,
            "audiences": [AUDIENCE],
            "forward": True,
            "from_cookies": [COOKIE],
            "claim_to_headers": [{"header_name": name, "claim_name": claim} for name, claim in claim_headers.items()],
            "local_jwks": {"inline_string": json.dumps({"keys": [key]})},
        }
        rules = [{"match": {"prefix": "/"}, "requires": {"provider_name": "login"}}]
        jwt = {
            "@type": f"{_TYPES}.http.jwt_authn.v3.JwtAuthentication",
            "providers": {"login": provider},
            "rules": rules,
        }
        routes = [{"match": {"prefix": "/"}, "route": {"cluster": "backend"}}]
        manager = {
            "@type": f"{_TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "portal",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
            "http_filters": [
                {"name": "jwt", "typed_config": jwt},
                {"name": "credential", "typed_config": _build_injector(injection)},
                {"name": "router", "typed_config": {"@type": f"{_TYPES}.http.router.v3.Router"}},
            ],
        }
        return {
            "static_resources": {
                "secrets": [{"name": CREDENTIAL, "generic_secret": {"secret": {"inline_string": CREDENTIAL}}}],
                "listeners": [
                    {
                        "address": _address(self._port),
                        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                    }
                ],
                "clusters": [
                    {
                        "name": "backend",
                        "type": "STATIC",
                        "load_assignment": {
                            "cluster_name": "backend",
                            "endpoints": [
                                {"lb_endpoints": [{"endpoint": {"address": _address(self._backend.server_port)}}]}
                            ],
                        },
                    }
                ],
            }
        }


def _build_injector(injection: Mapping[str, Any]) -> dict[str, Any]:
    generic = {
        "@type": "type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic",
        "credential": {"name": CREDENTIAL},
        "header": injection["header"],
    }
    return {
        "@type": f"{_TYPES}.http.credential_injector.v3.CredentialInjector",
        "overwrite": injection["overwrite"],
        "credential": {"name": "envoy.http.injected_credentials.generic", "typed_config": generic},
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
