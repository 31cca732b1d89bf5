"""`allot login` against an issuer over HTTPS, with a browser that logs in without a page; and the tokens that it stores."""

from __future__ import annotations

import base64
import json
import queue
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPSConnection
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
from tests.conftest import Allot, Result, edit
from tests.controlplane import issuer, secure
from tests.support.published import Place, git

from allotment.access.pods import tokens
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.oidc.token_store import LoginKey, StoredTokens, TokenStore
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.platform_settings import read_cluster

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
PEOPLE: dict[str, dict[str, Any]] = {
    "ada": {},
    "late": {"exp": 1_700_000_000},
    "replayed": {"nonce": "another"},
    "foreign": {"aud": "another-client"},
    "many": {"aud": ["another-client", issuer.PUBLIC_CLIENT]},
    "party": {"azp": "another-client"},
    "evil": {"iss": "https://evil.example"},
    "timeless": {"exp": "soon"},
    "eternal": {"exp": 10**400},
    "odd": {"nonce": "\ud800"},
    "brief": {"exp": int(time.time()) + 20},
}


class Provider(NamedTuple):
    """An issuer that this system trusts, and the folder of the person's configuration."""

    url: str
    context: ssl.SSLContext
    store: TokenStore
    handler: type[issuer.Issuer]
    repository: str

    @property
    def key(self) -> LoginKey:
        """The names of the login for the sample's cluster."""
        return LoginKey(self.repository, "eu-1", self.url, issuer.PUBLIC_CLIENT, "eu-1.gpu.northlight.example")

    def authorize(self, url: str, person: str) -> str:
        """Return where the issuer sends a person who opens the URL of a login."""
        place = urlsplit(url)
        with closing(HTTPSConnection("localhost", place.port, context=self.context, timeout=10)) as connection:
            headers = {"Cookie": f"person={person}", "Connection": "close"}
            connection.request("GET", f"{place.path}?{place.query}", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 302, answer.read()
            answer.read()
            return str(answer.headers["Location"])


class _LocalIssuer(issuer.Issuer):
    """The issuer in this process; `issuer.Issuer` stays as it is."""


@pytest.fixture
def sample(place: Place) -> Path:
    """Return a clone of the declarations: a login needs the merged ones."""
    return place.root


@pytest.fixture
def provider(tmp_path: Path, place: Place, sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    issuer.prepare(tmp_path)
    issuer.introduce(tmp_path, PEOPLE)
    secure.certify(tmp_path, ["localhost"])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / secure.AUTHORITY))
    monkeypatch.setenv("no_proxy", "localhost")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(tokens, "LoginOptions", partial(tokens.LoginOptions, seconds=30))
    handler = _LocalIssuer
    handler.folder, handler.key, handler.grants = tmp_path, issuer.read_key(tmp_path), {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / secure.CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    handler.url = f"https://localhost:{server.server_address[1]}"
    edit(sample, CLUSTER, ENDPOINTS, "")
    edit(
        sample,
        CLUSTER,
        DECLARED,
        f"    issuer: {handler.url}\n    clientID: allotment\n    cliClientID: allotment-cli\n",
    )
    place.merge()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    trusted = ssl.create_default_context(cafile=str(tmp_path / secure.AUTHORITY))
    yield Provider(handler.url, trusted, TokenStore.open_default(), handler, DeclarationsClone(sample).origin_url)
    server.shutdown()
    server.server_close()


Browse = Callable[[Callable[[str], object]], None]


@pytest.fixture
def browse(monkeypatch: pytest.MonkeyPatch) -> Browse:
    """Return what installs a browser: a function that gets the URL of the login."""
    return lambda opened: monkeypatch.setattr("webbrowser.open", opened)


def visit(url: str) -> tuple[int, str]:
    """Return the status and the body that the callback answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def run(allot: Allot, sample: Path, *words: str) -> Result:
    return allot("login", "eu-1", "--repo", sample, *words)


def log_in(allot: Allot, sample: Path, provider: Provider, browse: Browse, person: str = "ada", *words: str) -> Result:
    browse(lambda url: visit(provider.authorize(url, person)))
    return run(allot, sample, *words)


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def expire(provider: Provider, **changed: Any) -> StoredTokens:
    """Let the stored ID token be an expired one; return the tokens that were stored."""
    stored = provider.store.read(provider.key)
    assert stored is not None
    fields = {**msgspec.structs.asdict(stored), "expires_at": time.time() + 5}
    with provider.store.lock():
        provider.store.write(provider.key, StoredTokens(**{**fields, **changed}))
    return stored


def test_a_login_stores_a_token_that_is_printed(allot: Allot, sample: Path, provider: Provider, browse: Browse) -> None:
    result = log_in(allot, sample, provider, browse)
    assert (result.code, result.out) == (
        0,
        "You are logged in as ada at the hosts below eu-1.gpu.northlight.example.\n",
    )
    assert result.err.startswith(f"Log in at {provider.url}/authorize?response_type=code&client_id=allotment-cli&")
    printed = run(allot, sample, "--print-token")
    assert (printed.code, printed.err) == (0, "")
    claims = claims_of(printed.out.strip())
    assert (claims["aud"], claims["sub"], claims["iss"]) == (issuer.PUBLIC_CLIENT, "ada", provider.url)
    path = provider.store.path
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sorted(file.name for file in path.parent.iterdir()) == ["tokens.json", "tokens.lock"]


def test_the_url_of_a_login_has_a_fresh_state_nonce_and_challenge(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    queries = []

    def opened(url: str) -> None:
        queries.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        visit(provider.authorize(url, "ada"))

    for _ in range(2):
        browse(opened)
        assert run(allot, sample).code == 0
    for name in ("state", "nonce", "code_challenge"):
        assert len({query[name] for query in queries}) == 2 and all(len(query[name]) >= 43 for query in queries)
    assert (queries[0]["scope"], queries[0]["code_challenge_method"]) == ("openid groups", "S256")
    assert urlsplit(queries[0]["redirect_uri"])._replace(netloc="").geturl() == "http:///callback"


def test_declared_endpoints_are_used(
    allot: Allot, place: Place, sample: Path, provider: Provider, browse: Browse
) -> None:
    wrong = f"    endpoints:\n      authorization: {provider.url}/authorize\n      token: {provider.url}/nowhere\n"
    edit(sample, CLUSTER, "    cliClientID: allotment-cli\n", f"    cliClientID: allotment-cli\n{wrong}")
    place.merge()
    assert log_in(allot, sample, provider, browse).code == 0, "the issuer answers each POST request"


def test_an_unmerged_provider_gets_no_login(
    allot: Allot, place: Place, sample: Path, provider: Provider, browse: Browse
) -> None:
    evil = f"    endpoints:\n      authorization: {provider.url}/authorize\n      token: https://evil.example/token\n"
    edit(sample, CLUSTER, "    cliClientID: allotment-cli\n", f"    cliClientID: allotment-cli\n{evil}")
    git(sample, "checkout", "-q", "-b", "mine")
    git(sample, "-c", "user.name=Eve", "-c", "user.email=eve@evil.example", "commit", "-q", "-a", "-m", "Mine")
    assert log_in(allot, sample, provider, browse).code == 0
    stored = provider.store.read(provider.key)
    assert stored is not None
    assert stored.token_endpoint == f"{provider.url}/token"
    printed = run(allot, sample, "--print-token")
    assert (printed.code, printed.out) == (2, "")
    assert "there is no login for cluster eu-1" in printed.err
    git(sample, "remote", "remove", "origin")
    result = run(allot, sample)
    assert (result.code, result.out) == (2, "")
    assert (
        "merged declarations of the remote origin, and this clone has none of this name: `git remote add" in result.err
    )


@pytest.mark.parametrize(
    ("person", "problem"),
    [
        ("late", "it has expired, or has no valid exp"),
        ("timeless", "it has expired, or has no valid exp"),
        ("eternal", "it has expired, or has no valid exp"),
        ("odd", "nonce is not that of this login"),
        ("replayed", "nonce is not that of this login"),
        ("foreign", "aud is 'another-client', must contain allotment-cli"),
        ("party", "azp is 'another-client', must be allotment-cli"),
        ("evil", "iss is 'https://evil.example', must be https://localhost:"),
    ],
)
def test_a_wrong_id_token_is_not_stored(
    person: str, problem: str, allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    result = log_in(allot, sample, provider, browse, person)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert not provider.store.path.exists()


def test_a_token_with_a_line_break_is_neither_stored_nor_used(
    allot: Allot, sample: Path, provider: Provider, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An HTTP library refuses such a header with an error that contains the token."""
    assert log_in(allot, sample, provider, browse).code == 0
    stored = expire(provider, id_token="head.SECRETBODY.SIGNATURE\nSECOND", expires_at=time.time() + 3600)
    printed = run(allot, sample, "--print-token")
    assert (printed.code, claims_of(printed.out)["sub"]) == (0, claims_of(stored.id_token)["sub"])
    assert len(printed.out.splitlines()) == 1
    issued = tokens.request_tokens

    def break_line(endpoint: str, form: dict[str, str]) -> dict[str, Any]:
        response = issued(endpoint, form)
        return {**response, "id_token": response["id_token"] + "\nSECOND"}

    monkeypatch.setattr(tokens, "request_tokens", break_line)
    result = log_in(allot, sample, provider, browse)
    assert (result.code, "returned no ID token" in result.err, "SECOND" in result.err) == (2, True, False)


def test_a_token_for_several_audiences_is_accepted(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    assert log_in(allot, sample, provider, browse, "many").code == 0


def test_a_refusal_of_the_provider_ends_the_login(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    pages: queue.Queue[tuple[int, str]] = queue.Queue()  # the browser is a thread of its own

    def opened(url: str) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        refusal = {"error": "access_denied", "error_description": "not\x1b[2J you", "state": query["state"]}
        pages.put(visit(f"{query['redirect_uri']}?{urlencode(refusal)}"))

    browse(opened)
    result = run(allot, sample)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"{provider.url} refused the login: access_denied: not\\x1b[2J you\n")
    status, page = pages.get(timeout=30)
    assert status == 200 and "The login failed" in page


def test_an_answer_that_no_file_can_hold_is_refused(
    allot: Allot, sample: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"issuer": provider.url, "authorization_endpoint": "https://\ud800", "token_endpoint": "https://a"}
    monkeypatch.setattr(provider.handler, "_discovery", lambda _: document)
    result = run(allot, sample)
    assert (result.code, result.out) == (2, "")
    assert "answers with something else than a JSON object" in result.err


def test_a_response_with_another_state_is_ignored(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    """A page that guesses the port neither ends a login nor logs the person in as somebody else."""
    pages = []

    def opened(url: str) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        wrong = ({"code": "stolen", "state": "x"}, {"code": "stolen"}, {"error": "access_denied", "state": "ß"})
        pages.extend(visit(f"{query['redirect_uri']}?{urlencode(response)}")[0] for response in wrong)
        pages.append(visit(query["redirect_uri"].replace("/callback", "/"))[0])
        visit(provider.authorize(url, "ada"))

    browse(opened)
    assert run(allot, sample).code == 0
    assert pages == [400, 400, 400, 404]


def test_nobody_who_logs_in_is_an_error(
    allot: Allot, sample: Path, provider: Provider, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = read_cluster(FolderSource(sample), "eu-1")
    assert cluster is not None
    with pytest.raises(tokens.OperationRefused, match="nobody logged in within 0 s"):
        tokens.log_in(cluster, provider.repository, tokens.LoginOptions(lambda url: None, seconds=0.01))
    assert tokens.LOGIN_SECONDS == 300


def test_a_port_that_is_taken_is_an_error(allot: Allot, sample: Path, provider: Provider, browse: Browse) -> None:
    port = provider.url.rpartition(":")[2]
    result = log_in(allot, sample, provider, browse, "ada", "--port", port)
    assert (result.code, result.out) == (2, "")
    assert (
        f"no server can listen at port {port} of 127.0.0.1: Address already in use; choose another --port" in result.err
    )


def test_an_expired_token_is_refreshed(allot: Allot, sample: Path, provider: Provider, browse: Browse) -> None:
    log_in(allot, sample, provider, browse)
    before = expire(provider)
    printed = run(allot, sample, "--print-token")
    assert printed.code == 0
    stored = provider.store.read(provider.key)
    assert stored is not None and printed.out == f"{stored.id_token}\n"
    assert stored.refresh_token not in ("", before.refresh_token)


def test_another_domain_or_endpoint_in_a_checkout_gets_no_token(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    log_in(allot, sample, provider, browse)
    edit(sample, CLUSTER, "domain: eu-1.gpu.northlight.example", "domain: evil.example")
    printed = run(allot, sample, "--print-token")
    assert (printed.code, printed.out) == (2, "")
    assert "there is no login for cluster eu-1" in printed.err
    edit(sample, CLUSTER, "domain: evil.example", "domain: eu-1.gpu.northlight.example")
    evil = "    endpoints:\n      authorization: https://127.0.0.1:9/a\n      token: https://127.0.0.1:9/t\n"
    edit(sample, CLUSTER, "    cliClientID: allotment-cli\n", f"    cliClientID: allotment-cli\n{evil}")
    expire(provider)
    printed = run(allot, sample, "--print-token")
    assert (printed.code, printed.out) == (2, "")
    assert "there is no login for cluster eu-1" in printed.err


def test_another_cloud_or_cluster_of_the_person_gets_no_token(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    """A branch of one cloud copies what another cloud declares, and so names its issuer, client and domain."""
    log_in(allot, sample, provider, browse)
    content = (sample / CLUSTER).read_text()
    (sample / "clusters/us-1/cluster.yaml").write_text(content.replace("name: eu-1", "name: us-1"))
    printed = allot("login", "us-1", "--repo", sample, "--print-token")
    assert (printed.code, printed.out) == (2, "")
    url = git(sample, "remote", "get-url", "origin").strip()
    git(sample, "remote", "set-url", "origin", f"{url}-of-another-cloud")
    for words in (["--print-token"], ["--remove"]):
        assert run(allot, sample, *words).out in ("", "There was no login.\n")
    git(sample, "remote", "set-url", "origin", url)
    assert run(allot, sample, "--print-token").code == 0


def test_two_processes_refresh_a_token_once(allot: Allot, sample: Path, provider: Provider, browse: Browse) -> None:
    """A refresh token is for one use: the second process must wait for the tokens of the first."""
    log_in(allot, sample, provider, browse)
    expire(provider)
    cluster = read_cluster(FolderSource(sample), "eu-1")
    assert cluster is not None
    with ThreadPoolExecutor(8) as pool:  # each call opens the file of the lock anew, as a process does
        printed = set(pool.map(lambda _: tokens.read_token(cluster, provider.repository), range(8)))
    assert len(printed) == 1


def test_a_login_that_has_ended_names_the_command(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    missing = run(allot, sample, "--print-token")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == "allot: there is no login for cluster eu-1: run `allot login eu-1`\n"
    log_in(allot, sample, provider, browse)
    expire(provider, refresh_token="")
    assert run(allot, sample, "--print-token").err == (
        "allot: your login for cluster eu-1 has expired: run `allot login eu-1`\n"
    )
    expire(provider, refresh_token="revoked")
    assert run(allot, sample, "--print-token").err == (
        f"allot: your login for cluster eu-1 has ended ({provider.url}/token issues no token: invalid_grant: expired\\x1b[2J):"
        " run `allot login eu-1`\n"
    )


def test_a_refresh_for_another_person_is_refused(
    allot: Allot, sample: Path, provider: Provider, browse: Browse
) -> None:
    log_in(allot, sample, provider, browse)
    stored = expire(provider)
    provider.handler.grants[stored.refresh_token]["person"] = "many"
    result = run(allot, sample, "--print-token")
    assert (result.code, result.out) == (2, "")
    assert "sub names another person than the login" in result.err


def test_an_issuer_that_is_down_is_an_error(
    allot: Allot, sample: Path, provider: Provider, browse: Browse, tmp_path: Path
) -> None:
    log_in(allot, sample, provider, browse)
    expire(provider)
    (tmp_path / issuer.DOWN).touch()
    result = run(allot, sample, "--print-token")
    assert (result.code, result.out) == (2, "")
    assert "/token doesn't answer" in result.err


def test_a_login_is_removed(allot: Allot, sample: Path, provider: Provider, browse: Browse) -> None:
    log_in(allot, sample, provider, browse)
    assert run(allot, sample, "--remove").out == "The login is removed.\n"
    assert run(allot, sample, "--remove").out == "There was no login.\n"
    assert run(allot, sample, "--print-token").code == 2


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"a": {"id_token": 3}}', b"[" * 100_000])
def test_a_damaged_file_is_an_error(content: bytes, allot: Allot, sample: Path, provider: Provider) -> None:
    provider.store.path.parent.mkdir(parents=True)
    provider.store.path.write_bytes(content)
    for words in (["--print-token"], ["--remove"]):
        result = run(allot, sample, *words)
        assert (result.code, result.out) == (2, "")
        assert "tokens.json " in result.err and result.err.endswith(
            ": remove it, and log in again with `allot login`\n"
        )


def test_a_file_that_cannot_be_read_is_an_error(allot: Allot, sample: Path, provider: Provider) -> None:
    provider.store.path.mkdir(parents=True)
    result = run(allot, sample, "--print-token")
    remedy = "remove it, and log in again with `allot login`"
    assert (result.code, result.err) == (2, f"allot: {provider.store.path} can't be read: Is a directory: {remedy}\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("us-1",),
            "cluster us-1 admits only browsers: the platform team can declare spec.oidc.cliClientID in clusters/us-1",
        ),
        (("us-1", "--print-token"), "cluster us-1 admits only browsers"),
        (("eu-9",), "no cluster is named 'eu-9'; did you mean 'eu-1'?"),
        (("eu-1", "--print-token", "--remove"), "exclude each other"),
        (("eu-1", "--port", "70000"), "'70000' is not a whole number from 0 to 65535"),
    ],
)
def test_a_wrong_call_is_an_error(words: tuple[str, ...], problem: str, allot: Allot, sample: Path) -> None:
    result = allot("login", *words, "--repo", sample)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
