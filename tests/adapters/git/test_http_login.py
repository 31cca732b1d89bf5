"""The login at a Git server: the server gets it, and no error shows it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.published import git

from allotment.adapters.git.http_login import HttpLogin
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.processes import Limit
from allotment.problems import OperationRefused

TOKEN = "s3cret-token-4711"
PAIR = base64.b64encode(f"bot:{TOKEN}".encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    """Refuses each request, and repeats its login in the answer."""

    status = 403
    padding = ""
    login_counts: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        login = self.headers.get("Authorization", "")
        self.login_counts.append(len(self.headers.get_all("Authorization", [])))
        data = f"{login} is {base64.b64decode(login.split()[-1]).decode() if login else ''}, refused {self.padding}\n".encode()
        self.send_response(self.status)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/acme/gpus.git"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("in_url", [True, False])
@pytest.mark.parametrize("action", ["push", "look", "fetch", "fetch_limited"])
def test_a_server_that_repeats_the_login_does_not_reveal_it(
    action: str, in_url: bool, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "-c", "user.name=Ada", "-c", "user.email=ada@x", "commit", "-q", "--allow-empty", "-m", "First")
    repository = Repository(tmp_path)
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    if in_url:
        remote = Remote(repository, url.replace("://", f"://bot:{TOKEN}@"))
    else:
        remote = Remote(repository, url, login=HttpLogin("bot", TOKEN))
    with pytest.raises(OperationRefused) as caught:
        if action == "push":
            remote.push({"refs/heads/new": repository.resolve_named_commit("HEAD")})
        elif action == "fetch_limited":
            remote.fetch_limited(Limit(60, 1024), "refs/heads/main", "1" * 40)
        elif action == "look":
            remote.look("refs/heads/main")
        else:
            remote.fetch("refs/heads/main")
    text = str(caught.value)
    assert "Basic *** is bot:***, refused" in text, text
    assert (TOKEN in text, PAIR in text) == (False, False)
    arguments = (tmp_path / "trace").read_text()
    assert (url in arguments, TOKEN in arguments) == (True, False), "other users can see the arguments of a process"


def test_a_token_in_place_of_the_name_is_not_shown(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git asks for the password of this name, and shows the URL with it where it can't ask."""
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", url.replace("://", f"://{TOKEN}@"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setattr(_Handler, "status", 401)
    with pytest.raises(OperationRefused) as caught:
        Remote(Repository(tmp_path), "origin").look("refs/heads/main")
    assert "denies access" in str(caught.value)
    assert TOKEN not in str(caught.value)
    monkeypatch.setattr(_Handler, "status", 403)
    with pytest.raises(OperationRefused) as caught:
        Remote(Repository(tmp_path), url.replace("://", f"://{TOKEN}:x-oauth-basic@")).look("refs/heads/main")
    assert "refused" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in (tmp_path / "trace").read_text(), "other users can see the arguments of a process"


