"""Wrong and hostile answers of a forge: each is a ForgeError in one short line, without the token."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple

import pytest

from allotment.adapters import forge as forges
from allotment.adapters.forge.forge import Forge, ForgeError, PullRequest, PullRequestHead, Token

pytestmark = pytest.mark.process


TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"  # as long as a real token, so that an error may cut it
MAX_LENGTH = 600
START = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
FIELDS = {"login": TOKEN, "username": 1, "id": TOKEN, "number": [], "head": [], "base": TOKEN, "updated_at": TOKEN}
SIDE = {"sha": 1, "ref": "b", "label": "b", "repo_id": 1}
PULL = {
    "number": TOKEN, "iid": TOKEN, "state": "open", "merged": False, "head": SIDE, "base": SIDE, "sha": 3,
    "updated_at": TOKEN, "created_at": TOKEN, "html_url": 5, "web_url": 5, "target_branch": "main",
}  # fmt: skip
BODIES = {
    "html": b"<html>no</html>",
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "numbers": b"[1, 2]",
    "text": b'"x"',
    "number": b"7",
    "object": b"{}",
    "deep": b"[" * 100_000,
    "huge": b'"' + b"x" * 30_000 + b'"',
    "control characters": b'"\\u001b[31m\\u0000"',
    "wrong fields": json.dumps(FIELDS).encode(),
    "wrong pull request": json.dumps(
        {**PULL, "iid": 1, "number": 1, "source_project_id": 1, "target_project_id": 1}
    ).encode(),
    "infinite number": b'{"number": 1e999, "iid": 1e999, "id": 1e999, "head": {"sha": ""}, "base": {"ref": "", "sha": ""}}',
    "wrong pull requests": json.dumps([PULL]).encode(),
    "late token": json.dumps({"message": f"{'y' * 180}{TOKEN}"}).encode(),
    "message": json.dumps({"message": f"bad {TOKEN} \x1b[31m{'y' * 5000}"}).encode(),
    "list of messages": json.dumps([{"message": TOKEN}]).encode(),
    "object as message": json.dumps({"message": {"token": [TOKEN]}}).encode(),
}


class WrongAnswer(NamedTuple):
    status: int
    body: str
    headers: Mapping[str, str] = MappingProxyType({})
    reason: str | None = None


ANSWERS = [
    *(WrongAnswer(200, body) for body in BODIES),
    *(
        WrongAnswer(status, body)
        for status in (401, 403, 404, 422, 500)
        for body in ("message", "list of messages", "html")
    ),
    WrongAnswer(401, "html", reason=f"Bad {TOKEN}"),
    WrongAnswer(403, "message", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "\xb2"}),
    WrongAnswer(403, "message", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 400}),
    *(
        WrongAnswer(429, "message", {"Retry-After": value})
        for value in (
            "soon",
            "9" * 400,
            "\xb2",
            "Fri, 31 Dec 1999 23:59:59 -0000",
            "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
        )
    ),
]
CALLS: dict[str, Callable[[Forge], object]] = {
    "identity": lambda forge: forge.identity(),
    "pull_request": lambda forge: forge.pull_request(1),
    "fork": lambda forge: forge.fork(),
    "find_pull_requests": lambda forge: list(forge.find_pull_requests(PullRequestHead("b"))),
    "open_pull_requests": lambda forge: list(forge.open_pull_requests("main")),
    "merged_since": lambda forge: list(forge.merged_since("main", START)),
    "approvals": lambda forge: forge.approvals(1, "0" * 40),
    "members": lambda forge: forge.members("@acme/platform"),
    "list_comments": lambda forge: list(forge.list_comments(1)),
    "list_statuses": lambda forge: list(forge.list_statuses("0" * 40)),
    "create_pull_request": lambda forge: forge.create_pull_request(PullRequestHead("b"), "main", "Title", "Body"),
}


class HostileForge:
    """A server that gives `answer` to each request."""

    def __init__(self) -> None:
        self.answer = WrongAnswer(200, "null")
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                data = BODIES[hostile.answer.body]
                self.send_response(hostile.answer.status, hostile.answer.reason)
                headers = {
                    **hostile.answer.headers,
                    "Content-Type": "application/json",
                    "Content-Length": str(len(data)),
                }
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                self.do_GET()

            def do_PATCH(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def hostile() -> Iterator[HostileForge]:
    hostile_forge = HostileForge()
    threading.Thread(target=hostile_forge.server.serve_forever, args=(0.01,), daemon=True).start()
    yield hostile_forge
    hostile_forge.server.shutdown()
    hostile_forge.server.server_close()


@pytest.mark.parametrize("kind", ["GitHub", "GitLab", "Gitea"])
@pytest.mark.parametrize(
    "answer", ANSWERS, ids=lambda answer: f"{answer.status} {answer.body} {[*answer.headers.values()]}"[:40]
)
def test_a_wrong_answer_is_an_error_of_the_forge_without_the_token(
    answer: WrongAnswer, kind: str, hostile: HostileForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.adapters.forge.github.WRITE_SECONDS", 0.0)
    monkeypatch.setattr("allotment.adapters.forge.gitea._MAX_PAGES", 5)  # the server's lists have no end
    hostile.answer = answer
    results = [try_call(kind, hostile, call) for call in CALLS.values()]
    errors = [str(result) for result in results if isinstance(result, ForgeError)]
    assert errors, "no call noticed the answer"
    for text in errors:
        assert TOKEN[:8] not in text
        assert (len(text) < MAX_LENGTH, "\n" in text, "\x1b" in text) == (True, False, False)
    for result in results:
        for pull in result if isinstance(result, list) else [result]:
            assert not isinstance(pull, PullRequest) or (isinstance(pull.url, str) and isinstance(pull.number, int))


def try_call(kind: str, hostile: HostileForge, call: Callable[[Forge], object]) -> object:
    """Return the result of a call, or its ForgeError. Any other error is a failure of the test."""
    forge = forges.connect(kind, "https://forge.example/acme/gpus", Token(TOKEN), hostile.url)
    try:
        return call(forge)
    except ForgeError as error:
        return error
