"""Each client reaches its server through the proxy of the environment, and trusts the authorities that the environment names."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import pytest
from tests.adapters.registry.server import Answer, Registry, serving_https
from tests.controlplane.secure import AUTHORITY

from allotment.adapters.argocd.login import ArgoCDLogin
from allotment.adapters.argocd.server import ArgoCDServer
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.forge import gitea, github, gitlab
from allotment.adapters.forge.forge import ForgeError, Token
from allotment.adapters.forge.session import ForgeSession, translate_request_errors
from allotment.adapters.http_connections import (
    CA_VARIABLES,
    Proxy,
    build_websocket_options,
    find_ca_bundle,
    parse_proxy,
)
from allotment.adapters.http_responses import ApiUnavailable
from allotment.adapters.registry.connection import RegistryUnreachable, send_request
from allotment.problems import OperationRefused, hide_secrets

HOST = "server.example"
PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
PASSWORD = "p@ss/w0rd-of-the-proxy"  # of a server of the test
LOGIN = f"ada:{quote(PASSWORD, safe='')}@"
BASIC = f"Basic {base64.b64encode(f'ada:{PASSWORD}'.encode()).decode()}"
Client = Callable[[Path], object]


def ask_registry(folder: Path) -> object:
    return send_request("GET", f"https://{HOST}/v2/", {}).status


def ask_forge(folder: Path) -> object:
    with translate_request_errors(f"https://{HOST}"):
        return ForgeSession(Token("a" * 20)).get(f"https://{HOST}/api").status_code


def ask_argocd(folder: Path) -> object:
    return ArgoCDServer(ArgoCDLogin(f"https://{HOST}", "t", verifies=True)).read("version", {}) == {}


def kubeconfig(folder: Path, cluster: str = "") -> Path:
    file = folder / "kubeconfig"
    file.write_text(
        f"current-context: a\nclusters: [{{name: a, cluster: {{server: 'https://{HOST}'{cluster}}}}}]\n"
        "users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    return file


def ask_cluster(folder: Path) -> object:
    return ApiServer.from_kubeconfig(kubeconfig(folder), None).read("/version", {}, "application/json", 5)


def open_shell(folder: Path) -> object:
    """Open a WebSocket. The server of the test answers 200 instead of 101, after TLS through the proxy."""
    with suppress(Exception):
        ApiServer.from_kubeconfig(kubeconfig(folder), None).connect("/exec", (), "v4.channel.k8s.io")
    return True


CLIENTS = [ask_registry, ask_forge, ask_argocd, ask_cluster, open_shell]
FAILURES = (RegistryUnreachable, ForgeError, ApiUnavailable)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Return a proxy that plays the host, which nothing in the environment names yet."""
    for name in (*PROXY_VARIABLES, *CA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    with serving_https(tmp_path, [HOST], lambda _: Answer(body=b"{}")) as (server, _):
        yield server


@pytest.mark.parametrize("login", ["", LOGIN])
@pytest.mark.parametrize("scheme", ["http://", ""])
@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("ask", CLIENTS)
def test_a_client_logs_in_at_the_proxy(
    ask: Client,
    variable: str,
    scheme: str,
    login: str,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, f"{scheme}{login}{registry.host}")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / AUTHORITY))
    assert ask(tmp_path)
    (connect, *_), (request, *_) = registry.connects, registry.requests
    assert connect.path == f"{HOST}:443"
    assert {name.title(): value for name, value in connect.headers.items()}.get("Proxy-Authorization") == (
        BASIC if login else None
    )
    assert request.headers["Host"] == HOST
    assert "Proxy-Authorization" not in request.headers