def test_a_long_answer_is_not_cut_within_a_secret(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    remote = Remote(Repository(tmp_path), url, login=HttpLogin("bot", TOKEN))
    shown = set[str]()
    for length in range(560, 800, 3):
        monkeypatch.setattr(_Handler, "padding", "p" * length)
        with pytest.raises(OperationRefused) as caught:
            remote.look("HEAD")
        shown.add(str(caught.value))
    assert len(shown) > 40
    leaks = [text for text in shown for secret in (TOKEN, PAIR) if any(secret[at:] in text for at in range(8))]
    assert leaks == []


def test_another_login_of_the_host_is_not_sent(url: str, tmp_path: Path) -> None:
    """The checkout of a CI job leaves the login of the job for its host in the configuration of the clone."""
    git(tmp_path, "init", "-q", "-b", "main")
    host = url.removesuffix("acme/gpus.git")
    git(tmp_path, "config", f"http.{host}.extraHeader", "Authorization: Basic am9iOmpvYg==")
    with pytest.raises(OperationRefused) as caught:
        Remote(Repository(tmp_path), url, login=HttpLogin("bot", TOKEN)).look("refs/heads/main")
    assert "Basic *** is bot:***, refused" in str(caught.value)
    assert _Handler.login_counts[-1] == 1


def test_a_login_in_the_url_of_a_named_remote_is_in_no_argument(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", url.replace("://", f"://bot:{TOKEN}@"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    remote = Remote(Repository(tmp_path), "origin")
    with pytest.raises(OperationRefused) as caught:
        remote.look("refs/heads/main")
    assert str(caught.value).startswith("'origin' denies access: ")
    assert "Basic *** is bot:***, refused" in str(caught.value)
    assert remote.display_url == f"origin ({url})"
    arguments = (tmp_path / "trace").read_text()
    assert (url in arguments, TOKEN in arguments) == (True, False)


def test_a_token_in_a_rewritten_url_is_not_shown(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    host = url.removesuffix("acme/gpus.git")
    git(tmp_path, "config", f"url.{host.replace('://', f'://{TOKEN}@')}.insteadOf", host)
    git(tmp_path, "remote", "add", "origin", url)
    monkeypatch.setattr(_Handler, "status", 401)
    with pytest.raises(OperationRefused) as caught:
        Remote(Repository(tmp_path), "origin").look("refs/heads/main")
    assert f"could not read Password for '{host.rstrip('/')}'" in str(caught.value)
    assert TOKEN not in str(caught.value)


class _Redirect(BaseHTTPRequestHandler):
    """Sends each request to another server."""

    target: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", f"{self.target}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_setting_of_the_person_for_the_host_makes_no_login_follow_a_redirect(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Redirect, "target", url.removesuffix("/acme/gpus.git"))
    monkeypatch.setattr(_Handler, "login_counts", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), _Redirect) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = f"http://127.0.0.1:{server.server_address[1]}"
        git(tmp_path, "init", "-q", "-b", "main")
        git(tmp_path, "config", f"http.{host}.followRedirects", "true")
        with pytest.raises(OperationRefused, match="write the URL to which the server redirects"):
            Remote(Repository(tmp_path), f"{host}/acme/gpus.git", login=HttpLogin("bot", TOKEN)).look("HEAD")
        server.shutdown()
    assert _Handler.login_counts == [], "the other server gets no request"


def test_a_remote_with_another_url_for_pushes_keeps_it(url: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "init", "-q", "--bare", "pushed.git")
    git(tmp_path, "-c", "user.name=Ada", "-c", "user.email=ada@x", "commit", "-q", "--allow-empty", "-m", "First")
    git(tmp_path, "remote", "add", "origin", url.replace("://", f"://bot:{TOKEN}@"))
    git(tmp_path, "remote", "set-url", "--push", "origin", str(tmp_path / "pushed.git"))
    assert Remote(Repository(tmp_path), "origin").push({"refs/heads/new": git(tmp_path, "rev-parse", "HEAD")})
    assert git(tmp_path / "pushed.git", "rev-parse", "new") == git(tmp_path, "rev-parse", "HEAD")


@pytest.mark.parametrize("userinfo", ["bot:ab'c", "shorttok'x"])
def test_a_quote_in_a_password_shows_nothing_of_it(userinfo: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    url = "http://127.0.0.1:9/acme/gpus.git"
    remote = Remote(Repository(tmp_path), url.replace("://", f"://{userinfo}@"))
    with pytest.raises(OperationRefused) as caught:
        remote.look("HEAD")
    assert str(remote) == url
    assert (userinfo in str(caught.value), "ab'c" in str(caught.value)) == (False, False)


def test_a_remote_with_a_slash_in_its_name_has_no_password_in_arguments(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "team/mirror", url.replace("://", f"://bot:{TOKEN}@"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    with pytest.raises(OperationRefused, match="'team/mirror' denies access"):
        Remote(Repository(tmp_path), "team/mirror").look("HEAD")
    assert TOKEN not in (tmp_path / "trace").read_text()


def test_the_first_of_several_urls_counts_and_git_handles_them(url: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", "https://good.example/acme/gpus")
    git(tmp_path, "remote", "set-url", "--add", "origin", url.replace("://", f"://bot:{TOKEN}@"))
    repository = Repository(tmp_path)
    assert repository.git.url_of("origin") == "https://good.example/acme/gpus"
    assert Remote(repository, "origin").url == "origin"
