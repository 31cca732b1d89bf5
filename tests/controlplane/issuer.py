"""An OpenID Connect issuer for tests: it logs in whoever the test names, without a page, and signs tokens of any content.

It serves the code flow with PKCE for the client of the Gateway, and for the public client of `allot login`. A test names the person
in the cookie `person` of the issuer's host.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

HOST = "id.northlight.example"  # of the sample's clusters
URL = f"https://{HOST}"
CLIENT = "allotment"
PUBLIC_CLIENT = "allotment-cli"  # has no secret, and must use PKCE
KEY, PEOPLE = "issuer-key.pem", "people.json"
DOWN = "issuer-down"  # while a file of this name is there, nobody gets an answer
KEY_ID = "test-key"
LIFETIME = 3600  # seconds of a token


def encode(data: bytes) -> str:
    """Return data in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def prepare(folder: Path) -> None:
    """Write a key that signs tokens into a folder, and that nobody is known; what is there already stays."""
    if (folder / KEY).exists():
        return
    pem = create_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / KEY).write_bytes(pem)
    introduce(folder, {})


def introduce(folder: Path, people: dict[str, dict[str, Any]]) -> None:
    """Let the issuer of a folder know people: the claims of each by the subject."""
    (folder / PEOPLE).write_text(json.dumps(people), encoding="utf-8")


def create_key() -> rsa.RSAPrivateKey:
    """Return a new key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def read_key(folder: Path) -> rsa.RSAPrivateKey:
    """Return the key of a folder."""
    key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def sign(key: rsa.RSAPrivateKey, claims: dict[str, Any]) -> str:
    """Return a JSON Web Token with these claims."""
    header = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
    signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{encode(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Issuer(BaseHTTPRequestHandler):
    """Answers discovery, authorization, token and key requests."""

    protocol_version = "HTTP/1.1"
    folder: Path
    key: rsa.RSAPrivateKey
    grants: dict[str, dict[str, str]]  # by code and by refresh token, each for one use
    url = URL

    def log_message(self, format: str, *args: object) -> None:  # the name in the standard library
        """Log nothing: what matters is in the answers."""

    def do_GET(self) -> None:
        """Answer a request of a browser or of the gateway."""
        if (self.folder / DOWN).exists():
            self.close_connection = True
            return
        place = urlsplit(self.path)
        if place.path == "/.well-known/openid-configuration":
            self._answer(self._discovery())
        elif place.path in ("/keys", "/.well-known/jwks.json"):
            numbers = self.key.public_key().public_numbers()
            encoded = {
                name: encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))
                for name, number in (("n", numbers.n), ("e", numbers.e))
            }
            self._answer({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, **encoded}]})
        elif place.path == "/authorize":
            self._authorize({name: values[0] for name, values in parse_qs(place.query).items()})
        else:
            self._answer({"error": "not_found"}, 404)

    def do_POST(self) -> None:
        """Answer the gateway's request for tokens."""
        if (self.folder / DOWN).exists():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        grant = self.grants.pop(form.get("refresh_token") or form.get("code", ""), None)
        is_public = grant is not None and grant.get("client_id") == PUBLIC_CLIENT
        if grant is None or (is_public and form.get("client_id") != PUBLIC_CLIENT):
            self._answer({"error": "invalid_grant", "error_description": "expired\x1b[2J"}, 400)
            return
        if grant.get("redirect_uri") != form.get("redirect_uri") and is_public:
            self._answer({"error": "invalid_grant"}, 400)
            return
        if challenge := grant.get("code_challenge"):
            verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if encode(verifier) != challenge:
                self._answer({"error": "invalid_grant"}, 400)
                return
        people = json.loads((self.folder / PEOPLE).read_text(encoding="utf-8"))
        now = int(time.time())
        base = {"iss": self.url, "sub": grant["person"], "aud": grant["client_id"], "iat": now, "exp": now + LIFETIME}
        nonce = {"nonce": grant["nonce"]} if "nonce" in grant else {}
        claims = {**base, **nonce, **people[grant["person"]]}
        refresh_token = secrets.token_urlsafe(16)
        self.grants[refresh_token] = {"person": grant["person"], "client_id": grant["client_id"]}
        self._answer(
            {
                "access_token": sign(self.key, {**base, "kind": "access"}),
                "id_token": sign(self.key, claims),
                "refresh_token": refresh_token,
                "token_type": "Bearer",
                "expires_in": LIFETIME,
            }
        )

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _authorize(self, query: dict[str, str]) -> None:
        person = SimpleCookie(self.headers.get("Cookie", "")).get("person")
        client, place = query.get("client_id"), urlsplit(query.get("redirect_uri", ""))
        is_known = client == CLIENT or (
            client == PUBLIC_CLIENT
            and query.get("code_challenge_method") == "S256"
            and (place.scheme, place.hostname, place.path) == ("http", "localhost", "/callback")
        )
        if person is None or not is_known:
            self._answer({"error": "login_required"}, 401)
            return
        code = secrets.token_urlsafe(16)
        self.grants[code] = {**query, "person": person.value}
        back = urlencode({"code": code, "state": query.get("state", "")})
        self.send_response(302)
        self.send_header("Location", f"{query['redirect_uri']}?{back}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, answer: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(folder: Path, port: int) -> None:
    """Serve the issuer of a folder on a port of the loopback, behind HTTPS, until this process ends."""
    Issuer.folder, Issuer.key, Issuer.grants = folder, read_key(folder), {}
    ThreadingHTTPServer(("127.0.0.1", port), Issuer).serve_forever()