@pytest.mark.parametrize("variable", CA_VARIABLES)
@pytest.mark.parametrize("ask", CLIENTS)
def test_each_variable_names_the_authorities_of_each_client(
    ask: Client, variable: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://{registry.host}")
    with suppress(*FAILURES):
        ask(tmp_path)
    assert (len(registry.connects), registry.requests) == (1, [])
    monkeypatch.setenv(variable, str(tmp_path / AUTHORITY))
    assert ask(tmp_path)
    assert len(registry.requests) == 1


@pytest.mark.parametrize(
    "content", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"]
)
@pytest.mark.parametrize("variable", CA_VARIABLES)
@pytest.mark.parametrize("ask", CLIENTS[:-1])
def test_authorities_that_cannot_be_read_are_named_with_their_variable(
    ask: Client,
    variable: str,
    content: bytes | None,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "bundle"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(
        OperationRefused, match=f"{variable} names the certificate authorities '.*/bundle', which can't be read"
    ):
        ask(tmp_path)
    assert registry.connects == []


@pytest.mark.parametrize("ask", CLIENTS[:-1])
def test_a_log_of_keys_that_cannot_be_written_is_named(
    ask: Client, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "absent" / "keys"))
    with pytest.raises(
        OperationRefused, match=r"SSLKEYLOGFILE names the file '.*/absent/keys', which can't be written: No such file"
    ):
        ask(tmp_path)


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        (
            "",
            "its certificate isn't trusted, or it speaks no TLS: name the file of its certificate authority in SSL_CERT_FILE",
        ),
        (f"{LOGIN}127.0.0.1:1", "the proxy of HTTPS_PROXY, ALL_PROXY or the kubeconfig doesn't lead there"),
    ],
)
@pytest.mark.parametrize("forge", [gitea, github, gitlab], ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_connection_to_a_forge_that_fails_is_explained(
    forge: ModuleType, proxy: str, reason: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://{proxy or registry.host}")
    with pytest.raises(ForgeError) as raised:
        forge.connect(f"https://{HOST}", "team/cloud", Token("a" * 20), None).identity()
    assert str(raised.value) == (
        f"the forge at https://{HOST}:443 doesn't answer: {reason}: try again, or correct spec.git.url of the platform, or"
        " --forge-api"
    )


def test_each_variable_of_authorities_is_checked(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads SSL_CERT_FILE also if another variable names the authorities, and does not report its faults."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / AUTHORITY))
    assert find_ca_bundle() == str(tmp_path / AUTHORITY)
    monkeypatch.setenv("SSL_CERT_FILE", "/typo.pem")
    with pytest.raises(OperationRefused, match=r"SSL_CERT_FILE names the certificate authorities '/typo\.pem'"):
        find_ca_bundle()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_folder_of_authorities_is_no_bundle_and_neither_is_a_pipe(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each client can read a folder, and a pipe without a writer would block."""
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert find_ca_bundle() is None
    make(tmp_path / "odd")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "odd"))
    with pytest.raises(OperationRefused, match="which can't be read: it is no regular file"):
        find_ca_bundle()


@pytest.mark.parametrize("ask", CLIENTS[:-1])
def test_a_host_that_no_proxy_excludes_is_asked_directly(
    ask: Client, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://{registry.host}")
    monkeypatch.setenv("no_proxy", ".example")
    with pytest.raises(FAILURES):
        ask(tmp_path)
    assert registry.connects == []


@pytest.mark.parametrize("login", ["", LOGIN])
def test_the_proxy_of_the_kubeconfig_precedes_that_of_the_environment(
    login: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / AUTHORITY))
    file = kubeconfig(tmp_path, f", proxy-url: 'http://{login}{registry.host}'")
    assert ApiServer.from_kubeconfig(file, None).read("/version", {}, "application/json", 5) == b"{}"
    assert registry.connects[0].headers.get(
        "Proxy-Authorization", registry.connects[0].headers.get("proxy-authorization")
    ) == (BASIC if login else None)


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("proxy.acme.dev:3128", Proxy("http://proxy.acme.dev:3128")),
        ("http://proxy.acme.dev", Proxy("http://proxy.acme.dev")),
        ("https://ada:a%3Ab@proxy.acme.dev:8443", Proxy("https://proxy.acme.dev:8443", ("ada", "a:b"))),
        ("ada@proxy:1", Proxy("http://proxy:1", ("ada", ""))),
        ("http://[::1]:3128/", Proxy("http://[::1]:3128")),
        ("socks5h://proxy:1080", Proxy("socks5h://proxy:1080")),
    ],
)
def test_a_proxy_is_a_url_or_a_host_with_a_port(text: str, proxy: Proxy) -> None:
    assert parse_proxy(text, "HTTPS_PROXY") == proxy


@pytest.mark.parametrize(
    "text", ["", "http://", "ftp://proxy:1", "http://proxy:99999", "http://ada:secret-word@:1", "//", "http://[::1"]
)
def test_a_text_that_is_no_proxy_is_named_by_its_variable_without_the_password(text: str) -> None:
    with pytest.raises(OperationRefused, match="HTTPS_PROXY names no proxy that can be used: write") as refused:
        parse_proxy(text, "HTTPS_PROXY")
    assert "secret-word" not in str(refused.value)


def test_a_password_of_a_proxy_is_hidden() -> None:
    parse_proxy(f"http://{LOGIN}proxy:1", "HTTPS_PROXY")
    assert hide_secrets(f"a {PASSWORD} b {quote(PASSWORD, safe='')}") == "a *** b ***"


@pytest.mark.parametrize("ask", CLIENTS[:-1])
def test_a_socks_proxy_is_named(
    ask: Client, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package for SOCKS may be absent, and nothing listens there."""
    monkeypatch.setenv("https_proxy", "socks5h://127.0.0.1:1")
    with pytest.raises((OperationRefused, *FAILURES), match=r"SOCKS|socks|no way leads there|doesn't answer"):
        ask(tmp_path)


def test_a_websocket_uses_an_http_proxy_alone() -> None:
    assert build_websocket_options(None) == {}
    assert build_websocket_options(Proxy("http://proxy:3128", ("ada", "x"))) == {
        "http_proxy_host": "proxy",
        "http_proxy_port": 3128,
        "http_proxy_auth": ("ada", "x"),
    }
    with pytest.raises(OperationRefused, match="speaks SOCKS, which a WebSocket can't use: name an HTTP proxy"):
        build_websocket_options(Proxy("socks5://proxy:1"))
