"""The client of registries, over real sockets: digests, logins, redirects, faults and hostile answers."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.adapters.registry.server import INDEX, MANIFEST, Answer, Request, digest_of, serving, serving_https
from tests.controlplane import registry as image_registry
from tests.controlplane.images import Image

from allotment.adapters.registry import client
from allotment.adapters.registry.client import resolve_digest, resolve_image
from allotment.adapters.registry.connection import RegistryResponse
from allotment.declared.image_reference import parse_image_reference
from allotment.problems import OperationRefused

LOGIN = "robot:registry-password"
BASIC = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
HELLO = Image({"bin/hello": b"#!/bin/sh\necho hello\n"}, ["/bin/hello"])


@pytest.fixture(autouse=True)
def docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the Docker configuration, without a login."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


def log_in(folder: Path, host: str, login: str = LOGIN) -> None:
    entry = {"auth": base64.b64encode(login.encode()).decode()}
    (folder / "config.json").write_text(json.dumps({"auths": {host: entry}}))


def resolve(host: str, name: str = "team/web:1") -> str:
    return resolve_digest(parse_image_reference(f"{host}/{name}"))


def refusal(host: str, name: str = "team/web:1") -> str:
    with pytest.raises(OperationRefused) as raised:
        resolve(host, name)
    return str(raised.value)


def manifest(body: bytes = INDEX, **headers: str) -> Answer:
    kind = "application/vnd.oci.image.index.v1+json"
    return Answer(200, body, {"Content-Type": kind, **{name.replace("_", "-"): text for name, text in headers.items()}})


@pytest.fixture
def registry_host(tmp_path: Path) -> Iterator[str]:
    """Return where the registry of the image pull tests answers, with a public and a private image."""
    folder = tmp_path / "registry"
    image_registry.put(folder, {"team/web:1": HELLO, "private/web:1": HELLO})
    server = image_registry.server(folder, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_registry_gives_the_digest_of_a_tag(registry_host: str, tmp_path: Path) -> None:
    named = (tmp_path / "registry/manifests/team/web/1").read_text()
    assert resolve(registry_host) == named
    assert resolve_image(f"{registry_host}/team/web:1") == f"{registry_host}/team/web:1@{named}"
    assert refusal(registry_host, "team/web:2") == (
        f"registry {registry_host} has no image {registry_host}/team/web:2: check the name and the tag (MANIFEST_UNKNOWN)"
    )


def test_a_private_image_needs_the_login_of_the_docker_configuration(registry_host: str, docker_config: Path) -> None:
    assert refusal(registry_host, "private/web:1") == (
        f"registry {registry_host} permits no pull of private/web without a login: check the name, or log in: docker login"
        f" {registry_host} (a credential helper is not asked; only `auths` in config.json)"
    )
    log_in(docker_config, registry_host, "robot:wrong")
    assert "with the login in the Docker configuration" in refusal(registry_host, "private/web:1")
    log_in(docker_config, registry_host)
    assert resolve(registry_host, "private/web:1").startswith("sha256:")


def test_the_digest_of_the_head_is_checked_against_the_manifest() -> None:
    with serving(lambda _: manifest(Docker_Content_Digest=digest_of(INDEX))) as registry:
        assert resolve(registry.host) == digest_of(INDEX)
    assert [(request.method, request.path) for request in registry.requests] == [
        ("HEAD", "/v2/team/web/manifests/1"),
        ("GET", f"/v2/team/web/manifests/{digest_of(INDEX)}"),
    ]
    accepted = registry.requests[0].headers["Accept"]
    for kind in ("oci.image.index", "oci.image.manifest", "distribution.manifest.v2", "distribution.manifest.list.v2"):
        assert f"application/vnd.{'docker.' if 'distribution' in kind else ''}{kind}" in accepted
    with serving(lambda _: manifest(Docker_Content_Digest=f"sha256:{64 * '0'}")) as registry:
        assert refusal(registry.host).endswith(f"has {digest_of(INDEX)}: don't use this registry")


@pytest.mark.parametrize("header", [{}, {"Docker_Content_Digest": "md5:1"}], ids=["missing", "malformed"])
def test_without_a_digest_in_the_head_the_manifest_is_hashed(header: dict[str, str]) -> None:
    def answer(request: Request) -> Answer:
        return manifest(MANIFEST, **header) if request.method == "HEAD" else manifest(MANIFEST)

    with serving(answer) as registry:
        assert resolve(registry.host) == digest_of(MANIFEST)
    assert [request.path for request in registry.requests] == 2 * ["/v2/team/web/manifests/1"]


def token_registry(
    seen: list[Request], realm: str = "", body: bytes = b'{"token": "t0"}'
) -> Callable[[Request], Answer]:
    """Return the answers of a registry that wants a token from its own token server, or from another."""

    def answer(request: Request) -> Answer:
        seen.append(request)
        if request.path.startswith("/token"):
            return Answer(200, body)
        if request.headers.get("Authorization") == "Bearer t0":
            return manifest()
        named = realm or f"http://{request.headers['Host']}/token"
        challenge = f'Bearer realm="{named}",service="registry",scope="repository:all:pull,push"'
        return Answer(401, b"", {"WWW-Authenticate": challenge})

    return answer


def test_a_token_is_for_pulls_from_this_repository_alone(docker_config: Path) -> None:
    seen: list[Request] = []
    with serving(token_registry(seen)) as registry:
        log_in(docker_config, f"https://{registry.host}/v2/")
        assert resolve(registry.host) == digest_of(INDEX)
    (asked,) = [request for request in seen if request.path.startswith("/token")]
    assert asked.path == "/token?service=registry&scope=repository%3Ateam%2Fweb%3Apull"
    assert asked.headers["Authorization"] == BASIC
    assert [request.headers.get("Authorization") for request in seen if "/v2/" in request.path] == [
        None,
        "Bearer t0",
        "Bearer t0",
    ]


def test_a_login_goes_to_no_token_server_without_https(docker_config: Path) -> None:
    with (
        serving(lambda _: Answer(200, b'{"token": "t0"}')) as other,
        serving(token_registry([], f"http://{other.host}/token")) as registry,
    ):
        log_in(docker_config, registry.host)
        assert "which is not an https:// address" in refusal(registry.host)
    assert other.requests == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token": 1}', b'{"token": "a\\nb"}', b"[" * 100_000, b'{"token": "\xff"}']
)
def test_a_token_server_without_a_token(body: bytes) -> None:
    with serving(token_registry([], body=body)) as registry:
        assert refusal(registry.host) == (
            f"the token server of registry {registry.host} answers 200 without a token: try again later"
        )


def test_a_token_that_the_registry_repeats_is_not_shown() -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return Answer(200, b'{"token": "REGISTRYTOKEN0123456789"}')
        if "Authorization" not in request.headers:
            realm = f'Bearer realm="http://{request.headers["Host"]}/token"'
            return Answer(401, b"", {"WWW-Authenticate": realm})
        errors = {"errors": [{"code": "UNKNOWN", "message": f"bad header {request.headers['Authorization']}"}]}
        return Answer(500, b"" if request.method == "HEAD" else json.dumps(errors).encode())

    with serving(answer) as registry:
        assert "(UNKNOWN: bad header Bearer ***)" in refusal(registry.host)


def test_a_login_stays_at_its_origin(docker_config: Path) -> None:
    with serving(lambda _: manifest()) as other:

        def answer(request: Request) -> Answer:
            if request.headers.get("Authorization") != BASIC:
                return Answer(401, b"", {"WWW-Authenticate": "Basic realm=x"})
            if request.path.endswith("/moved"):
                return manifest()
            to = "/v2/moved" if "web" in request.path else f"http://{other.host}/elsewhere"
            return Answer(307, b"", {"Location": to})

        with serving(answer) as registry:
            log_in(docker_config, registry.host)
            assert resolve(registry.host) == digest_of(INDEX)
            assert "which is not an https:// address" in refusal(registry.host, "team/api:1")
    assert other.requests == []


def test_no_other_origin_can_ask_for_the_login(docker_config: Path) -> None:
    def ask(request: Request) -> Answer:
        realm = f'Bearer realm="http://{request.headers["Host"]}/token"'
        return Answer(401, b"", {"WWW-Authenticate": realm})

    with serving(ask) as registry:
        log_in(docker_config, registry.host)
        challenge = RegistryResponse(
            401, {"WWW-Authenticate": f'Bearer realm="http://{registry.host}/token"'}, b"", is_foreign=True
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "send_request", lambda *_: challenge)
            assert "permits no pull" in refusal(registry.host)
    assert registry.requests == []


def test_redirects_end() -> None:
    with serving(lambda request: Answer(302, b"", {"Location": request.path})) as registry:
        assert refusal(registry.host).endswith("redirects more than 5 times: check the name of the registry")


ERROR = json.dumps({"errors": [{"code": "DENIED\x1b[31m", "message": "\x1b[2J" + 5000 * "x"}]}).encode()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(404, b"<html>"), "is not a registry of images, because it doesn't know the OCI distribution API"),
        (Answer(200, b"<html>"), "answers with something else than an image"),
        (Answer(200, b"[" * 1_000_000), "answers with something else than an image"),
        (Answer(200, b'{"schemaVersion": 1, "layers": []}'), "answers with something else than an image"),
        (Answer(404, ERROR), r"check the name and the tag (DENIED\x1b[31m)"),
        (Answer(403, ERROR), "permits no pull of team/web without a login"),
        (Answer(401, b""), "permits no pull of team/web without a login"),
        (Answer(401, b"", {"WWW-Authenticate": "Bearer " + 60_000 * "x"}), "names the token server ''"),
        (Answer(429, b""), "limits the requests: try again later, or log in: docker login"),
        (Answer(500, ERROR), r"answers 500 for 127.0.0.1:"),
        (Answer(200, (5 << 20) * b" "), "gives no answer: too much"),
        (Answer(200, b"", {"Content-Length": "nonsense", "Connection": "close"}), "something else than an image"),
        (Answer(302, b"", {"Location": "http://[::1"}), "which is not an https:// address"),
        (Answer(302, b"", {"Location": "file:///etc/passwd"}), "which is not an https:// address"),
        (Answer(302, b"", {"Location": "https://user:word@nowhere.example/"}), "which is not an https:// address"),
    ],
)
def test_a_fault_is_one_line(answer: Answer, message: str) -> None:
    with serving(lambda _: answer) as registry:
        text = refusal(registry.host)
    assert message in text
    assert len(text) < 700
    assert text.isprintable()


def test_a_small_answer_that_expands_too_much_is_refused() -> None:
    test_a_fault_is_one_line(
        Answer(200, gzip.compress(bytes(100 << 20)), {"Content-Encoding": "gzip"}), "gives no answer: too much"
    )


def test_a_registry_that_nobody_serves() -> None:
    with serving(lambda _: Answer()) as registry:
        host = registry.host
    assert refusal(host) == (
        f"registry {host} gives no answer: nothing listens there, or no way leads there. Check the name and the network,"
        " or write the image with its digest, as NAME@sha256:DIGEST"
    )


def test_a_registry_without_an_address() -> None:
    assert refusal("no-such-registry.invalid") == (
        "registry no-such-registry.invalid gives no answer: its name could not be resolved. Check the name and the network,"
        " or write the image with its digest, as NAME@sha256:DIGEST"
    )


def test_a_digest_that_is_written_needs_no_registry() -> None:
    image = f"registry.invalid/web:1@sha256:{64 * 'a'}"
    assert resolve_image(image) == image


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"auths": []}',
        '{"auths": {"127.0.0.1": 1}}',
        "[" * 100_000,
        '{"auths": {"HOST": {"auth": "%"}}}',
        '{"auths": {"HOST": {"username": "u\\ud800", "password": "p"}}}',
    ],
)
def test_an_unreadable_docker_configuration_is_one_without_logins(text: str, docker_config: Path) -> None:
    with serving(lambda _: manifest()) as registry:
        (docker_config / "config.json").write_text(text.replace("HOST", registry.host))
        assert resolve(registry.host) == digest_of(INDEX)


def test_docker_hub_has_names_of_its_own(tmp_path: Path, docker_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Request] = []
    answers = token_registry(seen, "https://auth.docker.io/token")
    with serving_https(tmp_path, ["registry-1.docker.io", "auth.docker.io"], answers) as (_, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        log_in(docker_config, "https://index.docker.io/v1/")
        assert resolve_image("python:3.13") == f"docker.io/library/python:3.13@{digest_of(INDEX)}"
    assert [
        (request.headers["Host"], request.path.partition("?")[0], "Authorization" in request.headers)
        for request in seen
    ] == [
        ("registry-1.docker.io", "/v2/library/python/manifests/3.13", False),
        ("auth.docker.io", "/token", True),
        ("registry-1.docker.io", "/v2/library/python/manifests/3.13", True),
        ("registry-1.docker.io", "/v2/library/python/manifests/3.13", True),
    ]


def test_a_certificate_of_nobody_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_https(tmp_path, ["registry.example"], lambda _: manifest()) as (registry, variables):
        monkeypatch.setenv("https_proxy", variables["https_proxy"])
        assert "its certificate isn't trusted, or it speaks no TLS" in refusal("registry.example")
    assert registry.requests == []
